"""The journal: frames are durable here before Spark is told about them.

Goal: a batch that was planned gives the same rows after any restart, and messages may be ACKed before Spark
has processed them (contract, part J).

Plan: one interface (api.py) and one format of records (records.py), with two engines:

- local/: a directory. Segments are appended to and synced. A file lock admits one writer.
- objects/: an object store, or a mount of one. Objects are put once. The newest writer stops older ones.

Every frame gets a position, which counts over all receivers and all runs of the query. The writer's thread
(source/journal_writer.py) appends, commits and deletes; tasks read by position. Files are deleted once Spark
has committed their frames. Before that, message keys go to the dedup log, so that a late redelivery is still
recognised. docs/journal.md has the files, the recovery and the proof for object stores.

Invariants:

- A position always names the same bytes.
- A frame has a position only once it is durable.
- What is not committed is never deleted.
- After a write that failed, nothing more is written, unless only a disk or mount was full.
- One thread writes, any thread reads, and no lock is held during I/O: lists are replaced as a whole.

Tried and left (November 2026):

- One engine: on a local disk, with ActiveMQ, objects reached 0.82 of the rate of segments, and 0.95 with
  ``ackAfter=journal``. So both engines stay.
- Records without a random marker: a producer's body that looked like records was taken for them after damage.
- An index entry for each record: 435 bytes of memory for each message that came alone.
- Trusting the system's cache when a journal is opened, or after a sync failed: the disk may have other bytes.
- Merging objects of keys in tiers, which read them back: the keys are in memory anyway.
"""

from spark_stomp.journal.api import Journal, JournalFull, JournalSettings
from spark_stomp.journal.open import open_journal

__all__ = ["Journal", "JournalFull", "JournalSettings", "open_journal"]
