"""Rows of a DataFrame to SEND frames, a column at a time.

The frames of a slice are one join of a few columns: the destinations, the values of each header that columns
or options set, the lines of the column ``headers``, the receipts, the lengths and the bodies. There is no
Python object for a cell, whatever headers the rows have. ``tests/support/plain_rows.py`` does the same row by
row, and tests compare the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import Ints, among, lengths, text_of
from spark_stomp.arrow.dead_letters import dead_letter
from spark_stomp.arrow.row_fields import Piece, RowFields, begin_with, header_values
from spark_stomp.arrow.row_headers import NameRules, row_headers
from spark_stomp.arrow.row_problems import HeaderText, Problem, RowProblems, as_binary, as_strings, check_utf8
from spark_stomp.arrow.send_rules import SendRules
from spark_stomp.arrow.slices import RECEIPT_BASE, RECEIPT_PREFIX, EncodedSlice, receipt_id
from spark_stomp.errors import FrameEncodeError, RowTooLarge, RowUnencodable
from spark_stomp.logs import get_log
from spark_stomp.protocol import Frame, encode_frame
from spark_stomp.protocol.grammar import grammar_of
from spark_stomp.quoting import quoted
from spark_stomp.schema import SinkColumns

log = get_log(__name__)

# What a frame has besides the cells of its row, about.
_FRAME_OVERHEAD = 100
# The join of a slice has 32-bit offsets.
_LARGEST_BODY = 1 << 30
# destination, receipt and content-length
_OWN_HEADERS = 3


class RowEncoder:
    """Encodes the rows of one task, slice by slice; rows and receipts are numbered over all of its batches.

    Args:
        columns: those of every batch.
        clock: seconds since the epoch.
        on_topics: called for each slice that is sent to topics of its rows, with these as binary, once each.

    Raises:
        FrameEncodeError: the version cannot carry what the options say.
    """

    def __init__(
        self,
        columns: SinkColumns,
        rules: SendRules,
        clock: Callable[[], float] = time.time,
        on_topics: Callable[[pa.Array], object] = lambda _: None,
    ) -> None:
        grammar = grammar_of(rules.version)
        self._columns = columns
        self._rules = rules
        self._clock = clock
        self._on_topics = on_topics
        self._text = HeaderText.of(grammar, unescaped=rules.unescaped)
        self._fields = RowFields(rules, self._text)
        same = (("destination", rules.destination or "/"), *rules.headers, *rules.queue_headers)
        names = tuple((name, "") for name in self._fields.names)
        encode_frame(Frame("SEND", same + names), rules.version)
        self._names = NameRules(self._text, rules.left_out, self._fields.names)
        self._rows = 0
        self._receipts = 0
        self._said = False

    def slices(self, batch: pa.RecordBatch) -> Iterator[EncodedSlice]:
        """The frames of a batch, at least one row a slice.

        Raises:
            SinkRowError: a row that cannot be sent, and ``on_error`` is "fail"; or its dead letter cannot be
                sent either. Of its slice nothing was returned.
        """
        for start, stop in self._cuts(batch):
            part = batch.slice(start, stop - start)
            yield self._encoded(part)
            self._rows += part.num_rows

    def _cuts(self, batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
        ends = np.cumsum(_sizes(batch))
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + self._rules.most_bytes, "right"))
            stop = min(max(stop, start + 1), start + self._rules.most_messages)
            yield start, stop
            start = stop

    def _encoded(self, batch: pa.RecordBatch) -> EncodedSlice:
        problems = RowProblems()
        first, count = self._receipts, batch.num_rows
        frames = self._frames(batch, first + np.arange(count), problems)
        if problems:
            frames = self._without(batch, problems)
        self._tell_topics(batch, problems)
        dead = len(frames) - (count - len(problems))
        self._receipts += len(frames)
        octets, ends = text_of(frames)
        return EncodedSlice(octets.data, ends[1:].astype(np.int64), first, len(problems) - dead, dead)

    def _tell_topics(self, batch: pa.RecordBatch, problems: RowProblems) -> None:
        if self._rules.destination is not None or "destination" not in self._columns.columns:
            return
        destinations = as_binary(self._cells(batch)["destination"])
        topics = begin_with(destinations, self._rules.topic_prefixes)
        topics[list(problems)] = False
        if topics.any():
            self._on_topics(destinations.filter(pa.array(topics)).unique())

    def _without(self, batch: pa.RecordBatch, problems: RowProblems) -> pa.Array:
        """The frames without the rows that cannot be sent, or with dead letters in their places."""
        rules, first = self._rules, self._receipts
        self._tell(batch, problems)
        good = np.ones(batch.num_rows, bool)
        good[list(problems)] = False
        places = np.flatnonzero(good) if rules.on_error == "deadletter" else np.arange(good.sum())
        frames = self._frames(batch.filter(pa.array(good)), first + places, RowProblems())
        if rules.on_error == "drop":
            return frames
        bad = sorted(problems)
        letters = [self._dead_letter(batch, row, problems[row], first + row) for row in bad]
        both = pa.concat_arrays([frames, pa.array(letters, pa.binary())])
        return both.take(pa.array(np.argsort(np.concatenate([places, bad]))))

    def _tell(self, batch: pa.RecordBatch, problems: RowProblems) -> None:
        """Raise the error of the first row that cannot be sent, or say it once in the log."""
        row = min(problems)
        what = self._refused(batch, row, problems[row].reason)
        if self._rules.on_error == "fail":
            raise problems[row].error(what)
        if not self._said:
            fate = "is dropped" if self._rules.on_error == "drop" else f"goes to {self._rules.dead_letter}"
            log.warning("[%s] %s; it %s, and so do others like it", problems[row].error.code, what, fate)
            self._said = True

    def _refused(self, batch: pa.RecordBatch, row: int, reason: str) -> str:
        destination = self._rules.destination
        if destination is None and "destination" in self._columns.columns:
            octets = as_binary(self._cells(batch)["destination"].slice(row, 1))[0].as_py()
            destination = None if octets is None else octets.decode(errors="backslashreplace")
        place = f"row {self._rows + row} of its partition (counted from 0; destination {quoted(destination)})"
        return f"{place} cannot be sent: {reason}"

    def _dead_letter(self, batch: pa.RecordBatch, row: int, problem: Problem, number: int) -> bytes:
        cells = {name: cell.slice(row, 1) for name, cell in self._cells(batch).items()}
        try:
            return dead_letter(cells, problem, self._rules, self._names, receipt_id(number))
        except FrameEncodeError as error:
            what = self._refused(
                batch, row, f"{problem.reason}; and not to deadLetterDestination: {error.message}"
            )
            raise problem.error(what) from error

    def _cells(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        return dict(zip(self._columns.columns, batch.columns, strict=True))

    def _frames(self, batch: pa.RecordBatch, numbers: Ints, problems: RowProblems) -> pa.Array:
        """The frames as a binary column, with the receipts of these numbers; a row with a problem has any."""
        cells, limits = self._cells(batch), self._rules.limits
        body = self._body(cells["body"], problems)
        destinations = self._destinations(cells, batch.num_rows, problems)
        entries = row_headers(
            cells.get("headers"), batch.num_rows, self._names, limits.max_header_line, problems
        )
        pieces: list[Piece] = [b"SEND\ndestination:", destinations]
        counts = entries.counts + _OWN_HEADERS
        own = None if self._rules.destination else destinations
        for piece, count in self._fields.pieces(cells, own, entries.fields, self._clock(), problems):
            pieces.append(piece)
            counts += count
        problems.add_flagged(
            counts > limits.max_headers,
            lambda row: f"it has {counts[row]} headers; maxHeaders lets {limits.max_headers} through",
            RowTooLarge,
        )
        if entries.lines is not None:
            pieces.append(entries.lines)
        pieces += [b"\nreceipt:" + RECEIPT_PREFIX.encode(), _decimal(numbers + RECEIPT_BASE)]
        if not self._rules.text:
            pieces += [b"\ncontent-length:", _decimal(lengths(body))]
        frames = _joined([*pieces, b"\n\n", body, b"\0"])
        sizes = lengths(frames)
        problems.add_flagged(
            sizes > limits.max_frame, _too_large("frame", sizes, limits.max_frame), RowTooLarge
        )
        return frames

    def _body(self, column: pa.Array, problems: RowProblems) -> pa.Array:
        if column.null_count:
            problems.add_flagged(column.is_null().to_numpy(zero_copy_only=False), "its body is null")
        if self._rules.text:
            column = as_strings(column)
        body = check_utf8(column, None, lambda _: "its body", problems)
        if self._rules.text:
            text, offsets = text_of(body)
            ends = among(text, b"\0")
            if ends is not None:
                rows = np.unique(np.searchsorted(offsets, np.flatnonzero(ends), "right") - 1)
                problems.add(
                    rows, "its body has a NUL, which ends a text message; see messageType", RowUnencodable
                )
        sizes = lengths(body)
        most = min(self._rules.limits.max_body, _LARGEST_BODY)
        problems.add_flagged(sizes > most, _too_large("body", sizes, most), RowTooLarge)
        return body

    def _destinations(self, cells: Mapping[str, pa.Array], rows: int, problems: RowProblems) -> pa.Array:
        """The destinations of the rows, escaped."""
        option = self._rules.destination
        if option is not None:
            column = pa.repeat(pa.scalar(option, pa.string()), rows)
        else:
            column = cells.get("destination", pa.nulls(rows, pa.string()))
            problems.add_flagged(
                lengths(as_binary(column)) == 0,
                "it has no destination: set the option `destination`, or the column",
            )
        return header_values(column, "destination", self._text, self._rules.limits.max_header_line, problems)


def _too_large(what: str, sizes: Ints, most: int) -> Callable[[int], str]:
    option = f"max{what.capitalize()}Bytes"
    return lambda row: f"its {what} has {sizes[row]} bytes; {option} lets {most} through"


def _decimal(numbers: Ints) -> pa.Array:
    return as_binary(pa.array(numbers).cast(pa.string()))


def _joined(pieces: list[Piece]) -> pa.Array:
    """The frames, each made of its part of every piece; null if a part is."""
    parts: list[pa.Scalar | pa.Array] = []
    for same, group in groupby(pieces, lambda piece: isinstance(piece, bytes)):
        if same:
            parts.append(pa.scalar(b"".join(group), pa.binary()))
        else:
            parts.extend(group)
    return pc.binary_join_element_wise(*parts, b"")


def _sizes(batch: pa.RecordBatch) -> Ints:
    """About how many bytes the frame of each row has."""
    total = np.full(batch.num_rows, _FRAME_OVERHEAD, np.int64)
    for column in batch.columns:
        if pa.types.is_map(column.type):
            entries = _offsets(column)
            total += 2 * np.diff(entries)
            total += np.diff(_offsets(column.keys)[entries]) + np.diff(_offsets(column.items)[entries])
        elif not pa.types.is_primitive(column.type) and not pa.types.is_decimal(column.type):
            total += np.diff(_offsets(column))
    return total


def _offsets(column: pa.Array) -> Ints:
    """Where the cells of strings, octets or maps begin and end."""
    if not len(column):
        # Spark 4.0 sends an empty buffer then, which Arrow allows.
        return np.zeros(1, np.int64)
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    kind = np.dtype(np.int64 if large else np.int32)
    offsets: Ints = np.frombuffer(
        column.buffers()[1], kind, len(column) + 1, column.offset * kind.itemsize
    ).astype(np.int64)
    return offsets
