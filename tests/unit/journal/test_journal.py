"""What every journal does: on a disk, on a mount, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.journals import Open, batch_of, bodies, damage, expected, frame, local_journal, objects, reopened

from spark_stomp.errors import JournalDamaged, JournalError, JournalTrimmed, UnsupportedError
from spark_stomp.files import resolve
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal import Journal, JournalSettings
from spark_stomp.journal import open_journal as opened_at
from spark_stomp.journal.objects import FrameObjects
from spark_stomp.journal.store import Disk, FolderStore, RetryingStore


@pytest.fixture(params=["disk", "mount", "pyarrow"])
def open_journal(
    request: pytest.FixtureRequest, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    """Objects are small, as far as the journal may cut."""
    monkeypatch.setattr("spark_stomp.journal.journal._SMALLEST_OBJECT", 600)
    with reopened(request.param, directory, max_bytes=4_800) as one:
        yield one


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
    receivers = [batch.receiver for batch in again.batches(0, 8)]
    assert receivers == ["/queue/a#0", "b", "/queue/a#0", "/queue/a#0"]
    assert bodies(again.batches(0, 8)) == expected(0, 8)


@pytest.mark.parametrize("again", [False, True])
def test_every_range_gives_exactly_its_frames(open_journal: Open, journal: Journal, again: bool) -> None:
    fill(journal)
    journal = open_journal() if again else journal
    sizes = [len(bytes(batch.data)) for number in range(50) for batch in journal.batches(number, number + 1)]
    for low in range(51):
        for high in range(low, 51):
            batches = list(journal.batches(low, high))
            assert bodies(batches) == expected(low, high)
            assert [batch.first_number for batch in batches][:1] == ([low] if high > low else [])
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
    def test_the_next_run_knows_where_an_earlier_batch_ended(
        self, open_journal: Open, journal: Journal
    ) -> None:
        """So it keeps the last one: the checkpoint may be older."""
        for committed in (0, 5, 10):
            journal.commit(committed)
            journal.append([batch_of(committed, 5)])
        journal.commit(15)
        journal.flush()
        again = open_journal()
        assert (again.committed_before, again.committed) == (10, 15)

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


def test_what_was_skipped_is_nobodys_loss_once_it_is_committed(tmp_path: Path) -> None:
    with closing(local_journal(tmp_path)) as journal:
        journal.append([batch_of(0, 5)])
        journal.commit(90)
        journal.skip(100)
        journal.append([batch_of(5, 5)])
    with pytest.raises(JournalDamaged, match=r"\[90, 100\)"):
        local_journal(tmp_path)
    with closing(local_journal(tmp_path, tolerant=True)) as again:
        again.commit(100)
        again.flush()
    # Once that is committed the next run opens it without a word.
    with closing(local_journal(tmp_path)) as again:
        assert (again.end, again.committed, again.held(0, 200)) == (105, 100, [(100, 105)])


def test_positions_skipped_in_an_empty_journal_are_not_lost(open_journal: Open, journal: Journal) -> None:
    journal.skip(100)
    journal = open_journal()
    assert (journal.first, journal.committed, journal.end) == (100, 100, 100)


def test_what_was_acked_is_durable_with_a_flush(open_journal: Open, journal: Journal) -> None:
    journal.append([batch_of(0, 5)])
    journal.commit(1, acked=4)
    journal.flush()
    assert open_journal().acked == 4


class TestTrimmed:
    @pytest.mark.rule("J.11")
    def test_what_is_not_committed_stays(self, open_journal: Open, journal: Journal) -> None:
        fill(journal, 4)
        journal.commit(10)
        journal.trim(20)
        assert (journal.first, open_journal().first) == (10, 10)

    def test_few_objects_need_not_go(self, journal: Journal) -> None:
        fill(journal, 4)
        journal.commit(20)
        assert journal.can_trim(10, 2)
        assert not journal.can_trim(10, 3)
        assert not journal.can_trim(4)

    def test_while_it_is_read(self, journal: Journal) -> None:
        fill(journal, 4)
        frames = FrameObjects(journal._store)
        journal._frames = frames
        batches = journal.batches(0, 20)
        assert bodies([next(batches)]) == expected(0, 3)
        journal.commit(20)
        journal.trim(20)
        with pytest.raises(JournalTrimmed, match=r"\[5, 10\)"):
            list(batches)


class TestGathered:
    """How long the writer waits for more frames, on a disk."""

    @pytest.fixture
    def journal(self, tmp_path: Path) -> Iterator[Journal]:
        self.now = 100.0
        store = Disk(resolve(str(tmp_path / "journal")), reserve_bytes=1_000)
        settings = JournalSettings("disk", 1 << 30, max_remembered=1_000)
        with closing(Journal(settings, store, clock=lambda: self.now)) as journal:
            yield journal

    def test_from_the_last_append_on(self, journal: Journal) -> None:
        journal.append([batch_of(0, 5)])
        assert journal.linger == pytest.approx(0.02)
        self.now += 0.015
        assert journal.linger == pytest.approx(0.005)
        self.now += 0.015
        assert journal.linger == 0.0

    def test_longer_while_many_wait_for_a_spark_that_does_nothing(self, journal: Journal) -> None:
        journal.append([batch_of(0, 1_002)])
        self.now += 4.9
        journal.append([batch_of(1_002, 1)])
        assert journal.linger == pytest.approx(0.02)
        self.now += 0.11
        assert journal.linger == pytest.approx(0.09)
        journal.commit(1)
        assert journal.linger == 0.0
        self.now += 5.1
        journal.append([batch_of(1_003, 1)])
        assert journal.linger == pytest.approx(0.2)
        # A thousand are few.
        journal.commit(4)
        self.now += 5.1
        journal.append([batch_of(1_004, 0)])
        assert journal.linger == pytest.approx(0.02)

    def test_a_store_has_its_own_time(self, tmp_path: Path) -> None:
        assert RetryingStore(FolderStore(str(tmp_path)), resolve(str(tmp_path))).gather == 0.2


class TestMemory:
    def test_single_messages_share_entries_of_the_index(self, journal: Journal) -> None:
        """An entry for each would be most of what messages cost that come one by one."""
        name = FrameObjects(journal._store).put([batch_of(n, 1) for n in range(300)], 0, 0, journal.writer)
        frames = FrameObjects(journal._store)
        index = frames.index(name)
        assert len(index) <= name.size // (64 << 10) + 1
        for low, high in ((0, 300), (7, 8), (50, 52), (123, 299)):
            assert bodies(frames.batches(name, low, high)) == expected(low, high)
            sizes = [len(frame(number)) for number in range(low, high)]
            assert index.bytes_before(high) - index.bytes_before(low) == sum(sizes)
            assert index.number_within(index.bytes_before(low) + sum(sizes[:-1]), high) == high - 1

    def test_what_was_just_written_is_not_read(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(journal._store, "get", None)
        journal.append([batch_of(0, 5)])
        assert bodies(journal.batches(0, 5)) == expected(0, 5)
        assert journal.bytes_between(1, 3) > 0

    def test_what_is_kept_is_bounded(self, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(journal)
        sizes = [name.size for name in journal._objects]
        monkeypatch.setattr("spark_stomp.journal.objects._MAX_BYTES", 1_000)
        frames = FrameObjects(journal._store)
        for name in journal._objects:
            frames.index(name)
        # The newest ones, as many as there is room for.
        count = next(count for count in range(10) if sum(sizes[-count - 1 :]) > 1_000)
        assert len(frames._indexes) == 10
        assert sum(map(len, frames._contents.values())) == sum(sizes[-count:]) == frames._content_bytes
        read = (batch for name in journal._objects for batch in frames.batches(name, 0, 50))
        assert bodies(read) == expected(0, 50)


def test_a_body_that_looks_like_a_record_is_a_body(tmp_path: Path) -> None:
    """Its object is read from the front, by sizes; nothing is searched."""
    with closing(local_journal(tmp_path)) as journal:
        journal.append([batch_of(0, 5)])
        data = frame(5).replace(b"body 5", objects(tmp_path)[0].read_bytes())
        journal.append([FrameBatch(data, [len(data)], 5, 7, "1.2", "devbroker", "/queue/a#0")])
        journal.append([batch_of(6, 5)])
    for offset in (4, 30, 100):
        content = objects(tmp_path)[1].read_bytes()
        damage(objects(tmp_path)[1], offset)
        with closing(local_journal(tmp_path, tolerant=True)) as again:
            assert again.held(0, 11) == [(0, 5), (6, 11)]
        objects(tmp_path)[1].write_bytes(content)


class TestLocation:
    @pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
    def test_paths_and_file_uris_are_on_a_disk(self, tmp_path: Path, form: str) -> None:
        settings = JournalSettings(form.format(tmp_path / "a b"), 1 << 20, max_remembered=1_000)
        with closing(opened_at(settings)) as journal:
            assert isinstance(journal._store, Disk)
        assert (tmp_path / "a b" / "lock").exists()

    @pytest.mark.parametrize("form", ["{}", "file:{}"])
    def test_mounts_of_stores_have_no_lock(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
    ) -> None:
        monkeypatch.setattr("spark_stomp.files._MOUNTS", (str(tmp_path),))
        journal = opened_at(JournalSettings(form.format(tmp_path / "journal"), 1 << 20, max_remembered=1_000))
        assert not isinstance(journal._store, Disk)
        assert len(objects(tmp_path / "journal", "writers")) == 1

    def test_credentials_are_not_shown(self) -> None:
        settings = JournalSettings("ftp://me:tops3cret@host/journal?access_key=tops3cret", 1 << 20, 1_000)
        with pytest.raises(UnsupportedError, match=r"ftp://\*\*\*@host/journal") as caught:
            opened_at(settings)
        assert "tops3cret" not in f"{caught.value} {settings}"

    @pytest.mark.parametrize("name", ["journal.json", "openings/0000000001-0123456789abcdef-200"])
    def test_what_an_earlier_release_wrote_is_refused(
        self, open_journal: Open, tmp_path: Path, name: str
    ) -> None:
        file = tmp_path / "journal" / name
        file.parent.mkdir(parents=True)
        file.write_text("{}")
        with pytest.raises(JournalError, match=r"an earlier release wrote .*until nothing is left"):
            open_journal()
        assert [path for path in (tmp_path / "journal").rglob("*") if path.is_file()] == [file]
