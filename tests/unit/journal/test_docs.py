"""The formats name the files and folders that are there, and the page the number of keys."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.journals import batch_of, local_journal, object_journal

from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import Journal, formats
from spark_stomp.journal.formats import FOLDERS, LOCK, RESERVE
from spark_stomp.receiver.dedup import MAX_REMEMBERED

PAGE = (Path(__file__).parents[3] / "docs" / "exactly-once.md").read_text(encoding="utf-8")


def named() -> set[str]:
    """The files and folders in the docstring of the formats."""
    return set(re.findall(r"^    (\w+)\b", inspect.cleandoc(formats.__doc__ or ""), re.MULTILINE))


def used(journal: Journal) -> None:
    """Everything is written that a journal may write."""
    journal.append([batch_of(0, 1)])
    journal.commit(1)
    journal.flush()
    journal.remember([MessageKey("/queue/a", b"ID:1", b"d" * 16)])
    journal.close()


@pytest.mark.parametrize(
    ("opened", "further"), [(local_journal, {LOCK, RESERVE}), (object_journal, {RESERVE})]
)
def test_what_is_written(tmp_path: Path, opened: Callable[[Path], Journal], further: set[str]) -> None:
    used(opened(tmp_path))
    assert all(len(list((tmp_path / folder).iterdir())) == 1 for folder in FOLDERS)
    assert {path.name for path in tmp_path.iterdir()} == {*FOLDERS, *further}
    assert named() == {*FOLDERS, LOCK, RESERVE}


def test_how_many_keys_are_kept() -> None:
    assert f"until {MAX_REMEMBERED:,} newer ones came" in " ".join(PAGE.split())
