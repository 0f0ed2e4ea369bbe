"""The journal: frames are durable here before Spark is told about them.

Goal: a batch that was planned gives the same rows after any restart, and messages may be ACKed before Spark
has processed them (contract, part J).

Plan: objects that are put once, read and deleted, and never changed. On a disk or a mount these are files
(store.py). Every frame gets a position, which counts over all receivers and all runs of the query. The
writer's thread (source/journal_writer.py) appends, commits and deletes; tasks read by position. Objects are
deleted once Spark has committed their frames. Before that, message keys go to the dedup log, so that a late
redelivery is still recognised. On a disk a lock admits one writer; elsewhere the newest writer stops older
ones. formats.py has the objects, opening.py the recovery and the proof.

Invariants:

- A position that was returned always names the same bytes.
- A frame has a position only once it is durable.
- What is not committed is never deleted.
- After a write that failed, no frames are written, unless there was no room: then nothing of it is there.
- One thread writes, any thread reads, and no lock is held during I/O.
"""

from spark_stomp.journal.journal import Journal, JournalSettings, open_journal
