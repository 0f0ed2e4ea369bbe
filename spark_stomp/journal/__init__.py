"""The journal: frames are durable here before their offsets are offered to Spark."""

from spark_stomp.journal.api import Journal, JournalSettings
from spark_stomp.journal.open import open_journal
from spark_stomp.source.journal_recovery import recover
from spark_stomp.source.journal_writer import JournalWriter

__all__ = ["Journal", "JournalSettings", "JournalWriter", "open_journal", "recover"]
