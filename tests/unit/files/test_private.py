"""Files that hold messages or tell of them: for the user alone, whatever the umask, and not through links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.journals import batch_of, local_journal, object_journal, objects

from spark_stomp.errors import CheckpointUnreadable, JournalUnwritable
from spark_stomp.files import make_folder, open_file, resolve
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import Journal
from spark_stomp.journal.formats import FOLDERS
from spark_stomp.source.checkpoint import Checkpoint
from spark_stomp.status.files import StatusFile

KEYS = [MessageKey("/queue/a", b"ID:1", b"d" * 16)]
PRECIOUS = b"nothing of ours"


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user's that somebody would like us to overwrite."""
    path = tmp_path / "precious"
    path.write_bytes(PRECIOUS)
    return path


def modes(folder: Path) -> dict[str, int]:
    """Of the folder and everything in it, by relative path."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def fill_journal(folder: Path, opened: Callable[[Path], Journal] = local_journal) -> None:
    journal = opened(folder)
    journal.append([batch_of(0, 5)])
    journal.remember(KEYS)
    journal.close()


def fill_objects(folder: Path) -> None:
    fill_journal(folder, object_journal)


def fence(root: Path) -> None:
    Checkpoint(str(root)).fence(["epoch"])


def write_status(folder: Path) -> None:
    StatusFile(resolve(str(folder)), str(folder / "status.json")).write(b"{}")


WRITERS = [fill_journal, fill_objects, fence, write_status]


@pytest.mark.usefixtures("no_umask")
class TestModes:
    @pytest.mark.parametrize("write", WRITERS)
    def test_files_are_0600_in_folders_of_0700(self, tmp_path: Path, write: Callable[[Path], None]) -> None:
        write(tmp_path / "made" if write is write_status else tmp_path / "made" / "below")
        found = modes(tmp_path)
        assert any((tmp_path / name).is_file() for name in found)
        assert found == {name: 0o600 if (tmp_path / name).is_file() else 0o700 for name in found}

    @pytest.mark.parametrize("write", WRITERS)
    def test_a_folder_of_the_users_keeps_its_mode(
        self, tmp_path: Path, write: Callable[[Path], None]
    ) -> None:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        theirs.chmod(0o1775)
        write(theirs)
        assert stat.S_IMODE(theirs.stat().st_mode) == 0o1775

    def test_a_journal_restored_from_a_copy_is_private_from_now_on(self, tmp_path: Path) -> None:
        """The umask decided on the modes of the copy. Nobody else can enter its folders."""
        fill_journal(tmp_path)
        for path in tmp_path.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        local_journal(tmp_path).close()
        found = modes(tmp_path)
        assert {found[folder] for folder in FOLDERS} == {0o700}
        assert found["lock"] == 0o600


class TestPlantedLinks:
    """Somebody who may write to the folder puts a link where a file is to be made."""

    def planted(self, folder: Path, name: str, precious: Path) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / name).symlink_to(precious)
        return folder / name

    @pytest.mark.parametrize("name", ["lock", "reserve"])
    def test_in_a_new_journal(self, tmp_path: Path, precious: Path, name: str) -> None:
        folder = tmp_path / "journal"
        precious.unlink()
        self.planted(folder, name, precious)
        with pytest.raises(JournalUnwritable, match=f"link.*{name}"):
            fill_journal(folder)
        assert not precious.exists()

    @pytest.mark.parametrize("name", ["lock", *FOLDERS])
    def test_in_place_of_what_an_earlier_run_left(self, tmp_path: Path, precious: Path, name: str) -> None:
        folder = tmp_path / "journal"
        fill_journal(folder)
        stale = folder / name
        stale.rename(tmp_path / "stale")
        self.planted(folder, name, precious if name == "lock" else tmp_path / "stale")
        before = modes(tmp_path)
        with pytest.raises(JournalUnwritable, match=f"link.*{name}"):
            fill_journal(folder)
        assert modes(tmp_path) == before
        assert precious.read_bytes() == PRECIOUS

    def test_a_link_in_place_of_the_reserve_stays(self, tmp_path: Path, precious: Path) -> None:
        self.planted(tmp_path / "journal", "reserve", precious)
        fill_journal(tmp_path / "journal")
        assert precious.read_bytes() == PRECIOUS

    def test_in_place_of_frames(self, tmp_path: Path, precious: Path) -> None:
        fill_journal(tmp_path)
        (frames,) = objects(tmp_path)
        frames.unlink()
        frames.symlink_to(precious)
        # As the last object it counts as unfinished, and the link is deleted.
        local_journal(tmp_path).close()
        assert not frames.is_symlink()
        assert precious.read_bytes() == PRECIOUS

    def test_in_a_journal_on_a_mount(self, tmp_path: Path, precious: Path) -> None:
        journal = object_journal(tmp_path / "journal")
        journal.append([batch_of(0, 5)])
        frames = tmp_path / "journal" / "frames"
        (name,) = [path.name for path in frames.iterdir()]
        first, rest = name.split("-", 1)
        link = self.planted(frames, f"{5:0{len(first)}}-{rest}", precious)
        with pytest.raises(JournalUnwritable, match=link.name):
            journal.append([batch_of(5, 5)])
        journal.close()
        assert precious.read_bytes() == PRECIOUS

    def test_where_a_fence_is_to_be(self, tmp_path: Path, precious: Path) -> None:
        fences = tmp_path / "checkpoint" / "spark_stomp" / "fences"
        fences.mkdir(parents=True)
        self.planted(fences, "epoch", precious)
        with pytest.raises(CheckpointUnreadable, match="fences/epoch"):
            fence(tmp_path / "checkpoint")
        assert precious.read_bytes() == PRECIOUS

    @pytest.mark.parametrize("behind", ["", f".{os.getpid()}.tmp"], ids=["file", "temporary"])
    def test_where_the_status_is_to_be(self, tmp_path: Path, precious: Path, behind: str) -> None:
        link = self.planted(tmp_path / "status", f"status.json{behind}", precious)
        with pytest.raises(OSError, match="link") as refused:
            write_status(tmp_path / "status")
        assert str(link) in str(refused.value)
        assert precious.read_bytes() == PRECIOUS
        assert link.is_symlink()

    def test_a_pipe_does_not_make_us_wait(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "status.json.pipe")
        with pytest.raises(OSError, match=r"status\.json\.pipe"):
            open_file(tmp_path / "status.json.pipe", os.O_RDWR | os.O_CREAT)


@pytest.mark.usefixtures("no_umask")
def test_the_status_of_a_process_that_was_killed_is_written_over(tmp_path: Path) -> None:
    """Its temporary file may still be there, under the number of a process of now; with whatever mode."""
    stale = tmp_path / f"status.json.{os.getpid()}.tmp"
    stale.write_bytes(b"a part of")
    stale.chmod(0o666)
    write_status(tmp_path)
    assert (tmp_path / "status.json").read_bytes() == b"{}"
    assert modes(tmp_path) == {"status.json": 0o600}


def test_a_folder_that_is_a_file_is_named(tmp_path: Path, precious: Path) -> None:
    with pytest.raises(OSError, match="precious"):
        make_folder(precious / "below")


def test_the_users_own_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    """Only names that the connector makes itself must be no links."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "journal").symlink_to(tmp_path / "disk")
    fill_journal(tmp_path / "journal")
    assert (tmp_path / "disk" / "lock").exists()
