"""Which sort of journal a location means."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

from spark_stomp.errors import UnsupportedError
from spark_stomp.journal.local import LocalJournal
from spark_stomp.journal.store import Journal, JournalSettings

__all__ = ["open_journal"]


def open_journal(settings: JournalSettings) -> Journal:
    """The journal at ``settings.location``, made where there is none.

    Raises JournalInUse, JournalDamaged or JournalUnwritable where it cannot be used.
    """
    scheme, separator, rest = settings.location.partition(":")
    if not separator or "/" in scheme:
        return LocalJournal(settings)
    if scheme == "file":
        return LocalJournal(replace(settings, location=unquote("/" + rest.lstrip("/"))))
    raise UnsupportedError(f"journal: there is no journal for {scheme}: locations; name a local directory")
