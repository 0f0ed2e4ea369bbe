"""What earlier runs left in the journal, held by deliveries without a connection.

These frames have no ack handles: those ended with their connections. But the broker may not know of their
ACKs, and may deliver them again. Such a delivery is attached to the held frame, and gives no second row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from spark_stomp.brokers import dialect_named
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal import Journal
from spark_stomp.logs import get_log
from spark_stomp.protocol import NEED_DATA, FrameScanner, Limits, MalformedMessage, MessageBlock
from spark_stomp.quoting import counted
from spark_stomp.receiver import DedupIndex, Deliveries

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
    time = None if id_header else dialect.id_time_header
    ids: list[bytes | None] = []
    times: list[bytes | None] = []
    for data in _scannable(batch):
        block = _scanned(data, batch.version, name, time)
        ids += block.ids
        times += block.times
    return dialect.stable_ids(ids, times) if id_header is None else [raw or None for raw in ids]


def _scannable(batch: FrameBatch) -> Iterator[bytes]:
    """The frames together; malformed ones each by itself, so that no other can get its id."""
    if batch.malformed is None:
        yield bytes(batch.data)
    else:
        for begin, end in pairwise((0, *map(int, batch.ends))):
            yield bytes(batch.data[begin:end])


def _scanned(data: bytes, version: str, id_header: str, time_header: str | None) -> MessageBlock:
    """The first block in ``data``, which are frames that were scanned before."""
    scanner = FrameScanner(version, Limits.none(), tolerant=True)
    scanner.collect(id_header=id_header, time_header=time_header)
    scanner.receive_data(data)
    while not isinstance(event := scanner.next_event(), MessageBlock):
        if isinstance(event, MalformedMessage):
            return MessageBlock.of_malformed(event)
        assert event is not NEED_DATA, "EOLs may come before the frames, and nothing else"
    return event
