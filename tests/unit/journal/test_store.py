"""Disks and stores: what is synced, what is tried again, and what a full disk leaves."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support.journals import (
    RESERVE_BYTES,
    Open,
    SmallDisk,
    batch_of,
    bodies,
    expected,
    fill,
    local_journal,
    object_journal,
    objects,
)

from spark_stomp.errors import JournalError, JournalFull, JournalInUse, JournalUnwritable
from spark_stomp.files import resolve, write_fully
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import Journal, JournalSettings
from spark_stomp.journal.formats import FRAMES, KEYS, RESERVE, STATES, WRITERS
from spark_stomp.journal.store import FolderStore, RetryingStore

KEY = MessageKey("/queue/a", b"ID:1", b"d" * 16)


def failing(number: int) -> Callable[..., Any]:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fails


class Busy(FolderStore):
    """``fails`` may raise, before or after a call has had its effect."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), RESERVE_BYTES)
        self.before: Callable[[str, str], None] = lambda call, path: None
        self.after: Callable[[str, str], None] = lambda call, path: None
        self.calls: list[tuple[str, str]] = []

    def put(self, path: str, data: bytes) -> None:
        self._around("put", path, lambda: FolderStore.put(self, path, data))

    def get(self, path: str) -> bytes:
        return bytes(self._around("get", path, lambda: FolderStore.get(self, path)))

    def sizes(self, folder: str) -> dict[str, int]:
        return dict(self._around("list", folder, lambda: FolderStore.sizes(self, folder)))

    def delete(self, path: str) -> None:
        self._around("delete", path, lambda: FolderStore.delete(self, path))

    def _around(self, call: str, path: str, action: Callable[[], Any]) -> Any:
        self.calls.append((call, path))
        self.before(call, path)
        result = action()
        self.after(call, path)
        return result

    def journal(self) -> Journal:
        store = RetryingStore(self, resolve(str(self._root)), pause=lambda seconds: None)
        return Journal(JournalSettings(str(self._root), 1 << 30, 1_000), store)


@pytest.fixture
def store(directory: Path) -> Busy:
    return Busy(directory)


def refusing(call: str, folder: str, error: OSError, times: int = 1 << 30) -> Callable[[str, str], None]:
    """Raises ``error`` as often as ``times`` says."""
    failures_to_come = [times]

    def refuse(made: str, path: str) -> None:
        if made == call and path.startswith(folder) and failures_to_come[0]:
            failures_to_come[0] -= 1
            raise error

    return refuse


class TestFailures:
    """On a store or mount."""

    @pytest.mark.rule("J.16")
    def test_a_put_that_failed_for_good_is_the_last(self, directory: Path, store: Busy) -> None:
        journal = store.journal()
        journal.append([batch_of(0, 5)])
        store.after = refusing("put", FRAMES, OSError("gateway timeout"))
        with pytest.raises(JournalUnwritable, match=r"gateway timeout.*stay on the broker"):
            journal.append([batch_of(5, 5)])
        store.after = lambda call, path: None
        # The object is there after all: its position must not get other bytes.
        with pytest.raises(JournalUnwritable, match="gateway timeout"):
            journal.append([batch_of(70, 5)])
        assert journal.end == 5
        assert bodies(object_journal(directory).batches(0, 10)) == expected(0, 10)

    @pytest.mark.parametrize("call", ["put", "get", "list", "delete"])
    def test_what_passes_is_waited_for(self, directory: Path, store: Busy, call: str) -> None:
        fill(object_journal(directory), 2)
        store.before = refusing(call, "", OSError("slow down"), times=2)
        journal = store.journal()
        journal.append([batch_of(10, 5)])
        journal.commit(5)
        journal.trim(5)
        assert bodies(journal.batches(5, 15)) == expected(5, 15)

    def test_what_is_whole_stays_so_while_it_is_put_again(
        self, directory: Path, store: Busy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = store.journal()
        journal.append([batch_of(0, 5)])
        store.after = refusing("put", FRAMES, OSError("connection lost"), times=1)
        sizes: list[int] = []

        def seen(descriptor: int, data: bytes) -> None:
            sizes.append(os.fstat(descriptor).st_size)
            write_fully(descriptor, data)

        monkeypatch.setattr("spark_stomp.journal.store.write_fully", seen)
        journal.append([batch_of(5, 5)])
        assert sizes == [0, objects(directory)[-1].stat().st_size]

    def test_what_cannot_be_read_is_said_in_the_stores_words(self, directory: Path, store: Busy) -> None:
        fill(object_journal(directory), 2).flush()
        journal = store.journal()
        store.before = refusing("get", FRAMES, OSError("access denied"))
        with pytest.raises(JournalError, match=r"frames/0{20}-5-0-\S+ .* cannot be read: access denied"):
            list(journal.batches(0, 10))

    def test_no_rights_are_not_waited_for(self, directory: Path, store: Busy) -> None:
        store.before = refusing("put", WRITERS, PermissionError("read-only"))
        with pytest.raises(JournalUnwritable, match="read-only"):
            store.journal()
        assert [call for call, _ in store.calls].count("put") == 1

    @pytest.mark.parametrize(("number", "raised"), [(errno.EINVAL, False), (errno.EIO, True)])
    def test_a_mount_need_not_know_how_to_sync_a_folder(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: bool
    ) -> None:
        journal = fill(object_journal(directory), 1)
        monkeypatch.setattr("spark_stomp.journal.store.sync_folder", failing(number))
        with pytest.raises(JournalUnwritable) if raised else nullcontext():
            assert journal.append([batch_of(5, 5)]) == [5]


class TestLock:
    @pytest.mark.rule("J.15")
    def test_a_second_query_is_refused(self, directory: Path) -> None:
        with closing(local_journal(directory)) as journal:
            with pytest.raises(JournalInUse, match="each query needs its own"):
                local_journal(directory)
            journal.append([batch_of(0, 5)])

    def test_what_cannot_be_opened_is_let_go(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as broken, pytest.raises(JournalUnwritable):
            broken.setattr(FolderStore, "put", failing(errno.EIO))
            local_journal(directory)
        local_journal(directory).close()


class TestSync:
    """On a disk: only what a sync confirmed is durable, and one that failed is final."""

    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What is synced, dropped from the cache and read, in order: ``call name``."""
        made: list[str] = []

        def noted(name: str) -> None:
            call = getattr(os, name)

            def seen(descriptor: int, *arguments: int) -> None:
                made.append(f"{name} {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
                call(descriptor, *arguments)

            monkeypatch.setattr(os, name, seen)

        for name in ("fsync", "fdatasync", "posix_fadvise"):
            noted(name)
        return made

    @pytest.mark.rule("J.1")
    @pytest.mark.parametrize("opened", [local_journal, object_journal])
    def test_frames_are_synced_before_they_have_positions(
        self, directory: Path, calls: list[str], opened: Callable[[Path], Journal]
    ) -> None:
        with closing(opened(directory)) as journal:
            fill(journal, 1)
            calls.clear()
            journal.append([batch_of(5, 5)])
        assert calls == [f"fdatasync {objects(directory)[-1].name}", f"fsync {FRAMES}"]

    @pytest.mark.rule("J.1")
    def test_what_no_state_proves_is_synced_and_read_again_before_it_is_offered(
        self, directory: Path, calls: list[str]
    ) -> None:
        with closing(local_journal(directory)) as journal:
            journal.append([batch_of(0, 5)])
            journal.flush()
            journal.append([batch_of(5, 5)])
            journal.append([batch_of(10, 5)])
            journal.remember([KEY])
        calls.clear()
        with closing(local_journal(directory)):
            again = [path.name for path in (*objects(directory)[1:], *objects(directory, KEYS))]
        found = [call for call in calls if call.split()[1] in again]
        made = ("fdatasync", "posix_fadvise")
        assert found == [f"{call} {name}" for name in (again[2], *again[:2]) for call in made]
        assert not [call for call in calls if objects(directory)[0].name in call]
        # And which files there are.
        assert {f"fsync {folder}" for folder in (FRAMES, KEYS, STATES)} < set(calls)

    @pytest.mark.rule("J.1")
    def test_if_that_fails_nothing_is_offered(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(local_journal(directory)) as journal:
            fill(journal)
        monkeypatch.setattr("spark_stomp.files.os.fdatasync", failing(errno.EIO))
        for _ in range(2):
            with pytest.raises(JournalUnwritable, match="Input/output"):
                local_journal(directory)

    @pytest.mark.rule("J.1")
    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
    @pytest.mark.parametrize("call", ["fdatasync", "fsync"])
    def test_after_one_that_failed_nothing_more_is_written(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
    ) -> None:
        journal, fails = fill(local_journal(directory), 1), Mock(side_effect=failing(number))
        with monkeypatch.context() as broken:
            broken.setattr(os, call, fails)
            with pytest.raises(JournalUnwritable) as first:
                journal.append([batch_of(5, 5)])
        fails.assert_called_once()
        # The system says of the same bytes next time that they are synced. They may be gone.
        for again in (
            lambda: journal.append([batch_of(5, 5)]),
            lambda: (journal.commit(1), journal.flush()),
            lambda: journal.remember([KEY]),
            lambda: (journal.commit(5), journal.trim(5)),
            lambda: journal.skip(90),
        ):
            with pytest.raises(JournalUnwritable) as later:
                again()
            assert later.value is first.value
        assert bodies(journal.batches(0, 5)) == expected(0, 5)
        journal.close()
        # Nothing of it was told, so the next run may take it or not.
        with closing(local_journal(directory)) as again:
            assert bodies(again.batches(0, again.end)) == expected(0, again.end)


class TestFullDisk:
    @pytest.mark.rule("J.12")
    def test_nothing_is_lost_and_the_next_run_goes_on_once_there_is_room(
        self, directory: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = SmallDisk(directory, monkeypatch)
        journal = fill(opened(), 1)
        disk.fill(free=100)
        wanted = r"No space left on device: \d+ bytes were wanted, and [\d,]+ are free\. "
        with pytest.raises(JournalFull, match=rf"{wanted}.* stay on the broker. Make room there, and start"):
            journal.append([batch_of(5, 5)])
        # The object that was begun is gone.
        assert (journal.end, len(objects(directory))) == (5, 1)
        assert not (directory / RESERVE).exists()
        with pytest.raises(JournalFull):
            journal.append([batch_of(7, 1)])
        disk.size = 1 << 30
        journal = opened()
        assert journal.append([batch_of(5, 5)]) == [5]
        assert bodies(journal.batches(0, 10)) == expected(0, 10)

    def test_objects_before_the_one_that_has_no_room_are_deleted(
        self, directory: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.journal.journal._SMALLEST_OBJECT", 600)
        disk = SmallDisk(directory, monkeypatch)
        journal = opened(max_bytes=600)
        journal.append([batch_of(0, 5)])
        disk.fill(free=3 * objects(directory)[0].stat().st_size)
        with pytest.raises(JournalFull):
            journal.append([batch_of(5 * number, 5) for number in range(1, 9)])
        assert (journal.end, len(objects(directory))) == (5, 1)
        disk.size = 1 << 30
        journal = opened()
        assert journal.append([batch_of(5, 5)]) == [5]
        assert bodies(journal.batches(0, 10)) == expected(0, 10)

    @pytest.mark.rule("J.12")
    def test_full_of_what_is_committed_the_next_run_makes_room(
        self, directory: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = SmallDisk(directory, monkeypatch)
        journal = fill(opened(), 3)
        disk.fill()
        journal.commit(10)
        with pytest.raises(JournalFull):
            journal.append([batch_of(15, 1)])
        # All of its room is somebody else's from now on, but that of the reserve.
        disk.fill(free=RESERVE_BYTES - 500)
        journal = opened()
        assert not (directory / RESERVE).exists()
        # What failed has told the next run of the commit, and that there is no room.
        assert (journal.first, journal.committed, journal.committed_before) == (0, 10, 10)
        journal.remember([KEY])
        journal.trim(10)
        assert journal.first == 10
        disk.size += 2_000
        assert journal.append([batch_of(15, 1)]) == [15]
        assert (directory / RESERVE).stat().st_size == RESERVE_BYTES
        journal = opened()
        assert bodies(journal.batches(10, 16)) == expected(10, 16)
        assert journal.committed_before == 0

    def test_if_no_file_can_be_made(
        self, directory: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = fill(opened(), 1)
        make, full = os.open, failing(errno.ENOSPC)

        def no_file(path: str | Path, flags: int, mode: int = 0o777) -> int:
            return full() if flags & os.O_CREAT and not Path(path).exists() else make(path, flags, mode)

        monkeypatch.setattr(os, "open", no_file)
        with pytest.raises(JournalFull, match="No space left"):
            journal.append([batch_of(5, 5)])

    @pytest.mark.rule("J.16")
    def test_after_the_last_byte_the_object_stays(
        self, directory: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = fill(opened(), 1)
        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", failing(errno.ENOSPC))
            with pytest.raises(JournalUnwritable, match="No space left"):
                journal.append([batch_of(5, 5)])
        # A newer writer may have seen it whole: it stays, and its positions get no other bytes.
        assert len(objects(directory)) == 2
        with pytest.raises(JournalUnwritable, match="No space left"):
            journal.append([batch_of(7, 5)])
        assert bodies(opened().batches(0, 10)) == expected(0, 10)


def test_a_large_write_may_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    descriptor = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    write_fully(descriptor, b"abcdefg")
    os.close(descriptor)
    assert (tmp_path / "out").read_bytes() == b"abcdefg"
