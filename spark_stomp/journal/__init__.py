"""The journal: frames are durable here before their offsets are offered to Spark."""

from spark_stomp.journal.api import Journal, JournalSettings
from spark_stomp.journal.open import open_journal

__all__ = ["Journal", "JournalSettings", "open_journal"]
