"""Which journal a location means."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_stomp.errors import UnsupportedError
from spark_stomp.journal import JournalSettings, open_journal
from spark_stomp.journal.local.journal import LocalJournal
from spark_stomp.journal.objects.journal import ObjectJournal


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_paths_and_file_uris_are_local(tmp_path: Path, form: str) -> None:
    journal = open_journal(JournalSettings(form.format(tmp_path / "a b"), 1 << 20, max_remembered=1_000))
    assert isinstance(journal, LocalJournal)
    assert (tmp_path / "a b" / "journal.json").exists()
    journal.close()


@pytest.mark.parametrize("form", ["{}", "file:{}"])
def test_mounts_of_stores_are_for_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr("spark_stomp.files.locations._MOUNTS", (str(tmp_path),))
    journal = open_journal(JournalSettings(form.format(tmp_path / "journal"), 1 << 20, max_remembered=1_000))
    assert isinstance(journal, ObjectJournal)
    assert len(list((tmp_path / "journal" / "writers").iterdir())) == 1


def test_credentials_are_not_shown() -> None:
    settings = JournalSettings(
        "ftp://me:tops3cret@host/journal?access_key=tops3cret", 1 << 20, max_remembered=1_000
    )
    with pytest.raises(UnsupportedError, match=r"ftp://\*\*\*@host/journal") as caught:
        open_journal(settings)
    assert "tops3cret" not in f"{caught.value} {settings}"


def test_what_there_is_no_journal_for_is_said() -> None:
    with pytest.raises(UnsupportedError, match="ftp:"):
        open_journal(JournalSettings("ftp://host/journal", 1 << 20, max_remembered=1_000))
