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


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


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
    """Signs certificates; ``ca_file`` is its own. Everything lies in ``folder``."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(_name(name), self._key, _NOW + 10 * _DAY)
        builder = builder.add_extension(constraint, True).add_extension(usage, True)
        self.ca_file = folder / f"{name}.pem"
        self.ca_file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

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
        builder = self._builder(_name(subject), key, _NOW + until)
        if alternative_name:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(subject)]), False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(identifier, False)
        stem = f"{self._name}-{len(list(self._folder.iterdir()))}"
        identity = Identity(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")
        identity.cert_file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        identity.key_file.write_bytes(_key_pem(key, password))
        return identity

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_name(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_NOW - 5 * _DAY)
            .not_valid_after(until)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        )


def _general_name(subject: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(subject))
    except ValueError:
        return x509.DNSName(subject)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, password: str | None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
