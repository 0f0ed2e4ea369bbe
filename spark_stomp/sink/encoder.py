"""Encodes rows as slices of SEND frames: a whole slice at once if it is plain, else row by row.

Goal: each row becomes one frame, or is refused with its place and the reason, and no frame of a slice is sent
before all its rows were checked (contract S.9).

Plan: a batch is cut into slices, by messages and bytes. Two encoders make the frames of a slice:

- :class:`~spark_stomp.sink.rows.RowFrames` is the reference. It makes the frame of one row, or says why the
  row cannot be sent.
- :class:`~spark_stomp.sink.columnar.SliceFrames` is the fast path. It makes all frames of a slice, or it
  declines the slice.

The fast path is tried first. If it declines, ``RowFrames`` encodes the slice row by row. Unless
``onError=fail``, a declined slice is halved first, until few rows are left, so that the halves without a bad
row take the fast path.

Invariants: rows are numbered over all batches of a task, for the error text. Receipts are numbered over all
frames, without gaps: a dropped row has no receipt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import text_of
from spark_stomp.brokers import Dialect
from spark_stomp.columns import SinkColumns
from spark_stomp.errors import RowRefused, SinkRowError, StompError
from spark_stomp.logs import Once, get_log
from spark_stomp.options import SinkOptions
from spark_stomp.protocol import Frame, FrameDecoder, Limits, encode_frame
from spark_stomp.quoting import quoted
from spark_stomp.sink.cells import as_binary
from spark_stomp.sink.columnar import SliceFrames
from spark_stomp.sink.rows import DeadLetters, Row, RowFrames, rows_of
from spark_stomp.sink.rules import SendRules, send_rules
from spark_stomp.sink.window import EncodedSlice, receipt_id

log = get_log(__name__)

# Of brokers and destinations, in this process: a worker runs many tasks.
_once = Once(log, most=100)
# Estimated bytes of a frame besides the cells of its row: the command, header names, the receipt. This only
# decides where a slice is cut.
_FRAME_OVERHEAD = 100
# Rows. A declined slice is halved until it has at most this many rows, which are then encoded one by one. At
# 55 us a row (November 2026), each bad row costs at most 1.8 ms.
_FEW_ROWS = 32


class RowEncoder:
    """Encodes the rows of one task, slice by slice. Rows and receipts are numbered over all its batches.

    Args:
        columns: the columns of every batch.
        rules: how rows become frames.
        clock: returns seconds since the epoch.
        on_topics: called for each slice whose rows name topics as destinations, with these topics.

    Raises:
        FrameEncodeError: this version of STOMP cannot carry a header that the options set.
    """

    def __init__(
        self,
        columns: SinkColumns,
        rules: SendRules,
        clock: Callable[[], float] = time.time,
        on_topics: Callable[[list[str]], object] = lambda _: None,
    ) -> None:
        self._columns = columns
        self._rules = rules
        self._clock = clock
        self._on_topics = on_topics
        same = (("destination", rules.destination or "/"), *rules.headers, *rules.queue_headers)
        names = tuple((name, "") for name in sorted(rules.fields))
        encode_frame(Frame("SEND", same + names), rules.version)
        self._whole = SliceFrames(rules)
        self._single = RowFrames(rules)
        self._dead_letters = DeadLetters(rules, self._single)
        self._rows = 0
        self._receipts = 0
        self._once = Once(log)
        self._refusing: dict[bytes | None, str] = {}  # destinations to which nothing may be sent, and why

    def slices(self, batch: pa.RecordBatch) -> Iterator[EncodedSlice]:
        """The frames of a batch in slices of at least one row.

        Raises:
            SinkRowError: a row cannot be sent, and ``on_error`` is "fail"; or its dead letter cannot be sent
                either. No frame of its slice was returned.
        """
        for part in self._parts(batch):
            yield from self._encoded(part)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts within the bounds of a slice. A row that exceeds them is a part alone."""
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, self._rules.most_messages)
            while part.num_rows > 1 and (size := _size(part)) > self._rules.most_bytes:
                # Keep at least half of the rows: one large row says little about the others.
                fitting = part.num_rows * self._rules.most_bytes // size
                part = part.slice(0, max(fitting, part.num_rows // 2))
            yield part
            start += part.num_rows

    def _encoded(self, part: pa.RecordBatch) -> Iterator[EncodedSlice]:
        """The frames of a part: by the fast path, else from its halves, else row by row."""
        cells = dict(zip(self._columns.columns, part.columns, strict=True))
        now = self._clock()
        frames = None if self._refuses_any(cells) else self._whole.frames(cells, self._receipts, now)
        if frames is None and self._rules.on_error != "fail" and part.num_rows > _FEW_ROWS:
            half = part.num_rows // 2
            yield from self._encoded(part.slice(0, half))
            yield from self._encoded(part.slice(half))
            return
        encoded = self._row_by_row(cells, now) if frames is None else self._slice(cells, frames)
        self._rows += part.num_rows
        self._receipts += len(encoded)
        yield encoded

    def _refuses_any(self, cells: Mapping[str, pa.Array]) -> bool:
        return bool(self._refusing) and not self._refusing.keys().isdisjoint(_unique(cells["destination"]))

    def _slice(self, cells: Mapping[str, pa.Array], frames: pa.Array) -> EncodedSlice:
        given = () if self._rules.destination is not None else _unique(cells["destination"])
        text, ends = text_of(frames)
        return EncodedSlice(
            text.data,
            ends[1:].astype(np.int64),
            self._receipts,
            destinations=self._destinations(given),
            version=self._rules.version,
        )

    def _row_by_row(self, cells: Mapping[str, pa.Array], now: float) -> EncodedSlice:
        frames: list[bytes] = []
        destinations: dict[bytes | None, None] = {}
        dropped = dead_lettered = 0
        for number, row in enumerate(rows_of(cells, self._rules), self._rows):
            receipt = receipt_id(self._receipts + len(frames))
            try:
                if row.destination in self._refusing:
                    raise RowRefused(self._refusing[row.destination])
                frames.append(self._single.frame(row, receipt, now))
                destinations[row.destination] = None
            except SinkRowError as problem:
                self._refuse(row, number, problem)
                if self._rules.on_error == "drop":
                    dropped += 1
                else:
                    frames.append(self._dead_letter(row, number, problem, receipt))
                    dead_lettered += 1
        names = self._destinations(destinations if self._rules.destination is None else ())
        if dead_lettered:
            names |= {self._rules.dead_letter}
        return self._joined(frames, dropped, dead_lettered, names)

    def instead(self, frames: Sequence[bytes], error: StompError) -> EncodedSlice | None:
        """What to send in place of frames to one destination that the broker refuses with ``error``.

        If the broker refuses whatever goes there, no later row to this destination is sent.

        None if that is no problem of one row, or if ``on_error`` is "fail".

        Raises:
            SinkRowError: there is no dead letter of a row.
        """
        rules = self._rules
        refused = [_decoded(frame, rules.version) for frame in frames]
        destination = refused[0].get("destination") or ""
        if rules.on_error == "fail" or rules.destination is not None or destination == rules.dead_letter:
            return None
        problem = RowRefused(error.message)
        if error.verdict == "stays":
            self._refusing[destination.encode()] = problem.message
        self._log(f"a row cannot be sent: {problem.message}", problem)
        if rules.on_error == "drop":
            return self._joined([], len(refused), 0, frozenset())
        letters = []
        for number, one in enumerate(refused, self._receipts):
            entries = [(name.encode(), value.encode()) for name, value in one.headers]
            row = Row(one.body, rules.text, destination.encode(), entries, {}, None, None)
            letters.append(self._dead_letters.frame(row, problem, receipt_id(number)))
        encoded = self._joined(letters, 0, len(letters), frozenset([rules.dead_letter]))
        self._receipts += len(letters)
        return encoded

    def _joined(self, frames: list[bytes], dropped: int, dead: int, names: frozenset[str]) -> EncodedSlice:
        ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
        data = memoryview(b"".join(frames))
        return EncodedSlice(data, ends, self._receipts, dropped, dead, names, self._rules.version)

    def _refuse(self, row: Row, number: int, problem: SinkRowError) -> None:
        """If ``on_error`` is "fail", raise an error with the row's place; else log one for each task."""
        what = self._place(row, number, problem.message)
        if self._rules.on_error == "fail":
            raise type(problem)(what) from None
        self._log(what, problem)

    def _log(self, what: str, problem: SinkRowError) -> None:
        fate = "is dropped" if self._rules.on_error == "drop" else f"goes to {self._rules.dead_letter}"
        text = "[%s] %s; the row %s (logged once for each task)"
        self._once.warning("row", text, problem.code, what, fate)

    def _dead_letter(self, row: Row, number: int, problem: SinkRowError, receipt: str) -> bytes:
        try:
            return self._dead_letters.frame(row, problem, receipt)
        except SinkRowError as error:
            why = f"{problem.message}; and not to deadLetterDestination: {error.message}"
            raise type(problem)(self._place(row, number, why)) from error

    def _place(self, row: Row, number: int, why: str) -> str:
        destination = self._rules.destination
        if destination is None and row.destination is not None:
            destination = row.destination.decode(errors="backslashreplace")
        return (
            f"row {number} of its partition (counted from 0; destination {quoted(destination)}) cannot be "
            f"sent: {why}"
        )

    def _destinations(self, given: Iterable[bytes | None]) -> frozenset[str]:
        """The names of destinations that rows have ``given``, or that of the option. Topics are reported."""
        if self._rules.destination is not None:
            return frozenset({self._rules.destination})
        names = frozenset(one.decode() for one in given if one is not None)
        topics = [one for one in names if self._rules.naming.kind(one) == "topic"]
        if topics:
            self._on_topics(topics)
        return names


def _unique(column: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = as_binary(column).unique().to_pylist()
    return values


def _decoded(frame: bytes, version: str) -> Frame:
    decoder = FrameDecoder(version, Limits.none())
    decoder.receive_data(frame)
    decoded = decoder.next_event()
    assert isinstance(decoded, Frame)
    return decoded


def _size(batch: pa.RecordBatch) -> int:
    """An estimate of how many bytes the frames of these rows have."""
    size: int = batch.nbytes + _FRAME_OVERHEAD * batch.num_rows
    return size


def row_encoder(options: SinkOptions, columns: SinkColumns, version: str, dialect: Dialect) -> RowEncoder:
    """The encoder of one task.

    Args:
        version: the version of STOMP that the task's connection speaks.
        dialect: the dialect of the broker.

    Raises:
        UnsupportedError: this broker cannot do what the options or columns ask for.
        FrameEncodeError: this version of STOMP cannot carry a header that the options set.
    """
    rules = send_rules(options, columns, version, dialect)
    given = (rules.destination, rules.dead_letter)
    _warn_of_topics(filter(None, given), dialect)
    return RowEncoder(columns, rules, on_topics=lambda topics: _warn_of_topics(topics, dialect))


def _warn_of_topics(destinations: Iterable[str], dialect: Dialect) -> None:
    """Warn of an unknown broker, and of topics, at which messages may be lost although they are confirmed."""
    for line in (dialect.unknown_warning, *map(dialect.unrouted, destinations)):
        if line is not None:
            _once.warning(line, "%s", line)
