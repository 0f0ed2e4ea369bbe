"""Keys that outlive their frames."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.journals import Open, SmallDisk, damage, objects

from spark_stomp.errors import JournalDamaged
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal.formats import KEYS

ALL = [MessageKey("/queue/ä", b"ID:%d" % number, b"d" * 16) for number in range(100)]


@pytest.mark.rule("J.11")
def test_what_was_appended_is_there_after_opening_again(opened: Open) -> None:
    journal = opened()
    journal.remember(ALL[:2])
    journal.remember([])
    journal.remember(ALL[2:5])
    assert opened().remembered_keys == ALL[:5]
    # None twice, and the last time counts.
    opened().remember(ALL[:1])
    assert opened().remembered_keys == [*ALL[1:5], ALL[0]]


def test_they_are_bounded_while_they_grow(opened: Open, directory: Path) -> None:
    journal = opened(max_remembered=20)
    for key in ALL:
        journal.remember([key])
    assert journal.remembered_keys == ALL[-20:]
    assert len(objects(directory, KEYS)) <= 65
    kept = opened().remembered_keys
    assert kept == ALL[-len(kept) :]
    assert 20 <= len(kept) <= 20 + 64
    assert opened(max_remembered=20).remembered_keys == ALL[-20:]


@pytest.mark.parametrize("how", ["damaged", "cut off"])
def test_damage_is_an_error_or_tolerated(
    opened: Open, directory: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    journal = opened()
    journal.remember(ALL[:2])
    journal.remember(ALL[2:4])
    first = objects(directory, KEYS)[0]
    if how == "damaged":
        damage(first, 30)
    else:
        first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(JournalDamaged, match="second row"):
        opened()
    assert opened(tolerant=True).remembered_keys == ALL[2:4]
    assert "second row" in caplog.text


@pytest.mark.parametrize("how", ["zeros", "cut off"])
def test_the_last_one_may_be_unfinished(opened: Open, directory: Path, how: str) -> None:
    journal = opened()
    journal.remember(ALL[:2])
    journal.remember(ALL[2:4])
    last = objects(directory, KEYS)[1]
    last.write_bytes(last.read_bytes()[:-1] if how == "cut off" else bytes(last.stat().st_size))
    journal = opened()
    assert journal.remembered_keys == ALL[:2]
    assert not last.exists()
    journal.remember(ALL[2:3])
    assert opened().remembered_keys == ALL[:3]


def test_without_room_for_one_it_goes_on(
    opened: Open, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SmallDisk(directory, monkeypatch)
    journal = opened()
    for key in ALL[:64]:
        journal.remember([key])
    disk.fill(free=500)
    journal.remember(ALL[64:65])
    assert len(objects(directory, KEYS)) == 65
    disk.size = 1 << 30
    journal.remember(ALL[65:66])
    assert len(objects(directory, KEYS)) == 1
    assert opened().remembered_keys == ALL[:66]
