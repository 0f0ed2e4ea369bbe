"""Certificates for TLS tests, made on the spot: an authority, good ones, and the ways to be bad."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

# Of key stores; key files have none, unless they are given one.
STORE_PASSWORD = "changeit"

_NOW = datetime.datetime.now(datetime.timezone.utc)
_DAY = datetime.timedelta(days=1)
Extension = tuple[x509.ExtensionType, bool]
"""An extension, and whether it is critical."""


@dataclass(frozen=True)
class Identity:
    """A certificate and its key as PEM files."""

    cert_file: Path
    key_file: Path

    def server_context(self, client_authority: Path | None = None) -> ssl.SSLContext:
        """What a server with this identity shakes hands with; it may want a certificate of its clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert_file, self.key_file)
        if client_authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_authority)
        return context

    def store(self) -> Path:
        """Both once more as a PKCS #12 store, for Java."""
        key = serialization.load_pem_private_key(self.key_file.read_bytes(), None)
        certificate = x509.load_pem_x509_certificate(self.cert_file.read_bytes())
        encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        store = self.cert_file.with_suffix(".p12")
        store.write_bytes(
            pkcs12.serialize_key_and_certificates(b"broker", key, certificate, None, encryption)  # type: ignore[arg-type]
        )
        return store


class Authority:
    """Signs certificates; ``ca_file`` is its own, valid ``until`` from now on. Everything lies in ``folder``.

    It may be an intermediate one, whose certificate is signed by ``above``.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        above: Authority | None = None,
        until: datetime.timedelta = 10 * _DAY,
    ) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        # It signs data, certificates and lists of revoked ones.
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        self.ca_file = folder / f"{name}.pem"
        signer = above or self
        self.ca_file.write_bytes(signer._signed(name, self._key, until, (constraint, True), (usage, True)))

    def issue(
        self,
        subject: str = "127.0.0.1",
        *,
        until: datetime.timedelta = _DAY,
        password: str | None = None,
        alternative_name: bool = True,
    ) -> Identity:
        """A certificate for a host name or address, valid ``until`` from now on (negative: expired).

        Without ``alternative_name`` only its common name says for whom it is.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[Extension] = []
        if alternative_name:
            try:
                name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(subject))
            except ValueError:
                name = x509.DNSName(subject)
            extensions.append((x509.SubjectAlternativeName([name]), False))
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        # A number that no file here has yet.
        stem = f"{self._name}-{len(list(self._folder.iterdir()))}"
        identity = Identity(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")
        identity.cert_file.write_bytes(self._signed(subject, key, until, *extensions, (issuer, False)))
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        form = serialization.PrivateFormat.PKCS8
        identity.key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
        return identity

    def _signed(
        self, subject: str, key: ec.EllipticCurvePrivateKey, until: datetime.timedelta, *extensions: Extension
    ) -> bytes:
        own, issuer = (
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (subject, self._name)
        )
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = x509.CertificateBuilder(issuer, own, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(_NOW - 5 * _DAY).not_valid_after(_NOW + until)
        for extension, critical in ((identifier, False), *extensions):
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
