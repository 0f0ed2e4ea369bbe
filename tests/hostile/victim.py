"""What meets the hostile peer: in its own process, so that its memory can be measured.

The processes are forked from one that has imported everything, and so begin within milliseconds.
"""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.driven import Run
from support.options import sink_options, source_options
from support.receivers import LoneReceiver

from spark_stomp.columns import SinkColumns
from spark_stomp.deadline import Deadline
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import StompError
from spark_stomp.sink.write import send_batches
from spark_stomp.source.reads import FrameRanges, browse
from spark_stomp.transport import open_connection

GOES_ON = "goes on"
_BODY = 10_000
_ROWS = 100
_BODIES = SinkColumns(("body",), False)
# A case that is over its time by so much is ended from outside, in seconds.
_GRACE = 15.0
_MESSAGE_ID = re.compile(rb"\nmessage-id:([^\n]*)")
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
# Imports what Arrow imports with its first values.
pa.array([b""])


@dataclass(frozen=True)
class Order:
    """What the victim does.

    ``messages``: how many it receives, commits and has confirmed as ACKed, or sends; a ``connect``
    connects so often. ``seconds``: after these it has hung.
    """

    role: str
    options: dict[str, str]
    messages: int
    seconds: float


@dataclass
class Report:
    """How it ended: GOES_ON or the text of the error.

    ``committed`` are ids of messages, ``peak`` is how far the memory rose above that of the start (bytes).
    """

    outcome: str = GOES_ON
    seconds: float = 0.0
    peak: int = 0
    committed: list[str] = field(default_factory=list)


@contextmanager
def _process(work: Callable[[Any, Connection], None], given: object) -> Iterator[Connection]:
    """A new process that does ``work``; the connection to it."""
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=work, args=(given, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()


def meet(order: Order) -> Report:
    """Carry out ``order`` in a new process."""
    with _process(_run, order) as ours:
        # Its own clock ends it; this is for one that cannot even look at it.
        if not ours.poll(order.seconds + _GRACE):
            return Report("hangs", order.seconds + _GRACE)
        try:
            report: Report = ours.recv()
        except EOFError:
            return Report("its process died")
        return report


def _run(order: Order, answer: Connection) -> None:
    report, begin, begun = Report(), _memory("VmRSS"), time.monotonic()
    try:
        _ROLES[order.role](order, report)
    except StompError as error:
        report.outcome = str(error)
    except Exception as error:  # noqa: BLE001 - that it is none of ours is what is found out
        report.outcome = f"unexpected: {error!r}"
    report.seconds = time.monotonic() - begun
    report.peak = _memory("VmHWM") - begin
    answer.send(report)


class Besieged:
    """A "frame server" or "frame server with TLS" in its own process, to be attacked.

    ``address`` and ``ticket`` are those of a task of the frame server's query, as bytes.
    """

    def __init__(self, server: str, ours: Connection) -> None:
        self._server, self._ours = server, ours
        self.port, self.address, self.ticket = self._answer()

    def serves(self) -> None:
        """Asserts that it does what it is for."""
        self._ours.send("serve")
        assert self._answer() == 3

    def peak(self) -> int:
        """How far its memory rose above what it was at the beginning, in bytes."""
        self._ours.send("peak")
        return int(self._answer())

    def _answer(self) -> Any:
        assert self._ours.poll(_GRACE), f"the {self._server} does not answer"
        return self._ours.recv()


@contextmanager
def besiege(server: str) -> Iterator[Besieged]:
    with _process(_serve, server) as ours:
        yield Besieged(server, ours)


def _serve(server: str, orders: Connection) -> None:
    tls = {"frameServerTls": "true"} if server == "frame server with TLS" else {}
    with DevBroker() as broker, Run({"url": broker.url, "destination": "/queue/q", **tls}) as run:
        broker.publish_many("/queue/q", [b"1", b"2", b"3"])
        run.gather(3)
        task = run.reader.partitions(run.start, run.end)[0].value
        assert isinstance(task, FrameRanges)
        begin = _memory("VmRSS")
        orders.send((task.address.port, task.address, task.tickets[0].to_bytes()))
        while True:
            asked = orders.recv()
            orders.send(len(run.read()) if asked == "serve" else _memory("VmHWM") - begin)


def _memory(name: str) -> int:
    """In bytes; 0 without /proc."""
    status = Path("/proc/self/status")
    return int(status.read_text().split(f"{name}:")[1].split()[0]) << 10 if status.exists() else 0


def _connect(order: Order, report: Report) -> None:
    options = source_options(**order.options).connection
    for _ in range(order.messages):
        try:
            open_connection(options).close()
        except StompError as error:
            report.outcome = str(error)


def _receive(order: Order, report: Report) -> None:
    receiver = LoneReceiver(source_options(**order.options))
    receiver.start()
    try:

        def received() -> bool:
            status = receiver.status()
            # As Spark does: a receiver whose memory is full waits for that.
            if status.paused_since is not None:
                _commit(receiver, min(status.received, order.messages), report)
            return status.received >= order.messages

        if not _reaches(order, receiver, received):
            report.outcome = "waits for messages"
        _commit(receiver, min(receiver.status().received, order.messages), report)
        if not _reaches(order, receiver, lambda: receiver.status().acked >= len(report.committed)):
            report.outcome = "waits for receipts"
    finally:
        receiver.stop(Deadline.after(1))


def _commit(receiver: LoneReceiver, upto: int, report: Report) -> None:
    """All up to there that is not committed yet."""
    low = len(report.committed)
    if low < upto:
        receiver.offer(upto)
        for batch in receiver.frames.batches(low, upto):
            for begin, end in pairwise([0, *map(int, batch.ends)]):
                found = _MESSAGE_ID.search(bytes(batch.data[begin:end]))
                report.committed.append("" if found is None else found[1].decode())
        receiver.acknowledge(upto)


def _reaches(order: Order, receiver: LoneReceiver, there: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + order.seconds
    while not there():
        status = receiver.status()
        if (error := status.failure or status.refused) is not None:
            raise error
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _browse(order: Order, report: Report) -> None:
    for _ in browse(source_options(**order.options)):
        pass


def _send(order: Order, report: Report) -> None:
    options = sink_options(destination="/queue/a", **order.options)
    send_batches(_rows(order.messages), _BODIES, options)


def _rows(count: int) -> Iterator[pa.RecordBatch]:
    """Batch by batch, as Spark gives them: together they are more than a process may hold."""
    rows = [{"body": bytes(_BODY)}] * _ROWS
    batch = pa.RecordBatch.from_pylist(rows, schema=_BODIES.arrow_schema)
    for first in range(0, count, _ROWS):
        yield batch.slice(0, min(_ROWS, count - first))


_ROLES: dict[str, Callable[[Order, Report], None]] = {
    "connect": _connect,
    "receive": _receive,
    "browse": _browse,
    "send": _send,
}
