"""Our receiver without Spark: what it reads is committed every 50 ms, or when it is many messages.

Run as a program with the settings of :class:`Alone`, it prints what :func:`read_alone` returns.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass

from support.by_hand import of_queues
from support.columns import projection_of

from benchmarks.wire_broker import Frames, Renderer
from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.deadline import Deadline
from spark_stomp.frame_batch import FrameBatch, joined
from spark_stomp.options import parse_source_options
from spark_stomp.receiver import Receiver, ReceiverSettings

_EVERY = 0.05
_COLUMNS = projection_of()
_RULES = RowRules(id_header="message-id", timestamp_unit="ms")


@dataclass(frozen=True)
class Alone:
    """``messages`` in all. ``hold``: commit what a receiver holds when it is so many. ``decode``: make rows
    of them before."""

    options: dict[str, str]
    messages: int
    hold: int = 0
    decode: bool = False


class One:
    """One receiver, and how far it was committed."""

    def __init__(self, settings: ReceiverSettings) -> None:
        self.deliveries = of_queues(None, settings.name, settings.max_buffered_bytes)
        self.log = self.deliveries.log
        self.receiver = Receiver(settings, self.deliveries)

    @property
    def received(self) -> int:
        return self.deliveries.inbox.received

    @property
    def committed(self) -> int:
        return self.deliveries.inbox.ackable

    def commit(self, *, decode: bool) -> int:
        """Commit all that it holds; how many rows were made of it."""
        rows = 0
        with self.deliveries.lock:
            self.deliveries.number(self.deliveries.inbox.pending)
        if decode:
            for batch in joined(self.log.batches(self.log.committed, self.log.end)):
                rows += decode_frames(batch, _COLUMNS, _RULES).num_rows
        if self.log.commit(self.log.end):
            self.receiver.wake()
        return rows


def warm_up() -> None:
    """Decode something: the first time imports much."""
    frame = Renderer(Frames()).render(0, 1)
    decode_frames(FrameBatch(frame, [len(frame)], 0, 0, "1.2", receiver="none"), _COLUMNS, _RULES)


def read_alone(settings: Alone) -> dict[str, float]:
    """Seconds from the subscriptions to the receipt of the last ACKs; raises what ends a receiver."""
    ones = [One(one) for one in ReceiverSettings.of(parse_source_options(settings.options))]
    warm_up()
    for one in ones:
        one.receiver.start()
    while not all(one.receiver.status().subscribed for one in ones):
        _check(ones)
        time.sleep(0.001)
    began, processor, rows = time.monotonic(), time.process_time(), 0
    while sum(one.deliveries.acked for one in ones) < settings.messages:
        time.sleep(0.002 if settings.hold else _EVERY)
        _check(ones)
        all_came = sum(one.received for one in ones) == settings.messages
        for one in ones:
            if all_came or one.received - one.committed >= settings.hold:
                rows += one.commit(decode=settings.decode)
    took = {"seconds": time.monotonic() - began, "processor": time.process_time() - processor}
    for one in ones:
        one.receiver.stop(Deadline.after(10))
    return {**took, "messages": settings.messages, "rows": rows}


def _check(ones: list[One]) -> None:
    for one in ones:
        if (failure := one.receiver.status().failure) is not None:
            raise failure


def main() -> None:
    print(json.dumps(read_alone(Alone(**json.loads(sys.argv[1])))), flush=True)


if __name__ == "__main__":
    main()
