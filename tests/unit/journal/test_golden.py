"""Journals that released versions wrote are read: the ids of their deleted frames are remembered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.golden import GOLDEN, KINDS, REMEMBERED, kind_of_journal

from spark_stomp.journal import JournalSettings, open_journal

RELEASES = sorted(path.parent for path in GOLDEN.glob("*/journal"))


def test_there_is_one_for_every_format() -> None:
    assert [path.name for path in RELEASES] == ["0.3"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_the_keys_of_deleted_frames_are_known(release: Path, kind: str, tmp_path: Path) -> None:
    shutil.copytree(release / "journal", tmp_path / kind)
    with kind_of_journal(kind, tmp_path / kind):
        journal = open_journal(JournalSettings(str(tmp_path / kind), 1 << 20, max_remembered=1_000))
    assert list(journal.remembered_keys) == REMEMBERED
    journal.close()
