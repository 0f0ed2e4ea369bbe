"""docs/journal.md names the files and folders that are there."""

from __future__ import annotations

import re
from pathlib import Path

from support.journals import batch_of, local_journal, object_journal

from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import Journal
from spark_stomp.journal.objects.object_names import FOLDERS, RESERVE
from spark_stomp.receiver.dedup import MAX_REMEMBERED

TEXT = (Path(__file__).parents[3] / "docs" / "journal.md").read_text(encoding="utf-8")


def first_column(heading: str) -> set[str]:
    """The names in the table of a section."""
    section = TEXT.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    return set(re.findall(r"^\| `(\S+)` \|", section, re.MULTILINE))


def used(journal: Journal) -> None:
    """Everything is written that a journal may write."""
    journal.append([batch_of(0, 1)])
    journal.commit(1)
    journal.flush()
    journal.remember([MessageKey("/queue/a", b"ID:1", b"d" * 16)])
    journal.close()


def test_the_files_of_a_local_journal(tmp_path: Path) -> None:
    used(local_journal(tmp_path))
    assert first_column("In a local directory") == {path.name for path in tmp_path.iterdir()}


def test_the_folders_of_a_journal_of_objects(tmp_path: Path) -> None:
    used(object_journal(tmp_path))
    assert all(len(list((tmp_path / folder).iterdir())) == 1 for folder in FOLDERS)
    found = {path.name for path in tmp_path.iterdir()}
    assert first_column("In an object store") == found == {*FOLDERS, RESERVE}


def test_how_many_keys_are_kept() -> None:
    assert f"The {MAX_REMEMBERED:,} newest keys" in TEXT
