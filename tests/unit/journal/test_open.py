"""Which journal a location means."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_stomp.errors import UnsupportedError
from spark_stomp.journal import JournalSettings, open_journal
from spark_stomp.journal.local import LocalJournal


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_paths_and_file_uris_are_local(tmp_path: Path, form: str) -> None:
    journal = open_journal(JournalSettings(form.format(tmp_path / "a b"), 1 << 20))
    assert isinstance(journal, LocalJournal)
    assert (tmp_path / "a b" / "journal.json").exists()
    journal.close()


def test_what_there_is_no_journal_for_is_said() -> None:
    with pytest.raises(UnsupportedError, match="ftp:"):
        open_journal(JournalSettings("ftp://host/journal", 1 << 20))
