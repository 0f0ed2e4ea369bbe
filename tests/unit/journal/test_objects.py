"""A journal of objects: who may write, what a crash may leave, and errors for what is not there."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.journals import SmallMount, batch_of, bodies, damage, expected, object_journal

from spark_stomp.errors import JournalDamaged, JournalError, JournalInUse, JournalTrimmed, JournalUnwritable
from spark_stomp.files.locations import resolve
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import JournalFull, JournalSettings
from spark_stomp.journal.objects.blobs import Blobs, MountStore
from spark_stomp.journal.objects.cache import ObjectCache
from spark_stomp.journal.objects.journal import ObjectJournal
from spark_stomp.journal.objects.object_names import DEDUP_LOG, FRAMES, MANIFESTS, MARKS, RESERVE, WRITERS


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


class Busy(MountStore):
    """``fails`` may raise, before or after a call has had its effect."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.before: Callable[[str, str], None] = lambda call, path: None
        self.after: Callable[[str, str], None] = lambda call, path: None
        self.calls: list[tuple[str, str]] = []

    def put(self, path: str, data: bytes) -> None:
        self._around("put", path, lambda: MountStore.put(self, path, data))

    def get(self, path: str) -> bytes:
        return bytes(self._around("get", path, lambda: MountStore.get(self, path)))

    def sizes(self, folder: str) -> dict[str, int]:
        return dict(self._around("list", folder, lambda: MountStore.sizes(self, folder)))

    def delete(self, path: str) -> None:
        self._around("delete", path, lambda: MountStore.delete(self, path))

    def _around(self, call: str, path: str, action: Callable[[], Any]) -> Any:
        self.calls.append((call, path))
        self.before(call, path)
        result = action()
        self.after(call, path)
        return result

    def journal(self, cache_bytes: int = 1 << 20) -> ObjectJournal:
        blobs = Blobs(self, resolve(str(self._root)), pause=lambda seconds: None)
        self.cache = ObjectCache(blobs, cache_bytes)
        return ObjectJournal(JournalSettings(str(self._root), 1 << 30, 1_000), blobs, self.cache)


@pytest.fixture
def store(directory: Path) -> Busy:
    return Busy(directory)


def objects(directory: Path, folder: str = FRAMES) -> list[Path]:
    """The journal's objects in a folder, oldest first."""
    return sorted((directory / folder).iterdir())


def filled(directory: Path, groups: int = 4) -> ObjectJournal:
    """Objects of 5 frames each."""
    journal = object_journal(directory)
    for number in range(groups):
        journal.append([batch_of(5 * number, 5)])
    return journal


def refusing(call: str, folder: str, error: OSError, times: int = 1 << 30) -> Callable[[str, str], None]:
    """Raises ``error`` as often as ``times`` says."""
    left = [times]

    def refuse(made: str, path: str) -> None:
        if made == call and path.startswith(folder) and left[0]:
            left[0] -= 1
            raise error

    return refuse


class TestTakeover:
    @pytest.mark.rule("J.15")
    def test_the_older_writer_stops_and_what_it_put_then_is_void(self, directory: Path) -> None:
        old = filled(directory, 2)
        new = object_journal(directory)
        with pytest.raises(JournalInUse, match="another query took over"):
            old.append([batch_of(90, 5)])
        assert old.end == 10
        assert new.append([batch_of(10, 5)]) == [10]
        assert bodies(new.batches(0, 15)) == expected(0, 15)
        again = object_journal(directory)
        assert bodies(again.batches(0, 15)) == expected(0, 15)
        assert len(objects(directory)) == 3

    def test_a_marker_that_somebody_deleted(self, directory: Path) -> None:
        journal = filled(directory, 2)
        objects(directory, WRITERS)[0].unlink()
        with pytest.raises(JournalDamaged, match="somebody deleted"):
            journal.append([batch_of(10, 5)])

    @pytest.mark.parametrize("folder", [MANIFESTS, DEDUP_LOG])
    def test_what_always_vanishes_is_an_error(self, directory: Path, store: Busy, folder: str) -> None:
        filled(directory, 2).remember([MessageKey("/queue/a", b"ID:1", b"d" * 16)])
        store.before = refusing("get", folder, FileNotFoundError("gone"))
        with pytest.raises(JournalDamaged, match=f"{folder}.* keep vanishing"):
            store.journal()

    def test_everything_is_deleted_under_its_hands(self, directory: Path) -> None:
        journal = filled(directory, 2)
        shutil.rmtree(directory)
        with pytest.raises(JournalUnwritable, match="No such file"):
            journal.append([batch_of(10, 5)])

    def test_openings_leave_nothing_behind(self, directory: Path) -> None:
        filled(directory, 2).flush()
        for _ in range(5):
            object_journal(directory).flush()
        assert [len(objects(directory, folder)) for folder in (WRITERS, MANIFESTS, MARKS, FRAMES)] == [
            1,
            1,
            0,
            2,
        ]

    def test_what_is_somebody_elses_stays(self, directory: Path) -> None:
        filled(directory, 2)
        for folder in (WRITERS, MANIFESTS, MARKS, FRAMES, DEDUP_LOG):
            (directory / folder / "_SUCCESS").touch()
            (directory / folder / "sub").mkdir()
        journal = object_journal(directory)
        assert bodies(journal.batches(0, 10)) == expected(0, 10)
        assert (directory / FRAMES / "_SUCCESS").exists()


class TestFailures:
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
        filled(directory, 2)
        store.before = refusing(call, "", OSError("slow down"), times=2)
        journal = store.journal()
        journal.append([batch_of(10, 5)])
        journal.commit(5)
        journal.trim(5)
        assert bodies(journal.batches(5, 15)) == expected(5, 15)

    def test_what_is_whole_stays_so_while_it_is_put_again(
        self, directory: Path, store: Busy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        filled(directory, 1)
        journal = store.journal()
        store.after = refusing("put", FRAMES, OSError("connection lost"), times=1)
        sizes: list[int] = []

        def seen(descriptor: int, parts: list[bytes]) -> None:
            sizes.append(os.fstat(descriptor).st_size)
            os.writev(descriptor, parts)

        monkeypatch.setattr("spark_stomp.journal.objects.blobs.write_fully", seen)
        journal.append([batch_of(0, 5)])
        assert sizes == [0, objects(directory)[0].stat().st_size]

    def test_what_cannot_be_read_is_said_in_the_stores_words(self, directory: Path, store: Busy) -> None:
        filled(directory, 2)
        journal = store.journal()
        store.before = refusing("get", FRAMES, OSError("access denied"))
        with pytest.raises(JournalError, match=r"frames/0{20}-5-0-\S+ .* cannot be read: access denied"):
            list(journal.batches(0, 10))

    def test_no_rights_are_not_waited_for(self, directory: Path, store: Busy) -> None:
        store.before = refusing("put", WRITERS, PermissionError("read-only"))
        with pytest.raises(JournalUnwritable, match="read-only"):
            store.journal()
        assert [call for call, _ in store.calls].count("put") == 1

    def test_a_full_mount(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = filled(directory, 1)

        def full(descriptor: int, parts: object) -> None:
            os.write(descriptor, b"half of")
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("spark_stomp.journal.objects.blobs.write_fully", full)
        with pytest.raises(JournalFull, match="No space left"):
            journal.append([batch_of(5, 5)])
        assert (journal.end, len(objects(directory))) == (5, 1)
        monkeypatch.undo()
        # Nothing of it was complete, so its positions may have other bytes.
        assert journal.append([batch_of(7, 5)]) == [5]
        assert bodies(object_journal(directory).batches(0, 10)) == expected(0, 5) + expected(7, 12)

    @pytest.mark.rule("J.16")
    def test_a_mount_that_is_full_after_the_last_byte(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = filled(directory, 1)

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(JournalUnwritable, match="No space left"):
            journal.append([batch_of(5, 5)])
        monkeypatch.undo()
        # A newer writer may have seen it whole: it stays, and its positions get no other bytes.
        assert len(objects(directory)) == 2
        with pytest.raises(JournalUnwritable, match="No space left"):
            journal.append([batch_of(7, 5)])
        assert bodies(object_journal(directory).batches(0, 10)) == expected(0, 10)

    def test_as_many_objects_as_a_mount_has_room_for(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.journal.objects.journal._SMALLEST_OBJECT", 600)
        mount = SmallMount(directory, monkeypatch)
        journal = object_journal(directory, max_bytes=600)
        journal.append([batch_of(0, 5)])
        size = objects(directory)[0].stat().st_size
        mount.size = mount.used + 3 * size
        assert journal.append([batch_of(5 * number, 5) for number in range(1, 9)]) == [5, 10]
        assert journal.append([batch_of(15, 1)]) == [15]
        assert bodies(object_journal(directory).batches(0, 16)) == expected(0, 16)

    @pytest.mark.rule("J.12")
    def test_on_a_full_mount_it_is_opened_and_deletes(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mount = SmallMount(directory, monkeypatch)
        old = filled(directory, 3)
        for first in (0, 50):
            ids = (b"%01000d" % number for number in range(first, first + 50))
            old.remember([MessageKey("/queue/a", one, b"d" * 16) for one in ids])
        mount.size = mount.used
        # There is no room either for one object in place of those with keys.
        journal = object_journal(directory)
        with pytest.raises(JournalFull):
            journal.append([batch_of(15, 1)])
        assert not (directory / RESERVE).exists()
        journal.commit(15)
        journal.remember([MessageKey("/queue/a", b"ID:1", b"d" * 16)])
        journal.trim(15)
        assert objects(directory) == []
        assert journal.append([batch_of(15, 1)]) == [15]
        assert (directory / RESERVE).exists()

    @pytest.mark.rule("J.16")
    def test_without_room_for_a_mark_only_what_is_known_to_be_committed_is_deleted(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mount = SmallMount(directory, monkeypatch)
        journal = filled(directory, 2)
        journal.commit(5)
        journal.append([batch_of(10, 5)])
        (directory / RESERVE).unlink()
        mount.size = mount.used
        journal.commit(15)
        journal.flush()
        journal.trim(10)
        assert (journal.first, len(objects(directory))) == (5, 2)
        mount.size = 1 << 30
        assert bodies(object_journal(directory).batches(5, 15)) == expected(5, 15)

    @pytest.mark.rule("J.1")
    def test_frames_are_synced_before_they_have_positions(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = filled(directory, 1)
        synced: list[str] = []

        def fsync(descriptor: int) -> None:
            synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

        monkeypatch.setattr(os, "fsync", fsync)
        journal.append([batch_of(5, 5)])
        assert synced == [str(objects(directory)[-1]), str(directory / FRAMES)]

    @pytest.mark.parametrize(("number", "raised"), [(errno.EINVAL, False), (errno.EIO, True)])
    def test_a_mount_need_not_know_how_to_sync_a_folder(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: bool
    ) -> None:
        journal = filled(directory, 1)

        def fsync(descriptor: int) -> None:
            if Path(f"/proc/self/fd/{descriptor}").readlink().is_dir():
                raise OSError(number, "cannot")

        monkeypatch.setattr(os, "fsync", fsync)
        if raised:
            with pytest.raises(JournalUnwritable):
                journal.append([batch_of(5, 5)])
        else:
            assert journal.append([batch_of(5, 5)]) == [5]


class TestCrash:
    @pytest.mark.rule("J.16")
    def test_what_was_committed_is_told_before_it_is_deleted(self, directory: Path, store: Busy) -> None:
        filled(directory, 3)
        journal = store.journal()
        journal.commit(15)

        def only_one(call: str, path: str) -> None:
            if call == "delete" and path.startswith(FRAMES):
                store.before = refusing("delete", FRAMES, OSError("gone"))

        store.after = only_one
        with pytest.raises(JournalUnwritable):
            journal.trim(15)
        again = object_journal(directory)
        assert (again.first, again.committed, again.end) == (5, 15, 15)

    def test_a_deleted_object_that_reappears_is_deleted_again(self, directory: Path) -> None:
        journal = filled(directory, 4)
        first = objects(directory)[0]
        content = first.read_bytes()
        journal.commit(10)
        journal.trim(10)
        first.write_bytes(content)
        again = object_journal(directory)
        assert (again.first, again.end) == (10, 20)
        assert not first.exists()


class TestDamage:
    def test_an_object_in_the_middle_is_missing(
        self, directory: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        filled(directory)
        objects(directory)[1].unlink()
        with pytest.raises(
            JournalDamaged, match=r"messages \[5, 10\) of the journal are lost.*failOnDataLoss"
        ):
            object_journal(directory)
        journal = object_journal(directory, tolerant=True)
        assert journal.held(0, 30) == [(0, 5), (10, 20)]
        assert bodies(journal.batches(10, 20)) == expected(10, 20)
        with pytest.raises(JournalDamaged, match=r"\[5, 10\)"):
            journal.batches(0, 20)
        assert "[5, 10) of the journal are lost" in caplog.text

    def test_the_last_is_missing_after_a_rest(self, directory: Path) -> None:
        filled(directory).flush()
        objects(directory)[-1].unlink()
        with pytest.raises(JournalDamaged, match=r"messages \[15, 20\)"):
            object_journal(directory)
        # Its positions were given away.
        assert object_journal(directory, tolerant=True).append([batch_of(0, 1)]) == [20]

    @pytest.mark.rule("J.14")
    @pytest.mark.parametrize("index", [0, 2, 3])
    def test_one_is_cut_off(self, directory: Path, index: int) -> None:
        filled(directory).flush()
        path = objects(directory)[index]
        path.write_bytes(path.read_bytes()[:100])
        lost = rf"{path.name} has 100 bytes.*\[{5 * index}, {5 * index + 5}\)"
        with pytest.raises(JournalDamaged, match=lost):
            object_journal(directory)
        journal = object_journal(directory, tolerant=True)
        assert (journal.end, journal.bytes_between(5 * index, 5 * index + 5)) == (20, 0)

    @pytest.mark.parametrize("offset", [2, 20, 100, 300])
    def test_a_damaged_byte_is_noticed_when_it_is_read(
        self, directory: Path, offset: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        filled(directory)
        damage(objects(directory)[1], offset)
        journal = object_journal(directory)
        with pytest.raises(JournalDamaged, match=r"damaged: messages \[5, 10\)"):
            list(journal.batches(0, 20))
        assert object_journal(directory, tolerant=True).held(0, 20) == [(0, 5), (10, 20)]
        assert "[5, 10) of the journal are lost" in caplog.text

    def test_one_that_vanishes_is_noticed_when_it_is_read(self, directory: Path) -> None:
        filled(directory)
        journal = object_journal(directory)
        objects(directory)[1].unlink()
        with pytest.raises(JournalDamaged, match=r"is missing: messages \[5, 10\)"):
            list(journal.batches(0, 20))

    def test_what_is_trimmed_while_it_is_read(self, directory: Path) -> None:
        filled(directory)
        journal = object_journal(directory)
        batches = journal.batches(0, 20)
        assert bodies([next(batches)]) == expected(0, 5)
        journal.commit(10)
        journal.trim(10)
        with pytest.raises(JournalTrimmed, match=r"\[5, 10\)"):
            next(batches)

    @pytest.mark.parametrize("how", ["missing", "damaged"])
    def test_it_is_not_known_which_journal_it_is(self, directory: Path, how: str) -> None:
        filled(directory)
        opening = objects(directory, MANIFESTS)[0]
        if how == "missing":
            opening.unlink()
        else:
            damage(opening, 30)
        with pytest.raises(JournalDamaged, match="the manifest that names the journal"):
            object_journal(directory)
        journal = object_journal(directory, tolerant=True)
        # Nothing of it is served, and its positions are not given away again.
        assert (journal.first, journal.end) == (20, 20)

    def test_the_newest_of_two_openings_is_damaged(self, directory: Path) -> None:
        filled(directory, 2)
        older = objects(directory, MANIFESTS)[0]
        content = older.read_bytes()
        journal = object_journal(directory)
        journal.append([batch_of(10, 5)])
        older.write_bytes(content)
        damage(objects(directory, MANIFESTS)[1], 30)
        with pytest.raises(JournalDamaged, match=r"is damaged: .*checksum.*messages \[10, 15\)"):
            object_journal(directory)
        assert object_journal(directory, tolerant=True).held(0, 15) == [(0, 10)]

    def test_a_newer_format_is_refused_by_name(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.journal.objects.fencing._FORMAT", 9)
        filled(directory)
        monkeypatch.undo()
        with pytest.raises(JournalError, match="format 9"):
            object_journal(directory)


def test_positions_skipped_in_an_empty_journal_are_not_lost(directory: Path) -> None:
    object_journal(directory).skip(100)
    journal = object_journal(directory)
    assert (journal.first, journal.committed, journal.end) == (100, 100, 100)


class TestMemory:
    def test_what_was_just_written_is_not_fetched(self, store: Busy) -> None:
        journal = store.journal()
        journal.append([batch_of(0, 5)])
        assert bodies(journal.batches(0, 5)) == expected(0, 5)
        assert journal.bytes_between(1, 3) > 0
        assert "get" not in {call for call, _ in store.calls}

    def test_what_is_kept_is_bounded(self, directory: Path, store: Busy) -> None:
        journal = store.journal(cache_bytes=1_000)
        for number in range(10):
            journal.append([batch_of(5 * number, 5)])
        sizes = [path.stat().st_size for path in objects(directory)]
        # The newest ones, as many as there is room for.
        count = next(count for count in range(10) if sum(sizes[-count - 1 :]) > 1_000)
        assert (len(store.cache), store.cache.content_bytes) == (10, sum(sizes[-count:]))
        assert bodies(journal.batches(0, 50)) == expected(0, 50)
        assert [call for call, _ in store.calls].count("get") >= 8


@pytest.mark.rule("J.11")
def test_what_is_not_committed_is_not_deleted(directory: Path) -> None:
    journal = filled(directory)
    journal.commit(10)
    journal.trim(20)
    assert (journal.first, len(objects(directory))) == (10, 2)


class TestFlush:
    def test_one_mark_is_enough(self, directory: Path) -> None:
        journal = filled(directory)
        for position in range(1, 10):
            journal.commit(position)
            journal.flush()
        assert len(objects(directory, MARKS)) == 1


KEYS = [MessageKey("/queue/a", b"ID:%d" % number, b"d" * 16) for number in range(100)]


class TestRememberedKeys:
    def test_they_are_bounded_while_they_grow(self, directory: Path) -> None:
        journal = object_journal(directory, max_remembered=20)
        for key in KEYS:
            journal.remember([key])
        kept = object_journal(directory, max_remembered=1_000).remembered_keys
        assert kept == KEYS[-len(kept) :]
        assert 20 <= len(kept) <= 20 + 64
        assert object_journal(directory, max_remembered=20).remembered_keys == KEYS[-20:]

    @pytest.mark.parametrize("how", ["damaged", "cut off"])
    def test_damage_is_an_error_or_tolerated(
        self, directory: Path, caplog: pytest.LogCaptureFixture, how: str
    ) -> None:
        journal = object_journal(directory)
        journal.remember(KEYS[:2])
        journal.remember(KEYS[2:4])
        first = objects(directory, DEDUP_LOG)[0]
        if how == "damaged":
            damage(first, 30)
        else:
            first.write_bytes(first.read_bytes()[:-1])
        with pytest.raises(JournalDamaged, match="second row"):
            object_journal(directory)
        with caplog.at_level(logging.ERROR):
            assert object_journal(directory, tolerant=True).remembered_keys == KEYS[2:4]
        assert "second row" in caplog.text
