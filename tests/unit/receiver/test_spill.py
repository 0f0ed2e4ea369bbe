"""The spill: what was put comes back, and space is given back while some of it is still in use."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_stomp.errors import DeliveryError
from spark_stomp.receiver.spill import SpilledBytes, SpillFile


@pytest.fixture
def spill(tmp_path: Path) -> Iterator[SpillFile]:
    made = SpillFile(str(tmp_path), segment_bytes=1_000)
    yield made
    made.close()


def put(spill: SpillFile, data: bytes) -> SpilledBytes:
    spilled = spill.put(data)
    assert spilled is not None
    return spilled


def test_what_was_put_comes_back(spill: SpillFile) -> None:
    blocks = [bytes([number]) * (100 + number) for number in range(50)]
    held = [put(spill, block) for block in blocks]
    assert [part.load() for part in held] == blocks
    assert spill.in_use == sum(map(len, blocks))


def test_a_backlog_that_never_empties_does_not_grow(spill: SpillFile) -> None:
    waiting: list[SpilledBytes] = []
    for number in range(1_000):
        waiting.append(put(spill, b"x" * 300))
        if number >= 5:
            waiting.pop(0).free()
        assert spill.on_disk <= 4_000
    assert spill.in_use == 5 * 300
    assert waiting[0].load() == b"x" * 300


def test_nothing_has_a_name(spill: SpillFile, tmp_path: Path) -> None:
    spill.put(b"secret")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match=r"missing.*stay on the broker.*lower maxSpillBytes or prefetch"):
        SpillFile(str(tmp_path / "missing")).put(b"x")


def test_a_full_disk_takes_nothing_and_what_is_there_stays(
    spill: SpillFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = put(spill, b"x" * 300)
    with monkeypatch.context() as full:
        full.setattr("os.pwrite", no_room)
        assert spill.put(b"y" * 300) is None
    second = put(spill, b"z" * 300)
    assert first.load() == b"x" * 300
    assert second.load() == b"z" * 300
    assert (spill.in_use, spill.on_disk) == (600, 600)


def no_room(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_two_threads_may_close_what_was_given_up(spill: SpillFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver's thread does it now and then, and the thread that ends the query."""
    put(spill, b"x" * 1_000).free()
    given_up = spill._given_up

    class Slow(list[object]):
        def __bool__(self) -> bool:
            there = len(self) > 0
            # Just now the other one was quicker.
            super().clear()
            return there

    monkeypatch.setattr(spill, "_given_up", Slow(given_up))
    spill.reclaim()
