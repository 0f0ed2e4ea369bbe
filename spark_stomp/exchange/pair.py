"""The pair of one run: a self-signed certificate and its key, by which exchange and tasks know each other.

It is made anew for each run of a query, and both sides present it and accept nothing else. So who has the key
is let in, and there is no authority, no host name and no expiry to look after. The key is in memory only.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from spark_stomp.errors import OptionError

# What the certificate is for, whatever the address of the exchange is.
NAME = "spark-stomp-exchange"
# A pair ends with its run, as no other exchange accepts it. So no clock need agree with another: the end is
# that of a certificate without one (RFC 5280, section 4.1.2.5).
_VALID_FROM = datetime(2000, 1, 1, tzinfo=timezone.utc)
_VALID_UNTIL = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)

# Seconds; it takes a few hundredths.
_LONGEST = 30.0
_CONFIG = """
[ca]
default_ca = exchange
[exchange]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = name
x509_extensions = extensions
[name]
commonName = supplied
[extensions]
subjectAltName = DNS:{name}
[req]
distinguished_name = asked
[asked]
"""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


def new_pair() -> Pair:
    """A new pair, made by ``cryptography`` if that is installed, else by the command ``openssl``.

    Raises OptionError if there is neither.
    """
    try:
        return _by_cryptography()
    except ImportError:
        pass
    try:
        return _by_openssl()
    except (OSError, subprocess.SubprocessError) as error:
        # The error of a command that failed quotes the command, and that holds no secret.
        raise OptionError(
            "the exchange needs a certificate for TLS, and nothing here can make one: the Python package "
            f"cryptography is not installed, and the command openssl failed ({error}); install one of them "
            "on the driver's machine (pip install 'spark-stomp[exchange]'), or set exchangeHost to 127.0.0.1 "
            "if all tasks run there, or exchangeTls=false to let messages pass the network in plain text"
        ) from error


def _by_cryptography() -> Pair:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALID_FROM)
        .not_valid_after(_VALID_UNTIL)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    unencrypted = serialization.NoEncryption()
    return Pair(
        certificate.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unencrypted),
    )


def _by_openssl() -> Pair:
    """With commands that old releases have, too. The key passes through pipes; no file ever holds it."""
    with tempfile.TemporaryDirectory(prefix="spark-stomp-") as made:
        folder = Path(made)
        (folder / "config").write_text(_CONFIG.format(name=NAME))
        (folder / "index").touch()
        key = _openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", folder)
        request = _openssl(f"req -new -config config -key /dev/stdin -subj /CN={NAME}", folder, key)
        (folder / "request").write_bytes(request)
        # Only `ca` takes the dates in every release.
        dates = f"-startdate {_VALID_FROM:%Y%m%d%H%M%SZ} -enddate {_VALID_UNTIL:%Y%m%d%H%M%SZ}"
        signed = f"ca -selfsign -batch -notext -config config -keyfile /dev/stdin -in request {dates}"
        return Pair(_openssl(signed, folder, key), key)


def _openssl(arguments: str, folder: Path, key: bytes = b"") -> bytes:
    """What the command says in ``folder``, whose path is in no argument: it may have spaces or signs."""
    command = ["openssl", *arguments.split(" ")]
    done = subprocess.run(command, cwd=folder, input=key, capture_output=True, check=True, timeout=_LONGEST)
    return done.stdout
