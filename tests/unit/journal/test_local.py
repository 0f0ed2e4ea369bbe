"""A journal on a local disk: what a crash may leave there, and errors for what is not there. For the rest see
test_blobs.py."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.journals import batch_of, bodies, damage, expected, frame, local_journal, segments

from spark_stomp.errors import (
    JournalDamaged,
    JournalError,
    JournalInUse,
    JournalUnwritable,
)
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import JournalFull
from spark_stomp.journal.local import segment as segment_module
from spark_stomp.journal.local.journal import LocalJournal
from spark_stomp.journal.local.segment import Segment


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def journal(directory: Path) -> Iterator[LocalJournal]:
    made = local_journal(directory)
    yield made
    made.close()


def reopened(directory: Path, **options: bool) -> LocalJournal:
    """Opened and closed: it can still be read."""
    journal = local_journal(directory, **options)
    journal.close()
    return journal


def filled(directory: Path, groups: int = 4) -> LocalJournal:
    """Groups of 5 frames, each made durable alone."""
    journal = local_journal(directory)
    for number in range(groups):
        journal.append([batch_of(5 * number, 3), batch_of(5 * number + 3, 2)])
    journal.close()
    return journal


def of_five_segments(directory: Path, monkeypatch: pytest.MonkeyPatch) -> LocalJournal:
    """With 50 frames."""
    monkeypatch.setattr("spark_stomp.journal.local.journal._SMALLEST_SEGMENT", 600)
    journal = local_journal(directory, max_bytes=4_800)
    for number in range(10):
        journal.append([batch_of(5 * number, 5)])
    return journal


def test_records_of_single_messages_share_entries_of_the_index(directory: Path) -> None:
    """An entry for each would be most of what messages cost that come one by one."""
    journal = local_journal(directory)
    for number in range(300):
        journal.append([batch_of(number, 1)])
        if number % 50 == 0:
            journal.flush()
    journal.close()
    (path,) = segments(directory)
    again, _ = Segment.open(path, journal.id, last=True)
    assert again is not None
    written = journal._segments[0]
    for segment in (written, again):
        assert len(segment.index) <= path.stat().st_size // (64 << 10) + 1
        for low, high in ((0, 300), (7, 8), (50, 52), (123, 299)):
            assert bodies(segment.batches(low, high)) == expected(low, high)
            sizes = [len(frame(number)) for number in range(low, high)]
            assert segment.index.bytes_before(high) - segment.index.bytes_before(low) == sum(sizes)
            within = segment.index.bytes_before(low) + sum(sizes[:-1])
            assert segment.index.number_within(within, high) == high - 1


def test_a_reader_keeps_the_files_that_are_deleted_meanwhile(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = of_five_segments(directory, monkeypatch)
    batches = journal.batches(0, 50)
    first = next(batches)
    journal.trim(50)
    assert len(segments(directory)) == 1
    assert bodies([first, *batches]) == expected(0, 50)
    journal.close()


def test_the_space_of_what_is_deleted_comes_back_at_once(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = of_five_segments(directory, monkeypatch)
    gc.disable()
    try:
        journal.trim(50)
        open_files = [str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    finally:
        gc.enable()
    assert not [name for name in open_files if name.startswith(str(directory)) and "deleted" in name]
    journal.close()


def test_only_the_owner_may_read_messages_and_keys(directory: Path) -> None:
    before = os.umask(0)
    try:
        filled(directory).remember([MessageKey("/queue/a", b"ID:1", b"d" * 16)])
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    del modes["journal.json"]
    assert set(modes) == {"lock", "reserve", "settled.keys", segments(directory)[0].name}
    assert set(modes.values()) == {0o600}


class TestCrash:
    """Whatever was not synced may be missing or torn; what was may not."""

    @pytest.mark.rule("J.14")
    def test_at_every_byte_behind_what_was_synced(self, directory: Path) -> None:
        filled(directory, groups=3)
        path = segments(directory)[0]
        whole = path.read_bytes()
        durable = self._sizes_after_groups(directory)
        for length in range(durable[1], len(whole)):
            path.write_bytes(whole[:length])
            journal = reopened(directory)
            assert journal.end >= 10
            assert bodies(journal.batches(0, journal.end)) == expected(0, journal.end)

    def test_garbage_behind_what_was_synced_is_cut_off(self, directory: Path) -> None:
        filled(directory, groups=2)
        path = segments(directory)[0]
        with path.open("ab") as file:
            file.write(b"SSJR garbage" * 20)
        assert reopened(directory).end == 10
        assert b"garbage" not in path.read_bytes()

    @pytest.mark.rule("J.1", "J.14")
    def test_a_damaged_byte_that_was_synced_is_an_error(self, directory: Path) -> None:
        filled(directory, groups=3)
        path = segments(directory)[0]
        whole = path.read_bytes()
        durable = self._sizes_after_groups(directory)
        # The third group says that everything before it was durable.
        for offset in range(0, durable[1], 7):
            path.write_bytes(whole)
            damage(path, offset)
            with pytest.raises(JournalDamaged, match="damaged"):
                local_journal(directory)

    def test_after_a_flush_even_the_last_byte_is_known_to_have_been_there(self, directory: Path) -> None:
        journal = local_journal(directory)
        journal.append([batch_of(0, 5)])
        size = journal.size
        journal.flush()
        journal.close()
        damage(segments(directory)[0], size - 1)
        with pytest.raises(JournalDamaged, match="messages"):
            local_journal(directory)

    def test_a_segment_that_was_never_synced_goes(self, directory: Path) -> None:
        filled(directory, groups=1)
        torn = directory / f"{5:020d}.segment"
        torn.write_bytes(b"STOMPJ")
        assert reopened(directory).end == 5
        assert not torn.exists()

    def test_a_file_that_somebody_put_there_is_damage(self, directory: Path) -> None:
        filled(directory, groups=1)
        (directory / "copy of 00000000000000000000.segment").write_bytes(b"")
        with pytest.raises(JournalDamaged, match="not a segment: its name is not a number"):
            local_journal(directory)

    @staticmethod
    def _sizes_after_groups(directory: Path) -> list[int]:
        again = directory.with_name("measured")
        journal, sizes = local_journal(again), []
        for number in range(3):
            journal.append([batch_of(5 * number, 3), batch_of(5 * number + 3, 2)])
            sizes.append(journal.size)
        journal.close()
        return sizes


class TestDamage:
    @pytest.fixture
    def broken(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Three segments; the middle one is damaged within its first record."""
        monkeypatch.setattr("spark_stomp.journal.local.journal._SMALLEST_SEGMENT", 600)
        journal = local_journal(directory, max_bytes=4_800)
        for number in range(6):
            journal.append([batch_of(5 * number, 5)])
        journal.close()
        paths = segments(directory)
        assert len(paths) == 3
        damage(paths[1], 400)
        return directory

    @pytest.mark.rule("J.14")
    def test_it_says_what_is_lost(self, broken: Path) -> None:
        with pytest.raises(
            JournalDamaged, match=r"messages \[\d+, \d+\) of the journal are lost.*failOnDataLoss"
        ):
            local_journal(broken)

    def test_tolerated_everything_else_is_served(
        self, broken: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        journal = reopened(broken, tolerant=True)
        held = journal.held(0, 30)
        assert len(held) == 2
        assert [bodies(journal.batches(low, high)) for low, high in held] == [
            expected(low, high) for low, high in held
        ]
        assert "are lost" in caplog.text

    @pytest.mark.rule("5.4")
    @pytest.mark.parametrize("lost", [0, 1, 2], ids=["first segment", "middle", "last"])
    def test_a_limit_in_bytes_counts_what_is_lost_as_nothing(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, lost: int
    ) -> None:
        """All frames of a segment, of which only the mark behind them is left."""
        monkeypatch.setattr("spark_stomp.journal.local.journal._SMALLEST_SEGMENT", 1)
        journal = local_journal(directory, max_bytes=1)
        for number in range(3):
            journal.append([batch_of(5 * number, 5)])
            journal.flush()
        journal.close()
        damage(segments(directory)[lost], 300)
        journal = reopened(directory, tolerant=True)
        low, high = 5 * lost, 5 * lost + 5
        assert (journal.held(low, high), journal.end) == ([], 15)
        assert journal.end_within(low, high, 0) == high
        one = journal.bytes_between(0, 15) // 10
        frames_there = [position for position in range(15) if not low <= position < high]
        for count in range(1, 10):
            # Up to the frame that does not fit any more.
            assert journal.end_within(0, 15, count * one + one // 2) == frames_there[count]

    @pytest.mark.rule("J.14")
    def test_what_is_damaged_is_left_as_it_is(self, broken: Path) -> None:
        path = segments(broken)[0]
        damage(path, path.stat().st_size - 1)
        content = path.read_bytes()
        with pytest.raises(JournalDamaged, match="lost"):
            local_journal(broken)
        assert path.read_bytes() == content

    def test_a_missing_segment(self, broken: Path) -> None:
        segments(broken)[1].unlink()
        with pytest.raises(JournalDamaged, match=r"messages \[10, 20\)"):
            local_journal(broken)
        assert reopened(broken, tolerant=True).held(0, 30) == [(0, 10), (20, 30)]

    def test_a_byte_that_goes_bad_later_is_noticed_when_it_is_read(self, directory: Path) -> None:
        journal = filled(directory)
        damage(segments(directory)[0], 300)
        with pytest.raises(JournalDamaged, match="lost"):
            list(journal.batches(0, 20))

    def test_a_head_that_goes_bad_later_is_noticed_when_a_batch_is_planned(self, directory: Path) -> None:
        journal = filled(directory)
        path = segments(directory)[0]
        damage(path, path.read_bytes().index(b"SSJR"))
        with pytest.raises(JournalDamaged, match="record"):
            journal.bytes_between(0, 1)

    def test_segments_without_their_identity(self, directory: Path) -> None:
        filled(directory)
        (directory / "journal.json").unlink()
        with pytest.raises(JournalDamaged, match="missing"):
            local_journal(directory)

    def test_segments_of_another_journal(self, directory: Path, tmp_path: Path) -> None:
        filled(directory)
        filled(tmp_path / "other", groups=6)
        segments(directory)[0].write_bytes(segments(tmp_path / "other")[0].read_bytes())
        with pytest.raises(JournalDamaged, match="another journal"):
            local_journal(directory)

    @pytest.mark.parametrize("where", ["journal.json", "segment"])
    def test_a_newer_format_is_refused_by_name(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        monkeypatch.setattr(
            "spark_stomp.journal.local.journal._FORMAT"
            if where == "journal.json"
            else segment_module.__name__ + "._FORMAT",
            9,
        )
        filled(directory)
        monkeypatch.undo()
        with pytest.raises(JournalError, match="format 9"):
            local_journal(directory)

    def test_an_identity_that_says_nothing(self, directory: Path) -> None:
        filled(directory)
        (directory / "journal.json").write_text("[]")
        with pytest.raises(JournalDamaged, match="which journal"):
            local_journal(directory)


class TestLock:
    @pytest.mark.rule("J.15")
    def test_a_second_query_is_refused(self, directory: Path, journal: LocalJournal) -> None:
        with pytest.raises(JournalInUse, match="each query needs its own"):
            local_journal(directory)

    def test_the_end_of_the_last_run_is_awaited(self, directory: Path, journal: LocalJournal) -> None:
        ending = threading.Timer(0.3, journal.close)
        ending.start()
        again = local_journal(directory, lock_timeout=20.0)
        ending.join()
        again.close()


class TestSync:
    """Only what a sync confirmed is durable; after one that failed nothing of that file is believed."""

    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The names of the files that are synced; a folder's is its own."""
        made: list[str] = []

        def noted(name: str) -> None:
            call = getattr(os, name)

            def synced(descriptor: int) -> None:
                made.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
                call(descriptor)

            monkeypatch.setattr(os, name, synced)

        noted("fsync")
        noted("fdatasync")
        return made

    @pytest.mark.rule("J.1")
    def test_what_an_earlier_run_left_is_synced_before_it_is_offered(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, calls: list[str]
    ) -> None:
        journal = filled(directory)
        journal.remember([MessageKey("/queue/a", b"ID:1", b"d" * 16)])
        calls.clear()
        journal = local_journal(directory)
        assert set(calls) == {"journal", "settled.keys", segments(directory)[0].name}
        journal.close()

    @pytest.mark.rule("J.1")
    def test_where_that_fails_nothing_is_offered(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        filled(directory)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, failing(errno.EIO))
        for _ in range(2):
            with pytest.raises(JournalUnwritable, match="Input/output"):
                local_journal(directory)

    @pytest.mark.rule("J.1")
    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
    def test_after_one_that_failed_nothing_more_is_written(
        self, directory: Path, journal: LocalJournal, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        journal.append([batch_of(0, 5)])
        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", failing(number))
            with pytest.raises(JournalUnwritable) as first:
                journal.append([batch_of(5, 5)])
        # The system says of the same bytes next time that they are synced. They may be gone.
        for again in (
            lambda: journal.append([batch_of(5, 5)]),
            journal.flush,
            lambda: journal.remember([MessageKey("/queue/a", b"ID:1", b"d" * 16)]),
            lambda: journal.trim(5),
            lambda: journal.skip(90),
        ):
            with pytest.raises(JournalUnwritable) as later:
                again()
            assert later.value is first.value
        assert journal.end == 5
        assert bodies(journal.batches(0, 5)) == expected(0, 5)

    def test_the_next_run_reads_the_last_file_from_the_disk(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Bytes of a sync that failed may be in the system's cache, marked as written."""
        filled(directory)
        order: list[str] = []
        forget, read = os.posix_fadvise, os.pread

        def forgotten(descriptor: int, offset: int, length: int, advice: int) -> None:
            assert (offset, length, advice) == (0, 0, os.POSIX_FADV_DONTNEED)
            order.append("forget")
            forget(descriptor, offset, length, advice)

        def noted(descriptor: int, length: int, offset: int) -> bytes:
            order.append("read")
            return read(descriptor, length, offset)

        monkeypatch.setattr(os, "posix_fadvise", forgotten)
        monkeypatch.setattr(os, "pread", noted)
        reopened(directory)
        assert order[:2] == ["forget", "read"]


def failing(number: int) -> Callable[..., None]:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fails


class TestFullDisk:
    def test_opening_and_flushing_need_no_new_file(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        filled(directory)
        (directory / "reserve").unlink()
        monkeypatch.setattr(os, "open", making_no_file)
        journal = local_journal(directory)
        journal.append([batch_of(20, 5)])
        journal.flush()
        assert journal.end == 25
        journal.close()
        assert not (directory / "reserve").exists()

    def test_keys_that_no_file_can_be_made_for(
        self, journal: LocalJournal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "open", making_no_file)
        with pytest.raises(JournalFull, match="No space left"):
            journal.remember([MessageKey("/queue/a", b"id", b"body")])

    def test_it_is_said_once(
        self, journal: LocalJournal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        journal.append([batch_of(0, 5)])
        with monkeypatch.context() as patch:
            patch.setattr(segment_module, "write_fully", failing(errno.ENOSPC))
            journal.flush()
            journal.flush()
        assert caplog.text.count("No space left") == 1
        # Another time is another event.
        journal.append([batch_of(5, 5)])
        monkeypatch.setattr(segment_module, "write_fully", failing(errno.ENOSPC))
        journal.flush()
        assert caplog.text.count("No space left") == 2

    def test_opening_needs_no_new_space(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        filled(directory)

        def full(descriptor: int, parts: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(segment_module, "write_fully", full)
        assert bodies(reopened(directory).batches(0, 20)) == expected(0, 20)

    def test_it_is_a_clear_error_and_what_was_durable_stays(
        self, directory: Path, journal: LocalJournal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal.append([batch_of(0, 5)])

        def full(descriptor: int, parts: object) -> None:
            os.write(descriptor, b"half of")
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(segment_module, "write_fully", full)
        with pytest.raises(JournalUnwritable, match=r"No space left.*stay on the broker"):
            journal.append([batch_of(5, 5)])
        monkeypatch.undo()
        assert journal.end == 5
        journal.close()
        assert bodies(reopened(directory).batches(0, 5)) == expected(0, 5)


OPEN = os.open


def making_no_file(path: str | Path, flags: int, mode: int = 0o777) -> int:
    """As ``os.open`` on a disk where no file can be made."""
    if flags & os.O_CREAT and not Path(path).exists():
        raise OSError(errno.ENOSPC, "No space left on device")
    return OPEN(path, flags, mode)


def test_the_reserve_where_the_system_cannot_allocate(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    local_journal(directory, max_bytes=256_000).close()
    assert (directory / "reserve").read_bytes() == bytes(1_000)


def test_a_large_write_may_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "writev", lambda descriptor, parts: os.write(descriptor, b"".join(parts)[:3]))
    descriptor = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    segment_module.write_fully(descriptor, [b"abc", memoryview(b"defg")])
    os.close(descriptor)
    assert (tmp_path / "out").read_bytes() == b"abcdefg"


def test_what_was_skipped_is_nobodys_loss_once_it_is_committed(
    directory: Path, journal: LocalJournal
) -> None:
    journal.append([batch_of(0, 5)])
    journal.commit(90)
    journal.skip(100)
    journal.append([batch_of(5, 5)])
    journal.close()
    with pytest.raises(JournalDamaged, match=r"\[5, 100\)"):
        reopened(directory)
    again = reopened(directory, tolerant=True)
    again.commit(100)
    again.flush()
    again.close()
    # Once that is committed the next run opens it without a word.
    again = reopened(directory)
    assert (again.end, again.committed, again.held(0, 200)) == (105, 100, [(0, 5), (100, 105)])
