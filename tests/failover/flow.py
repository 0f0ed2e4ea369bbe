"""A steady flow of numbered messages to queries and from sinks, while the nodes of a cluster fail."""

from __future__ import annotations

import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from support.brokers import Broker
from support.brokers.base import HOST
from support.driven import Run, status_of
from support.session import ack, subscribe
from support.soak import show
from support.waiting import PATIENCE, wait_until

from spark_stomp.columns import SinkColumns
from spark_stomp.errors import StompError
from spark_stomp.options import parse_sink_options
from spark_stomp.protocol import Frame
from spark_stomp.sink.write import send_batches
from spark_stomp.transport import open_connection

ID_HEADER = "number"
"""The header with the number of a message, for the option ``idHeader``."""
ATTEMPT = "attempt"
"""The header that says how often its producer had sent it."""
RATE = 60
"""Messages a second, of each producer and of each sink."""
_TICK = 0.05
# Seconds of a connection attempt, and without a receipt, until a producer goes to another node.
_CONNECTS, _GIVES_UP = 3.0, 10.0
# Messages without a receipt at which a producer waits: it sends all of them again over another node.
_WINDOW = 5 * RATE
# Spark's default of spark.task.maxFailures.
_ATTEMPTS = 4
# Seconds without a message until a queue counts as empty.
_QUIET = 3.0
_RECEIPT = re.compile(rb"\s*RECEIPT\n(?:.*\n)*?receipt-id:(\d+)\n")


class Worker(ABC):
    """Works in a thread of its own until it is told to end."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Begin nothing new."""
        self._over.set()

    def has_ended(self, timeout: float) -> bool:
        """Whether it has ended within ``timeout`` seconds."""
        self.end()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @abstractmethod
    def _work(self) -> None: ...


class Producer(Worker):
    """Sends numbered messages, each until it is confirmed, over any of these nodes.

    By a bare socket: what the connector does wrong must not stop what it is measured by.
    """

    def __init__(self, nodes: Sequence[Broker], destination: str) -> None:
        super().__init__()
        self._nodes, self.destination = nodes, destination
        self.confirmed: set[int] = set()
        self.attempts: Counter[int] = Counter()
        self._pending: set[int] = set()

    @property
    def unconfirmed(self) -> int:
        """How many messages are sent and not confirmed."""
        return len(self._pending)

    @property
    def done(self) -> bool:
        return self._over.is_set() and not self._pending

    def _work(self) -> None:
        given_up = float("inf")
        turn = 0
        while not self.done and time.monotonic() < given_up:
            if self._over.is_set():
                given_up = min(given_up, time.monotonic() + 2 * PATIENCE)
            with suppress(OSError):
                self._connected(self._nodes[turn % len(self._nodes)])
            turn += 1
            time.sleep(_TICK)

    def _connected(self, node: Broker) -> None:
        """Send over this node until all is done; OSError when it cannot go on."""
        with socket.create_connection((HOST, node.port), _CONNECTS) as connection:
            login = f"login:{node.login}\npasscode:{node.password}"
            connection.sendall(f"CONNECT\naccept-version:1.2\nhost:/\n{login}\nheart-beat:0,0\n\n\0".encode())
            data = b""
            while b"\0" not in data:
                data += _received(connection)
            if not data.startswith(b"CONNECTED"):
                raise ConnectionError(data)
            data = data.partition(b"\0")[2]
            self._send(connection, sorted(self._pending))
            progress = time.monotonic()
            while not self.done:
                due = time.monotonic() + _TICK
                if not self._over.is_set() and self.unconfirmed < _WINDOW:
                    new = len(self.attempts)
                    self._send(connection, range(new, new + round(RATE * _TICK)))
                with suppress(TimeoutError):
                    connection.settimeout(_TICK)
                    data = self._confirm(data + _received(connection))
                    progress = time.monotonic()
                if time.monotonic() > progress + _GIVES_UP:
                    raise ConnectionError("nothing was confirmed")
                time.sleep(max(0.0, due - time.monotonic()))

    def _send(self, connection: socket.socket, numbers: Iterable[int]) -> None:
        connection.settimeout(_GIVES_UP)
        for number in numbers:
            self._pending.add(number)
            self.attempts[number] += 1
            own = f"{ID_HEADER}:{number}\n{ATTEMPT}:{self.attempts[number]}\nreceipt:{number}"
            head = f"SEND\ndestination:{self.destination}\npersistent:true\n{own}\n\n"
            connection.sendall(f"{head}{number}\0".encode())

    def _confirm(self, data: bytes) -> bytes:
        """Take the receipts; returns what is no whole frame yet."""
        *frames, rest = data.split(b"\0")
        for frame in frames:
            found = _RECEIPT.match(frame)
            if found is None:
                raise ConnectionError(frame)
            self._pending.discard(int(found[1]))
            self.confirmed.add(int(found[1]))
        return rest


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionError("the broker has closed")
    return data


class Reader(Worker):
    """A query, driven in Spark's order without a pause. One that ends begins again on a new checkpoint."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__()
        self._options = options
        # Of each row: when it was there, the number, and the attempt of its producer.
        self.rows: list[tuple[float, int, int]] = []
        self.ended: list[str] = []
        self.reconnects = 0

    @property
    def count(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    def has(self, numbers: set[int]) -> bool:
        """Whether all of these are among its rows."""
        return numbers <= {number for _, number, _ in self.rows}

    def _work(self) -> None:
        while not self._over.is_set():
            try:
                with Run(self._options, ("body", "headers")) as run:
                    self._read(run)
            except StompError as error:
                self.ended.append(str(error))
                self._over.wait(1.0)

    def _read(self, run: Run) -> None:
        try:
            while not self._over.is_set():
                run.end = run.reader.latestOffset(run.start, None)
                if run.end == run.start:
                    self._over.wait(_TICK)
                    continue
                rows = run.read()
                run.commit()
                now = time.monotonic()
                self.rows += [(now, int(row["body"]), int(dict(row["headers"])[ATTEMPT])) for row in rows]
        finally:
            if status_of(run.reader) is not None:
                self.reconnects += sum(receiver["reconnects"] for receiver in run.counters())


class Sink(Worker):
    """A query's sink: one task a batch, which is tried as often as Spark tries one."""

    def __init__(self, options: dict[str, str], columns: dict[str, str] | None = None) -> None:
        super().__init__()
        self._options = parse_sink_options(options)
        # Further columns, which have one value.
        self._columns = columns or {}
        self.confirmed: set[str] = set()
        self.dropped = self.reconnects = self._batch = 0
        self.ended: list[str] = []
        self.failed: list[str] = []
        # Seconds of each batch, with all attempts; and when it was done.
        self.batches: list[tuple[float, float]] = []

    @property
    def count(self) -> int:
        """How many rows are confirmed."""
        return len(self.confirmed)

    def _work(self) -> None:
        while not self._over.is_set():
            begun = time.monotonic()
            ids = [f"{self._batch}-{row}" for row in range(RATE // 2)]
            if self._write(ids):
                self.batches.append((time.monotonic(), time.monotonic() - begun))
            self._batch += 1
            self._over.wait(0.5)

    def _write(self, ids: list[str]) -> bool:
        """One task, until an attempt succeeds; false if none did, which ends a query."""
        kinds = pa.map_(pa.string(), pa.string())
        columns = {
            "body": pa.array([one.encode() for one in ids]),
            "headers": pa.array([[(ID_HEADER, one)] for one in ids], kinds),
            **{name: pa.array([value] * len(ids)) for name, value in self._columns.items()},
        }
        known = SinkColumns(tuple(columns), False)
        again = self._batch > 0
        for _ in range(_ATTEMPTS):
            try:
                result = send_batches(
                    [pa.record_batch(columns)], known, self._options, patient=again, login_accepted=again
                )
            except StompError as error:
                self.failed.append(str(error))
                continue
            self.dropped += result.figures.dropped + result.figures.dead_lettered
            self.reconnects += result.figures.connections - 1
            if result.refused is None and result.figures.confirmed == len(ids):
                self.confirmed.update(ids)
            if result.refused is not None:
                break
            return True
        else:
            self.ended.append(self.failed[-1])
            return False
        self.ended.append(str(result.refused))
        return False


@dataclass
class Line:
    """What became of one flow: a line of the table, and what is wrong with it."""

    name: str
    rows: int = 0
    missing: int = 0
    twice: int = 0
    standstill: float = 0.0
    reconnects: int = 0
    ended: int = 0
    dropped: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not (self.missing or self.ended or self.dropped)

    def __str__(self) -> str:
        cells = (
            self.name,
            self.rows,
            self.missing,
            self.twice,
            f"{self.standstill:.1f}",
            self.reconnects,
            self.ended,
            self.dropped,
        )
        return f"| {' | '.join(map(str, cells))} |"


HEAD = "| flow | rows | missing | twice | standstill, s | reconnects | ended | dropped |\n" + "|---" * 8 + "|"


def line_of_source(name: str, producer: Producer, reader: Reader, since: float) -> Line:
    """``twice`` counts rows of one and the same sending: what a producer sent again is another one."""
    numbers = {number for _, number, _ in reader.rows}
    deliveries = Counter((number, attempt) for _, number, attempt in reader.rows)
    return Line(
        name,
        rows=len(reader.rows),
        missing=len(producer.confirmed - numbers),
        twice=deliveries.total() - len(deliveries),
        standstill=_longest_gap(since, [at for at, *_ in reader.rows]),
        reconnects=reader.reconnects,
        ended=len(reader.ended),
        said=reader.ended,
    )


def line_of_sink(name: str, sink: Sink, found: Sequence[str], since: float) -> Line:
    """``found`` are the ids of the messages that another client got."""
    ids = set(found)
    return Line(
        name,
        rows=len(found),
        missing=len(sink.confirmed - ids),
        twice=len(found) - len(ids),
        standstill=max((seconds for at, seconds in sink.batches if at > since), default=0.0),
        reconnects=sink.reconnects,
        ended=len(sink.ended),
        dropped=sink.dropped,
        said=sink.failed,
    )


class Flows:
    """Sources with their producers, and sinks, of one cluster: all under one fault, which takes long."""

    def __init__(self, cluster: Broker) -> None:
        self.cluster = cluster
        self._sources: dict[str, tuple[Producer, Reader]] = {}
        self._sinks: dict[str, tuple[Sink, str, bool]] = {}
        self._since = 0.0
        self.stuck: list[str] = []

    @property
    def destinations(self) -> list[str]:
        """Of all sources and sinks."""
        return [
            *(one[0].destination for one in self._sources.values()),
            *(one[1] for one in self._sinks.values()),
        ]

    def source(self, name: str, destination: str, at: Broker | None = None, **options: Any) -> None:
        """A query that reads what a producer sends to this destination.

        The subscription of a durable topic is made here, over the node ``at``; a producer's messages would be
        lost without it.
        """
        if "durableName" in options:
            with Run((at or self.cluster).options(destination=destination, **options)) as run:
                run.idle()
        # The producer is not where the query is.
        producer = Producer(self.cluster.nodes[::-1], destination)
        reader = Reader(self.cluster.options(destination=destination, **options))
        self._sources[name] = producer, reader

    def sink(self, name: str, destination: str, **options: Any) -> None:
        """A query that writes to this destination, in a column if ``onError`` has what to do with a row."""
        where = {"destination": destination}
        if "onError" in options:
            sink = Sink(self.cluster.options(**options), where)
        else:
            sink = Sink(self.cluster.options(**where, **options))
        self._sinks[name] = sink, destination, "stream" in name

    def __enter__(self) -> Flows:
        for _, worker in self._workers:
            worker.start()
        self.go_on()
        self._since = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._end(lambda worker: True)

    def go_on(self) -> None:
        """Wait until each has two seconds' more rows; those that have not are :attr:`stuck`."""
        counting: dict[str, Reader | Sink] = {name: reader for name, (_, reader) in self._sources.items()}
        counting |= {name: one[0] for name, one in self._sinks.items()}
        wanted = {name: one.count + 2 * RATE for name, one in counting.items()}

        def behind() -> list[str]:
            return [name for name, one in counting.items() if one.count < wanted[name]]

        try:
            wait_until(lambda: not behind(), 3 * PATIENCE, every=0.2)
        except AssertionError:
            self.stuck += behind()

    def finish(self) -> list[Line]:
        """End all in order, and count."""
        self._end(lambda worker: not isinstance(worker, Reader))
        for producer, reader in self._sources.values():
            with suppress(AssertionError):  # then they are missing
                wait_until(partial(reader.has, producer.confirmed), every=0.5)
        self._end(lambda worker: True)
        lines = [line_of_source(name, *both, self._since) for name, both in self._sources.items()]
        for name, (sink, destination, is_stream) in self._sinks.items():
            lines.append(line_of_sink(name, sink, ids_in(self.cluster, destination, is_stream), self._since))
        self.stuck += [name for name, (producer, _) in self._sources.items() if producer.unconfirmed]
        return lines

    @property
    def _workers(self) -> list[tuple[str, Worker]]:
        """With the names of their flows."""
        sources = [(name, worker) for name, both in self._sources.items() for worker in both]
        return [*sources, *((name, one[0]) for name, one in self._sinks.items())]

    def _end(self, which: Callable[[Worker], bool]) -> None:
        """Those that do not end are :attr:`stuck`."""
        chosen = [(name, worker) for name, worker in self._workers if which(worker)]
        for _, worker in chosen:
            worker.end()
        deadline = time.monotonic() + 3 * PATIENCE
        self.stuck += [
            name for name, worker in chosen if not worker.has_ended(max(0.0, deadline - time.monotonic()))
        ]


def check(flows: Flows, title: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Show the table of the flows, and fail where the delivery contract was broken."""
    lines = flows.finish()
    said = [
        f"{line.name}: {times} times {text}" for line in lines for text, times in Counter(line.said).items()
    ]
    show("\n".join([f"{title}:", HEAD, *map(str, lines), *said]), capsys)
    assert not flows.stuck, f"these did not go on: {flows.stuck}"
    broken = [str(line) for line in lines if not line.is_whole]
    # Of a journal and of a stream no row comes twice either, whatever dies.
    broken += [str(line) for line in lines if line.twice and re.search("source.*(journal|stream)", line.name)]
    assert not broken, "\n".join([HEAD, *broken, *said])


def ids_in(broker: Broker, destination: str, is_stream: bool) -> list[str]:
    """The ids of the messages that are there, for a client that is not the connector's source."""
    headers = [("prefetch-count", "1000")]
    if is_stream:
        headers.append(("x-stream-offset", "first"))
    found: list[str] = []
    with open_connection(
        parse_sink_options(broker.options(destination=destination)).connection
    ) as connection:
        session = connection.session
        subscribe(session, "0", destination, ack="client", headers=headers)
        last = time.monotonic()
        while time.monotonic() < last + _QUIET:
            frames = [event for event in connection.poll(0.2) if isinstance(event, Frame)]
            found += [frame.get(ID_HEADER) or "" for frame in frames]
            if frames:
                ack(session, "0", frames[-1].get("ack") or "")  # and all before it
                last = time.monotonic()
        connection.disconnect(PATIENCE)
    return found


def _longest_gap(since: float, moments: Iterable[float]) -> float:
    """Seconds between two rows, of those after ``since``."""
    times = [since, *sorted(at for at in moments if at > since)]
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)
