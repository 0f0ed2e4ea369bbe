"""The pair of a run: what is in it, and where its key is not."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from spark_stomp.frameserver.wire import NAME, Pair, new_pair


def certificate(made: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(made.certificate)


def test_it_is_self_signed_for_the_fixed_name() -> None:
    found = certificate(new_pair())
    found.verify_directly_issued_by(found)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NAME]


def test_its_key_is_the_certificates() -> None:
    made = new_pair()
    key = load_pem_private_key(made.key, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == certificate(made).public_key()


def test_no_clock_is_so_wrong_that_it_is_not_valid() -> None:
    found, now = certificate(new_pair()), datetime.now(timezone.utc)
    assert found.not_valid_before_utc < now - timedelta(days=20 * 365)
    assert found.not_valid_after_utc > now + timedelta(days=1000 * 365)


def test_each_is_another() -> None:
    one, two = new_pair(), new_pair()
    assert one.key != two.key
    assert certificate(one).serial_number != certificate(two).serial_number


def test_it_is_not_shown_and_travels_whole() -> None:
    made = new_pair()
    assert "BEGIN" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made
