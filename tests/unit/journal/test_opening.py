"""Opening a journal: who may write, what a crash may leave, and errors for what is not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.journals import Open, batch_of, bodies, damage, expected, fill, object_journal, objects

from spark_stomp.errors import JournalDamaged, JournalError, JournalInUse, JournalUnwritable
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal.formats import FOLDERS, FRAMES, KEYS, STATES, WRITERS
from spark_stomp.journal.store import FolderStore, RetryingStore


class TestTakeover:
    @pytest.mark.rule("J.15")
    def test_the_older_writer_stops_and_what_it_put_then_is_void(self, directory: Path) -> None:
        old = fill(object_journal(directory), 2)
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
        journal = fill(object_journal(directory), 2)
        objects(directory, WRITERS)[0].unlink()
        with pytest.raises(JournalDamaged, match="somebody deleted"):
            journal.append([batch_of(10, 5)])

    @pytest.mark.parametrize("folder", [STATES, KEYS])
    def test_what_always_vanishes_is_an_error(
        self, directory: Path, opened: Open, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(opened(), 2).remember([MessageKey("/queue/a", b"ID:1", b"d" * 16)])
        for name in ("get", "reread"):
            read = getattr(FolderStore, name)

            def gone(store: FolderStore, path: str, read: Callable[..., bytes] = read) -> bytes:
                if path.startswith(folder):
                    raise FileNotFoundError(path)
                return read(store, path)

            monkeypatch.setattr(FolderStore, name, gone)
        with pytest.raises(JournalDamaged, match="keep vanishing"):
            opened()

    def test_what_vanishes_meanwhile_is_listed_again(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An older writer that does not know yet of this one puts another state in place of its last."""
        old = fill(object_journal(directory), 2)
        sizes = RetryingStore.sizes
        calls = []

        def listed(store: RetryingStore, folder: str) -> dict[str, int]:
            found = sizes(store, folder)
            if folder == STATES and not calls:
                calls.append(folder)
                old.commit(5)
                old.flush()
            return found

        monkeypatch.setattr(RetryingStore, "sizes", listed)
        new = object_journal(directory)
        assert (calls, new.committed, new.end) == ([STATES], 5, 10)

    def test_everything_is_deleted_under_its_hands(self, directory: Path, opened: Open) -> None:
        journal = fill(opened(), 2)
        shutil.rmtree(directory)
        with pytest.raises(JournalUnwritable, match="No such file"):
            journal.append([batch_of(10, 5)])

    def test_openings_leave_nothing_behind(self, directory: Path, opened: Open) -> None:
        fill(opened(), 2).flush()
        for _ in range(5):
            opened().flush()
        assert [len(objects(directory, folder)) for folder in FOLDERS] == [1, 1, 2, 0]

    def test_what_is_somebody_elses_stays(self, directory: Path, opened: Open) -> None:
        fill(opened(), 2)
        for folder in FOLDERS:
            (directory / folder / "_SUCCESS").touch()
            (directory / folder / "sub").mkdir()
        assert bodies(opened().batches(0, 10)) == expected(0, 10)
        assert (directory / FRAMES / "_SUCCESS").exists()


class TestState:
    """A state never changes but for how far the journal is, and there always is one."""

    def test_the_new_one_is_put_before_the_old_one_goes(
        self, directory: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = fill(opened())
        seen = []
        put = FolderStore.put

        def noted(store: FolderStore, path: str, data: bytes) -> None:
            put(store, path, data)
            seen.append((path.split("/")[0], len(objects(directory, STATES))))

        monkeypatch.setattr(FolderStore, "put", noted)
        journal.commit(3)
        journal.flush()
        # The next opening does so too, before the old writer's goes.
        opened()
        assert seen == [(STATES, 2), (WRITERS, 1), (STATES, 2)]
        assert len(objects(directory, STATES)) == 1

    def test_one_that_was_not_finished_does_not_count(self, directory: Path, opened: Open) -> None:
        journal = fill(opened(), 2)
        name = objects(directory, STATES)[0].name
        journal.commit(5)
        journal.flush()
        kept = objects(directory, STATES)[0]
        following = name.replace("-0000000000-", "-0000000007-")
        for content in (b"", kept.read_bytes()[:20], bytes(int(name.rpartition("-")[2]))):
            (directory / STATES / following).write_bytes(content)
            assert opened().committed == 5
            (directory / STATES / following).unlink(missing_ok=True)

    @pytest.mark.parametrize("how", ["missing", "damaged"])
    def test_it_is_not_known_which_journal_it_is(self, directory: Path, opened: Open, how: str) -> None:
        fill(opened())
        state = objects(directory, STATES)[0]
        if how == "missing":
            state.unlink()
        else:
            damage(state, 30)
        with pytest.raises(JournalDamaged, match="the state that names the journal"):
            opened()
        journal = opened(tolerant=True)
        # Nothing of it is served, and its positions are not given away again.
        assert (journal.first, journal.end) == (20, 20)

    def test_the_newest_of_two_openings_is_damaged(self, directory: Path, opened: Open) -> None:
        fill(opened(), 2)
        older = objects(directory, STATES)[0]
        content = older.read_bytes()
        opened().append([batch_of(10, 5)])
        older.write_bytes(content)
        damage(objects(directory, STATES)[1], 30)
        with pytest.raises(JournalDamaged, match=r"is damaged: .*checksum.*messages \[10, 15\)"):
            opened()
        assert opened(tolerant=True).held(0, 15) == [(0, 10)]

    @pytest.mark.parametrize("folder", [STATES, KEYS, FRAMES])
    def test_what_is_larger_than_its_name_says_is_not_read(
        self, directory: Path, opened: Open, folder: str
    ) -> None:
        journal = opened()
        for _ in range(2):
            journal.remember([MessageKey("/queue/a", b"1", b"d" * 16)])
        fill(journal).flush()
        # A hole in a file: memory for it is nowhere.
        os.truncate(objects(directory, folder)[0], 1 << 43)
        with pytest.raises(JournalDamaged):
            opened()
        assert opened(tolerant=True).append([batch_of(0, 1)]) == [20]

    def test_a_newer_format_is_refused_by_name(self, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("spark_stomp.journal.formats._FORMAT", 9)
        fill(opened())
        monkeypatch.undo()
        with pytest.raises(JournalError, match="format 9"):
            opened()


def unfinished(path: Path, how: str) -> tuple[Path, bytes]:
    """An object of which only the first 100 bytes were written, or only zeros; and its content now."""
    content = path.read_bytes()[:100] if how == "cut off" else bytes(path.stat().st_size)
    path.write_bytes(content)
    return path, content


class TestCrash:
    """The last object may be unfinished if the journal is not known to have reached it; nothing else may."""

    @pytest.mark.rule("J.14")
    def test_the_last_one_is_cut_off_anywhere_or_full_of_zeros(self, directory: Path, opened: Open) -> None:
        fill(opened(), 3)
        copy = directory.with_name("copy")
        shutil.copytree(directory, copy)
        path = objects(directory)[-1]
        whole = path.read_bytes()
        for content in (*(whole[:size] for size in range(0, len(whole), 7)), bytes(len(whole))):
            shutil.rmtree(directory)
            shutil.copytree(copy, directory)
            path.write_bytes(content)
            journal = opened()
            assert (journal.end, bodies(journal.batches(0, 10))) == (10, expected(0, 10))
            assert not path.exists()
        assert journal.append([batch_of(10, 1)]) == [10]

    @pytest.mark.rule("J.1", "J.14")
    @pytest.mark.parametrize("how", ["cut off", "zeros"])
    def test_what_a_state_proves_was_whole(self, directory: Path, opened: Open, how: str) -> None:
        fill(opened(), 3).flush()
        path, content = unfinished(objects(directory)[-1], how)
        with pytest.raises(JournalDamaged, match=r"messages \[10, 15\)"):
            list(opened().batches(0, 15))
        # Not even if that is tolerated.
        assert opened(tolerant=True).held(0, 15) == [(0, 10)]
        assert path.read_bytes() == content

    @pytest.mark.rule("J.14")
    @pytest.mark.parametrize("how", ["cut off", "zeros"])
    def test_what_another_was_put_after_was_whole(self, directory: Path, opened: Open, how: str) -> None:
        fill(opened(), 3)
        path, content = unfinished(objects(directory)[1], how)
        with pytest.raises(JournalDamaged, match=r"messages \[5, 10\)"):
            list(opened().batches(0, 15))
        assert path.read_bytes() == content

    @pytest.mark.rule("J.14")
    def test_what_an_older_writer_put_last_was_whole(self, directory: Path, opened: Open) -> None:
        fill(opened(), 3)
        opened()
        unfinished(objects(directory)[-1], "cut off")
        with pytest.raises(JournalDamaged, match=r"messages \[10, 15\)"):
            opened()

    @pytest.mark.rule("J.16")
    def test_what_was_committed_is_told_before_it_is_deleted(
        self, directory: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal = fill(opened(), 3)
        journal.commit(15)
        deleted = []
        delete = FolderStore.delete

        def only_one(store: FolderStore, path: str) -> None:
            if path.startswith(FRAMES):
                deleted.append(path)
                if len(deleted) > 1:
                    raise PermissionError("gone")
            delete(store, path)

        monkeypatch.setattr(FolderStore, "delete", only_one)
        with pytest.raises(JournalUnwritable):
            journal.trim(15)
        monkeypatch.undo()
        again = opened()
        assert (again.first, again.committed, again.end) == (5, 15, 15)

    def test_a_deleted_object_that_reappears_is_deleted_again(self, directory: Path, opened: Open) -> None:
        journal = fill(opened())
        first = objects(directory)[0]
        content = first.read_bytes()
        journal.commit(10)
        journal.trim(10)
        first.write_bytes(content)
        again = opened()
        assert (again.first, again.end) == (10, 20)
        assert not first.exists()


class TestDamage:
    @pytest.mark.rule("J.13")
    def test_an_object_in_the_middle_is_missing(
        self, directory: Path, opened: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        fill(opened())
        objects(directory)[1].unlink()
        with pytest.raises(
            JournalDamaged, match=r"messages \[5, 10\) of the journal are lost, 5 in all.*failOnD"
        ):
            opened()
        journal = opened(tolerant=True)
        assert journal.held(0, 30) == [(0, 5), (10, 20)]
        assert bodies(journal.batches(10, 20)) == expected(10, 20)
        with pytest.raises(JournalDamaged, match=r"\[5, 10\)"):
            journal.batches(0, 20)
        assert "[5, 10) of the journal are lost, 5 in all" in caplog.text

    def test_below_what_is_committed_nothing_is_lost(self, directory: Path, opened: Open) -> None:
        journal = fill(opened())
        journal.commit(10)
        journal.flush()
        objects(directory)[1].unlink()
        assert opened().held(0, 20) == [(10, 20)]

    def test_the_last_is_missing_after_a_rest(self, directory: Path, opened: Open) -> None:
        fill(opened()).flush()
        objects(directory)[-1].unlink()
        with pytest.raises(JournalDamaged, match=r"messages \[15, 20\)"):
            opened()
        # Its positions were given away.
        assert opened(tolerant=True).append([batch_of(0, 1)]) == [20]

    @pytest.mark.rule("J.14")
    @pytest.mark.parametrize("index", [0, 2, 3])
    def test_one_is_cut_off(self, directory: Path, opened: Open, index: int) -> None:
        fill(opened()).flush()
        path, _ = unfinished(objects(directory)[index], "cut off")
        lost = rf"{path.name} has 100 bytes.*\[{5 * index}, {5 * index + 5}\)"
        with pytest.raises(JournalDamaged, match=lost):
            opened()
        for _ in range(2):
            journal = opened(tolerant=True)
            assert (journal.end, journal.bytes_between(5 * index, 5 * index + 5)) == (20, 0)
            # Before all that is left it counts as committed, and goes.
            assert index == 0 or path.stat().st_size == 100

    @pytest.mark.parametrize("offset", [2, 20, 100, 300])
    def test_a_damaged_byte_is_noticed_when_it_is_read(
        self, directory: Path, opened: Open, offset: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        fill(opened()).flush()
        damage(objects(directory)[1], offset)
        journal = opened()
        with pytest.raises(JournalDamaged, match=r"damaged: messages \[5, 10\)"):
            list(journal.batches(0, 20))
        assert opened(tolerant=True).held(0, 20) == [(0, 5), (10, 20)]
        assert "[5, 10) of the journal are lost, 5 in all" in caplog.text

    def test_one_that_vanishes_is_noticed_when_it_is_read(self, directory: Path, opened: Open) -> None:
        fill(opened()).flush()
        journal = opened()
        objects(directory)[1].unlink()
        with pytest.raises(JournalDamaged, match=r"is missing: messages \[5, 10\)"):
            list(journal.batches(0, 20))
