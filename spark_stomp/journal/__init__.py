"""The journal: frames are durable here before their offsets are offered to Spark."""

from spark_stomp.journal.open import open_journal
from spark_stomp.journal.recovery import recover
from spark_stomp.journal.store import Journal, JournalSettings
from spark_stomp.journal.writer import JournalWriter

__all__ = ["Journal", "JournalSettings", "JournalWriter", "open_journal", "recover"]
