"""Open a journal: a local directory, or objects in an object store or on a mount of one."""

from __future__ import annotations

from dataclasses import replace

from spark_stomp.errors import UnsupportedError
from spark_stomp.files.locations import resolve, without_credentials
from spark_stomp.journal.api import Journal, JournalSettings
from spark_stomp.journal.local.journal import LocalJournal
from spark_stomp.journal.objects.blobs import Blobs, open_store
from spark_stomp.journal.objects.journal import ObjectJournal


def open_journal(settings: JournalSettings) -> Journal:
    """Open the journal at ``settings.location``; make it if there is none.

    Raises UnsupportedError if no file system is known for the location, and JournalInUse, JournalDamaged or
    JournalUnwritable if the journal cannot be used.
    """
    try:
        location = resolve(settings.location)
    except ValueError as error:
        raise UnsupportedError(
            f"journal = {without_credentials(settings.location)} cannot be opened: {error}. Give a local "
            "directory or a URI of an object store that pyarrow knows"
        ) from error
    if location.takes_appends:
        return LocalJournal(replace(settings, location=location.root))
    return ObjectJournal(settings, Blobs(open_store(location), location))
