"""spark_stomp.frameserver: the memory of frames, and the key pair of a run."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone

from cryptography import x509

from spark_stomp.frameserver import client
from spark_stomp.frameserver.wire import new_key_pair


def addresses(*sizes: int) -> list[tuple[int, memoryview]]:
    pieces = [client._memory(size) for size in sizes]
    return [(memoryview(piece).obj.ctypes.data, piece) for piece in pieces]  # type: ignore[attr-defined]


class TestMemory:
    def test_it_is_used_again_once_nothing_refers_to_it(self) -> None:
        client._free.clear()
        [(first, held)] = addresses(100)
        part = held[10:20]
        [(second, other)] = addresses(100)
        assert second != first
        del held, other
        [(third, _)] = addresses(200)
        assert third == second
        del part
        [(fourth, _)] = addresses(300)
        assert fourth == first

    def test_it_has_the_size_that_is_asked_for(self) -> None:
        client._free.clear()
        for size in (0, 1, client._LEAST, client._LEAST + 1, client._KEPT + 1, 5):
            assert client._memory(size).nbytes == size

    def test_after_a_large_batch_it_is_given_back(self) -> None:
        client._free.clear()
        del addresses(client._KEPT + 1)[:]
        assert not client._free


def test_no_clock_is_so_wrong_that_the_key_pair_of_a_run_is_not_valid() -> None:
    found, now = x509.load_pem_x509_certificate(new_key_pair().certificate), datetime.now(timezone.utc)
    assert found.not_valid_before_utc < now - timedelta(days=20 * 365)
    assert found.not_valid_after_utc > now + timedelta(days=1000 * 365)


def test_a_key_pair_is_not_shown_and_travels_whole() -> None:
    made = new_key_pair()
    assert "BEGIN" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made
