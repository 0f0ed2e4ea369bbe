"""What earlier runs left in the journal, held by deliveries without a connection.

These frames have no ack handles: those ended with their connections. But the broker may not know of their
ACKs, and may deliver them again. Such a delivery is attached to the held frame, and gives no second row.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_stomp.brokers import dialect_named
from spark_stomp.framebatch import FrameBatch
from spark_stomp.journal import Journal
from spark_stomp.logs import get_log
from spark_stomp.protocol import NEED_DATA, FrameScanner, MalformedMessage, MessageBlock
from spark_stomp.quoting import counted
from spark_stomp.receiver import DedupIndex, Deliveries
from spark_stomp.receiver.dedup import NO_LIMITS

log = get_log(__name__)


def recover(journal: Journal, index: DedupIndex, id_header: str | None, *, most: int) -> Deliveries:
    """The frames of ``journal``, held under keys by this run's ``id_header`` or their own dialect.

    Those that are not committed have keys, and of the others the newest, ``most`` in all. If an older one is
    delivered again, it is a second row; ``index`` counts the older ones.
    """
    recovered = Deliveries(0, index, "journal")
    with index.lock:
        index.remember_confirmed(journal.remembered_keys)
        index.take_unwritten()
    for low, high in journal.held(journal.first, journal.end):
        for batch in journal.batches(low, high):
            known = batch.end > min(journal.end - most, journal.committed)
            if not known:
                with index.lock:
                    index.count_evicted(len(batch.ends))
            recovered.recover(batch, stable_ids(batch, id_header) if known else [None] * len(batch.ends))
    recovered.commit_position(journal.committed)
    if journal.end > journal.committed:
        log.info("not committed in the journal: %s", counted(journal.end - journal.committed, "message"))
    return recovered


def stable_ids(batch: FrameBatch, id_header: str | None) -> Sequence[bytes | None]:
    """The stable ids of these frames as on the wire; None for a frame without one."""
    dialect = dialect_named(batch.dialect)
    name = id_header or dialect.id_header
    if name is None:
        return [None] * len(batch.ends)
    ids = _raw_ids(batch, name)
    if id_header is None:
        return dialect.stable_ids(ids, bytes(batch.data), batch.ends)
    return [raw or None for raw in ids]


def _raw_ids(batch: FrameBatch, name: str) -> list[bytes | None]:
    """The values of the header ``name``, one for each frame."""
    if batch.malformed is None:
        return _scanned_ids(bytes(batch.data), batch.version, name)
    ids: list[bytes | None] = []
    begin = 0
    for end in map(int, batch.ends):
        # Each by itself, so that no other can get its id.
        ids += _scanned_ids(bytes(batch.data[begin:end]), batch.version, name)
        begin = end
    return ids


def _scanned_ids(data: bytes, version: str, name: str) -> list[bytes | None]:
    ids: list[bytes | None] = []
    scanner = FrameScanner(version, NO_LIMITS, id_header=name, tolerant=True)
    scanner.receive_data(data)
    while (event := scanner.next_event()) is not NEED_DATA:
        if isinstance(event, MessageBlock):
            ids += event.ids
        elif isinstance(event, MalformedMessage):
            ids.append(event.id)
    return ids
