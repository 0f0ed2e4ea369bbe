"""The journal: frames are durable here before their offsets are offered to Spark."""

from spark_stomp.journal.api import Journal, JournalFull, JournalSettings
from spark_stomp.journal.open import open_journal

__all__ = ["Journal", "JournalFull", "JournalSettings", "open_journal"]
