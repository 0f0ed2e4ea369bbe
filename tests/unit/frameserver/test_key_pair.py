"""The key pair of a run: what is in it, and where its key is not."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone

from cryptography import x509

from spark_stomp.frameserver.client import KeyPair, new_key_pair


def certificate(made: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(made.certificate)


def test_no_clock_is_so_wrong_that_it_is_not_valid() -> None:
    found, now = certificate(new_key_pair()), datetime.now(timezone.utc)
    assert found.not_valid_before_utc < now - timedelta(days=20 * 365)
    assert found.not_valid_after_utc > now + timedelta(days=1000 * 365)


def test_it_is_not_shown_and_travels_whole() -> None:
    made = new_key_pair()
    assert "BEGIN" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made
