"""TLS on a connected socket. The certificate and the host name are verified unless told otherwise."""

from __future__ import annotations

import os
import re
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from spark_stomp.errors import ConnectFailed, ConnectTimeout, TlsRefused
from spark_stomp.logs import get_log
from spark_stomp.options.kinds import is_pem

if TYPE_CHECKING:
    from spark_stomp.options import TlsOptions

log = get_log(__name__)

# OpenSSL's X509_V_ERR_* codes.
_HOST_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
# What says nothing of who the two are: a broker that starts, stops or has a fault of its own, or a bad line.
_BROKEN_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_FAULTS = re.compile("INTERNAL_ERROR|BAD_RECORD_MAC|UNEXPECTED_MESSAGE|DECODE_ERROR|USER_CANCELLED")


@dataclass(frozen=True)
class TlsSession:
    """What both sides agreed on. ``expires`` is the end of the server's certificate; None if it was not
    checked."""

    version: str
    cipher: str
    expires: datetime | None

    @classmethod
    def of(cls, sock: ssl.SSLSocket) -> TlsSession:
        """The session of a socket whose handshake is done."""
        cipher = sock.cipher()
        # Without verification Python shows nothing of the certificate.
        end = (sock.getpeercert() or {}).get("notAfter")
        expires = datetime.fromtimestamp(ssl.cert_time_to_seconds(end), timezone.utc) if end else None  # type: ignore[arg-type]
        return cls(sock.version() or "", cipher[0] if cipher else "", expires)


def secure(sock: socket.socket, host: str, peer: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Do the TLS handshake within the socket's timeout; the server must prove to be ``host``.

    Raises TlsRefused, which names the fault of the certificate, ConnectTimeout, or ConnectFailed if the
    handshake was broken off.
    """
    if context.verify_mode is ssl.CERT_NONE:
        log.warning("tlsVerify = false: the certificate of %s is not checked; anybody could pose as it", peer)
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except TimeoutError as error:
        raise ConnectTimeout(f"{peer} did not finish the TLS handshake within connectTimeout") from error
    except ssl.SSLCertVerificationError as error:
        raise TlsRefused(
            f"the certificate of {peer} is not accepted: {error.verify_message}; {_remedy(error, host)}"
        ) from error
    except OSError as error:
        least = context.minimum_version.name.removeprefix("TLSv").replace("_", ".")
        if is_refusal(error):
            raise TlsRefused(f"no TLS with {peer} (tlsMinVersion is {least}): {error}") from error
        raise ConnectFailed(
            f"{peer} broke off the TLS handshake (tlsMinVersion is {least}): {error}"
        ) from error


def is_refusal(error: OSError) -> bool:
    """Whether an error of TLS will come again, as the two sides do not accept each other."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, _BROKEN_OFF):
        return False
    return not _FAULTS.search(error.reason or "")


def _remedy(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in (_HOST_MISMATCH, _ADDRESS_MISMATCH):
        return (
            f"url must name the broker as its certificate does, and {host} is not among its subject "
            "alternative names (a common name does not count)"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return "set tlsCaFile to the authority that signed it"
    return "the broker needs another certificate"


def tls_context(tls: TlsOptions) -> ssl.SSLContext:
    """The context that the options ask for. Raises TlsRefused, with the paths, if a file cannot be loaded."""
    key = tls.key_secret or tls.key_file
    ca_file, ca_text = (None, tls.ca_file) if is_pem(tls.ca_file or "") else (tls.ca_file, None)
    try:
        context = ssl.create_default_context(cafile=ca_file, cadata=ca_text)
        if tls.cert_file is not None:
            with _as_file(tls.cert_file) as cert_file, _as_file(key) as key_file:
                # Without a password OpenSSL would ask for it on the terminal.
                context.load_cert_chain(cert_file or "", key_file, tls.key_password or "")
    except OSError as error:
        named = (("tlsCaFile", tls.ca_file), ("tlsCertFile", tls.cert_file), ("tlsKeyFile", tls.key_file))
        shown = ", ".join(f"{name}={'(PEM text)' if is_pem(value or '') else value}" for name, value in named)
        raise TlsRefused(f"cannot load the TLS files ({shown}): {error}") from error
    context.minimum_version = _VERSIONS[tls.min_version]
    # Authorities check only the subject alternative names (RFC 9525, section 2).
    context.hostname_checks_common_name = False
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _as_file(value: str | None) -> Iterator[str | None]:
    """A path that OpenSSL, which loads certificates and keys from files alone, can read ``value`` from.

    PEM text lies in memory, if the platform has such files: a process that is killed leaves no key behind.
    Else it lies in a temporary file that only this user can open (0600).
    """
    if value is None or not is_pem(value):
        yield value
        return
    in_memory = hasattr(os, "memfd_create")
    with os.fdopen(os.memfd_create("pem"), "w") if in_memory else tempfile.NamedTemporaryFile("w") as file:
        file.write(value)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if in_memory else file.name
