"""What every journal does: on a local disk, on a mount, through pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.journals import batch_of, bodies, expected, local_journal, object_journal

from spark_stomp.errors import JournalTrimmed
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import Journal

Open = Callable[[], Journal]


@pytest.fixture(params=["local", "mount", "pyarrow"])
def open_journal(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    """Opens the same journal again each time. Its segments or objects are small, as far as it may cut."""
    monkeypatch.setattr("spark_stomp.journal.local.journal._SMALLEST_SEGMENT", 600)
    monkeypatch.setattr("spark_stomp.journal.objects.journal._SMALLEST_OBJECT", 600)
    opened: list[Journal] = []

    def one() -> Journal:
        if opened:
            opened[-1].close()
        if request.param == "local":
            opened.append(local_journal(tmp_path / "journal", max_bytes=4_800))
        else:
            through = request.param == "pyarrow"
            opened.append(object_journal(tmp_path / "journal", max_bytes=4_800, through_pyarrow=through))
        return opened[-1]

    yield one
    opened[-1].close()


@pytest.fixture
def journal(open_journal: Open) -> Journal:
    return open_journal()


def fill(journal: Journal, groups: int = 10) -> Journal:
    """Groups of 5 frames, each made durable alone."""
    for number in range(groups):
        journal.append([batch_of(5 * number, 3), batch_of(5 * number + 3, 2)])
    return journal


@pytest.mark.rule("J.3")
def test_positions_are_dense_over_runs_and_openings(open_journal: Open, journal: Journal) -> None:
    assert journal.append([batch_of(0, 3), batch_of(3, 2, receiver="b")]) == [0, 3]
    assert journal.append([batch_of(5, 1)]) == [5]
    assert (journal.first, journal.end) == (0, 6)
    again = open_journal()
    assert again.id == journal.id
    assert again.append([batch_of(6, 2)]) == [6]
    assert [batch.receiver for batch in again.batches(0, 8)] == [
        "/queue/a#0",
        "b",
        "/queue/a#0",
        "/queue/a#0",
    ]
    assert bodies(again.batches(0, 8)) == expected(0, 8)


@pytest.mark.parametrize("again", [False, True])
def test_every_range_gives_exactly_its_frames(open_journal: Open, journal: Journal, again: bool) -> None:
    fill(journal)
    journal = open_journal() if again else journal
    for low in range(51):
        for high in range(low, 51):
            batches = list(journal.batches(low, high))
            assert bodies(batches) == expected(low, high)
            assert [batch.first_sequence for batch in batches][:1] == ([low] if high > low else [])


@pytest.mark.parametrize("again", [False, True])
def test_sizes_are_those_of_the_frames(open_journal: Open, journal: Journal, again: bool) -> None:
    fill(journal)
    journal = open_journal() if again else journal
    sizes = [len(bytes(batch.data)) for number in range(50) for batch in journal.batches(number, number + 1)]
    for low in range(0, 51, 3):
        for high in range(low, 51, 2):
            whole = sum(sizes[low:high])
            assert journal.bytes_between(low, high) == whole
            for budget in (0, 1, sizes[0], whole - 1, whole, 10_000):
                end = journal.end_within(low, high, budget)
                assert sum(sizes[low:end]) <= max(budget, 0) or end == low
                assert end == high or sum(sizes[low : end + 1]) > budget


def test_an_append_larger_than_one_object(journal: Journal) -> None:
    positions = journal.append([batch_of(3 * number, 3) for number in range(10)])
    assert positions == list(range(0, 30, 3))
    assert bodies(journal.batches(0, 30)) == expected(0, 30)


def test_nothing_is_there_before_the_first_frame(journal: Journal) -> None:
    assert list(journal.batches(0, 0)) == []
    with pytest.raises(JournalTrimmed):
        journal.batches(0, 1)


class TestTrim:
    def test_whole_pieces_go_and_the_rest_stays(self, open_journal: Open, journal: Journal) -> None:
        fill(journal)
        before = journal.size
        journal.commit(23)
        journal.trim(23)
        assert 0 < journal.first <= 23
        assert journal.size < before
        assert bodies(journal.batches(23, 50)) == expected(23, 50)
        again = open_journal()
        assert (again.first, again.size) == (journal.first, journal.size)
        assert bodies(again.batches(23, 50)) == expected(23, 50)

    def test_what_is_gone_is_an_error(self, journal: Journal) -> None:
        fill(journal)
        journal.commit(23)
        journal.trim(23)
        with pytest.raises(JournalTrimmed, match=r"\[0, 5\)"):
            list(journal.batches(0, 5))
        with pytest.raises(JournalTrimmed, match=r"\[45, 51\)"):
            list(journal.batches(45, 51))
        assert journal.held(0, 50) == [(journal.first, 50)]

    @pytest.mark.rule("J.3")
    @pytest.mark.parametrize("appends", [0, 1])
    def test_the_next_position_is_never_forgotten(
        self, open_journal: Open, journal: Journal, appends: int
    ) -> None:
        fill(journal)
        for position in range(50, 51 + appends):
            journal.commit(position)
            journal.trim(position)
            if position < 50 + appends:
                journal.append([batch_of(position, 1)])
        # Also not if nothing comes between one opening and the next.
        open_journal()
        assert open_journal().append([batch_of(50 + appends, 1)]) == [50 + appends]


class TestCommitted:
    def test_it_becomes_durable_with_the_next_frames(self, open_journal: Open, journal: Journal) -> None:
        journal.append([batch_of(0, 5)])
        journal.commit(3)
        journal.append([batch_of(5, 1)])
        assert open_journal().committed == 3

    def test_or_with_a_flush(self, open_journal: Open, journal: Journal) -> None:
        journal.append([batch_of(0, 5)])
        journal.commit(5)
        journal.flush()
        assert open_journal().committed == 5
        assert open_journal().committed == 5

    def test_it_never_goes_back(self, journal: Journal) -> None:
        journal.append([batch_of(0, 5)])
        journal.commit(4)
        journal.commit(2)
        assert journal.committed == 4


def test_skipped_positions_are_not_held(journal: Journal) -> None:
    journal.append([batch_of(0, 5)])
    journal.skip(100)
    assert journal.append([batch_of(5, 5)]) == [100]
    assert journal.held(0, 200) == [(0, 5), (100, 105)]
    journal.skip(50)
    assert journal.end == 105


def test_bytes_are_counted_over_skipped_positions(journal: Journal) -> None:
    journal.append([batch_of(0, 5)])
    journal.skip(50)
    journal.skip(100)
    journal.append([batch_of(5, 5)])
    seven = journal.bytes_between(0, 102)
    assert seven == sum(batch_of(0, 7).ends[-1:])
    assert journal.end_within(0, 105, seven) == 102
    assert journal.end_within(0, 105, seven - 1) == 101


@pytest.mark.rule("J.11")
def test_remembered_keys_outlive_the_run(open_journal: Open, journal: Journal) -> None:
    key = MessageKey("/queue/a", b"ID:1", b"d" * 16)
    journal.remember([key])
    journal.remember([])
    assert open_journal().remembered_keys == [key]
