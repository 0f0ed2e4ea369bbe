"""A certificate authority for one test run, and a certificate of the brokers for localhost and 127.0.0.1."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from support.brokers.process import run

__all__ = ["PASSWORD", "Certificates", "make_certificates"]

# Of the key store; the key files have none.
PASSWORD = "changeit"
_DAYS = ("-days", "2")
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Certificates(NamedTuple):
    """PEM files, and the certificate with its key once more as a PKCS #12 store (for Java)."""

    ca: Path
    certificate: Path
    key: Path
    store: Path


def make_certificates(folder: Path) -> Certificates:
    """Make them in ``folder``, valid from now for two days."""
    folder.mkdir()
    made = Certificates(*(folder / name for name in ("ca.pem", "broker.pem", "broker.key", "broker.p12")))
    ca_key = folder / "ca.key"
    _openssl("req", "-x509", *_KEY, "-keyout", ca_key, "-out", made.ca, "-subj", "/CN=test authority", *_DAYS)
    signed = ("-CA", made.ca, "-CAkey", ca_key, "-addext", _NAMES, "-addext", "basicConstraints=CA:FALSE")
    subject = ("-subj", "/CN=localhost", *_DAYS)
    _openssl("req", "-x509", *_KEY, *signed, "-keyout", made.key, "-out", made.certificate, *subject)
    store = ("-out", made.store, "-passout", f"pass:{PASSWORD}", "-certfile", made.ca)
    _openssl("pkcs12", "-export", "-in", made.certificate, "-inkey", made.key, *store)
    return made


def _openssl(*arguments: str | Path) -> None:
    run("openssl", *arguments, timeout=60)
