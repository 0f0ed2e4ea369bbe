"""Keys that outlive their frames."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.journals import SmallDisk, damage, local_journal, object_journal, objects

from spark_stomp.errors import JournalDamaged
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import Journal
from spark_stomp.journal.formats import KEYS

ALL = [MessageKey("/queue/ä", b"ID:%d" % number, b"d" * 16) for number in range(100)]
Open = Callable[..., Journal]


@pytest.fixture(params=["disk", "mount"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same journal again each time."""
    made: list[Journal] = []

    def one(max_remembered: int = 1_000, *, tolerant: bool = False) -> Journal:
        for journal in made:
            journal.close()
        kind = local_journal if request.param == "disk" else object_journal
        made.append(kind(tmp_path, tolerant=tolerant, max_remembered=max_remembered))
        return made[-1]

    yield one
    for journal in made:
        journal.close()


def test_what_was_appended_is_there_after_opening_again(opened: Open) -> None:
    journal = opened()
    journal.remember(ALL[:2])
    journal.remember(ALL[2:5])
    assert opened().remembered_keys == ALL[:5]
    # None twice.
    opened().remember(ALL[:1])
    assert opened().remembered_keys == ALL[:5]


def test_they_are_bounded_while_they_grow(opened: Open, tmp_path: Path) -> None:
    journal = opened(20)
    for key in ALL:
        journal.remember([key])
    assert journal.remembered_keys == ALL[-20:]
    assert len(objects(tmp_path, KEYS)) <= 65
    kept = opened().remembered_keys
    assert kept == ALL[-len(kept) :]
    assert 20 <= len(kept) <= 20 + 64
    assert opened(20).remembered_keys == ALL[-20:]


@pytest.mark.parametrize("how", ["damaged", "cut off"])
def test_damage_is_an_error_or_tolerated(
    opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    journal = opened()
    journal.remember(ALL[:2])
    journal.remember(ALL[2:4])
    first = objects(tmp_path, KEYS)[0]
    if how == "damaged":
        damage(first, 30)
    else:
        first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(JournalDamaged, match="second row"):
        opened()
    with caplog.at_level(logging.ERROR):
        assert opened(tolerant=True).remembered_keys == ALL[2:4]
    assert "second row" in caplog.text


@pytest.mark.parametrize("how", ["zeros", "cut off"])
def test_the_last_one_may_be_unfinished(opened: Open, tmp_path: Path, how: str) -> None:
    journal = opened()
    journal.remember(ALL[:2])
    journal.remember(ALL[2:4])
    last = objects(tmp_path, KEYS)[1]
    last.write_bytes(last.read_bytes()[:-1] if how == "cut off" else bytes(last.stat().st_size))
    journal = opened()
    assert journal.remembered_keys == ALL[:2]
    assert not last.exists()
    journal.remember(ALL[2:3])
    assert opened().remembered_keys == ALL[:3]


def test_without_room_for_one_in_place_of_many_it_goes_on(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SmallDisk(tmp_path, monkeypatch)
    journal = opened()
    for key in ALL[:64]:
        journal.remember([key])
    disk.fill(free=500)
    journal.remember(ALL[64:65])
    assert len(objects(tmp_path, KEYS)) == 65
    disk.size = 1 << 30
    journal.remember(ALL[65:66])
    assert len(objects(tmp_path, KEYS)) == 1
    assert opened().remembered_keys == ALL[:66]
