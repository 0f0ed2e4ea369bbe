"""The pair of one run: a self-signed certificate and its key, by which exchange and tasks know each other.

It is made anew for each run of a query, and both sides present it and accept nothing else. So who has the key
is let in, and there is no authority, no host name and no expiry to look after. The key is in memory only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone

# What the certificate is for, whatever the address of the exchange is.
NAME = "spark-stomp-exchange"
# A pair ends with its run, as no other exchange accepts it. So no clock need agree with another: the end is
# that of a certificate without one (RFC 5280, section 4.1.2.5).
_VALID_FROM = datetime(2000, 1, 1, tzinfo=timezone.utc)
_VALID_UNTIL = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


def new_pair() -> Pair:
    """A new pair."""
    # Here, because a task needs the class alone, and this import takes it a tenth of a second.
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
