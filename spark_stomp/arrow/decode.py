"""Decodes raw MESSAGE frames into Arrow record batches.

:mod:`spark_stomp.arrow.headers` reads the headers: by the fast path all frames of one layout together, then
those of the next layout; and the rest by the exact path. Malformed frames are in batches without other
frames, and take the exact path. :mod:`spark_stomp.arrow.columns` makes the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from spark_stomp.arrow import columns
from spark_stomp.arrow.columns import Bodies, BodyText, HeaderLines, Ints, OnError, body_text, gather
from spark_stomp.arrow.headers import Area, ExactHeaders, MalformedRows, area_of, exact_frames, read_layouts
from spark_stomp.columns import MALFORMED, Projection
from spark_stomp.errors import MalformedMessageError
from spark_stomp.frame_batch import FrameBatch


@dataclass(frozen=True, slots=True)
class RowRules:
    """How headers become columns, from the broker's dialect and the query's options.

    Attributes:
        id_header: the unescaped name of the header with the ``stable_id``; None if the broker has none.
        timestamp_unit: the unit of the ``timestamp`` header.
        body_decode_errors: what becomes of a body that cannot be decoded, if ``body`` is a string: an error,
            null, or null with the reason in the column ``malformed``.
        id_separator: the ``stable_id`` is the part of its header after the last separator; None means that it
            is the whole value.
        id_time_header: the header with the time that completes the ``stable_id``; None if none is needed.
        stream: the name of the stream that the frames are from; None if they are not from a stream.
        offset_header: the header with the offset in the stream.
        quoted_names: whether the broker has quoted bytes of the destination.
    """

    id_header: str | None
    timestamp_unit: Literal["ms", "s"]
    body_decode_errors: OnError = "error"
    id_separator: str | None = None
    id_time_header: str | None = None
    stream: str | None = None
    offset_header: str | None = None
    quoted_names: bool = False


def decode_frames(batch: FrameBatch, projection: Projection, rules: RowRules) -> pa.RecordBatch:
    """The rows of ``batch`` in the schema of the projection, in the order of the frames.

    The frames must be such as :class:`spark_stomp.protocol.FrameScanner` accepts. Only the columns of the
    projection are computed. Besides the result, this needs up to about ten times the memory of the headers.

    Raises:
        BodyDecodeError: ``body`` is a string, a body cannot be decoded, and the rules make that an error.
        MalformedMessageError: the frames are malformed, and the projection lacks the column ``malformed``.
    """
    schema = projection.arrow_schema
    if not len(batch.ends):
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    if batch.malformed is not None and MALFORMED not in projection.columns:
        raise MalformedMessageError(
            f"the batch has a malformed message: {batch.malformed}. It was received with "
            f"onMalformed=column: set that again, and name the column `{MALFORMED}` in the schema"
        )
    rows = read_rows(batch) if batch.malformed is None else MalformedRows(batch)
    body = _body(rows, projection, rules)
    arrays = []
    for field in schema:
        constant = _constant(field, batch, body)
        arrays.append(_column(field, rows, rules, len(batch.ends)) if constant is None else constant)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _body(rows: AnyRows, projection: Projection, rules: RowRules) -> BodyText | None:
    """The bodies as strings; None unless the projection asks for them."""
    if not (projection.body_as_string and "body" in projection.columns):
        return None
    if isinstance(rows, MalformedRows):
        return BodyText(rows.texts(), {})
    column = rows.column
    bodies = Bodies(rows.bodies(), column("content-type"), column("message-id"), column("destination"))
    return body_text(bodies, rules.body_decode_errors)


def _constant(field: pa.Field, batch: FrameBatch, body: BodyText | None) -> pa.Array | None:
    """A column that needs no header: decoded bodies, or a fact of the batch; None for any other column."""
    rows = len(batch.ends)
    match field.name:
        case "received_at":
            return pa.array(np.full(rows, batch.received_at)).view(field.type)
        case "body":
            return None if body is None else body.text
        case "malformed":
            if body is not None and body.reasons:
                return pa.array([body.reasons.get(row) for row in range(rows)], pa.string())
            return columns.nulls(rows) if batch.malformed is None else pa.repeat(batch.malformed, rows)
        case "receiver":
            return pa.repeat(batch.receiver, rows)
        case "sequence":
            return pa.array(np.arange(batch.first_number, batch.first_number + rows))
    return None


def _column(field: pa.Field, rows: AnyRows, rules: RowRules, count: int) -> pa.Array:
    """A column that is read from the frames."""
    match field.name:
        case "stream_offset":
            if rules.stream is None or rules.offset_header is None:
                return pa.nulls(count, field.type)
            return columns.whole_numbers(rows.column(rules.offset_header))
        case "stable_id":
            if rules.stream is not None and rules.offset_header is not None:
                return columns.in_stream(rules.stream, rows.column(rules.offset_header))
            if rules.id_header is None:
                return columns.nulls(count)
            ids = columns.after_last(rows.column(rules.id_header), rules.id_separator)
            return (
                ids if rules.id_time_header is None else columns.timed(ids, rows.column(rules.id_time_header))
            )
        case "redelivered":
            return columns.redelivered(rows.column("redelivered"))
        case "timestamp":
            return columns.timestamps(rows.column("timestamp"), rules.timestamp_unit, field.type)
        case "headers":
            return columns.header_map(rows.first_lines(), field.type)
        case "header_history":
            return columns.header_list(rows.all_lines(), field.type)
        case "body":
            return rows.bodies()
        case "destination" if rules.quoted_names:
            return columns.unquoted(rows.column("destination"))
        case name:  # destination, message_id, content_type
            return rows.column(name.replace("_", "-"))


# --- the paths


class Headers(Protocol):
    """The decoded headers of some messages, read by the fast or the exact path."""

    def column(self, name: str) -> pa.Array:
        """The first value of one header for each message; null if it is absent."""
        ...

    def first_lines(self) -> HeaderLines:
        """The lines without repeats: the first wins (STOMP 1.2, "Repeated Header Entries")."""
        ...

    def all_lines(self) -> HeaderLines:
        """The lines as sent, repeats included."""
        ...


@dataclass(frozen=True)
class _ReadFrames:
    """The frames of a batch that one path has read."""

    rows: Ints
    headers: Headers


@dataclass(frozen=True)
class FrameRows:
    """The headers and bodies of all frames of a batch, in order, with the methods of :class:`Headers`.

    ``_ends`` are the positions in the batch at which the header areas end.
    """

    _area: Area
    _ends: Ints
    _parts: Sequence[_ReadFrames]
    _order: Ints | None

    def column(self, name: str) -> pa.Array:
        columns = [part.headers.column(name) for part in self._parts]
        return columns[0] if self._order is None else pa.concat_arrays(columns).take(pa.array(self._order))

    def first_lines(self) -> HeaderLines:
        return self._in_order(lambda part: part.headers.first_lines())

    def all_lines(self) -> HeaderLines:
        return self._in_order(lambda part: part.headers.all_lines())

    def bodies(self) -> pa.Array:
        """The bodies as bytes."""
        return gather(pa.binary(), self._area.buffer, self._ends, self._area.stops)

    def _in_order(self, lines_of: Callable[[_ReadFrames], HeaderLines]) -> HeaderLines:
        lines = [lines_of(part) for part in self._parts]
        return lines[0] if self._order is None else in_order(lines, self._order)


AnyRows: TypeAlias = FrameRows | MalformedRows


def in_order(parts: Sequence[HeaderLines], order: Ints) -> HeaderLines:
    """The lines of all messages in order: message i is message ``order[i]`` of the concatenated parts."""
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    starts = np.cumsum(counts) - counts
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts[order])))
    taken = pa.array(np.repeat(starts[order] - offsets[:-1], counts[order]) + np.arange(offsets[-1]))
    names = pa.concat_arrays([part.names for part in parts]).take(taken)
    values = pa.concat_arrays([part.values for part in parts]).take(taken)
    return HeaderLines(offsets.astype(np.int32), names, values)


def _order(parts: Sequence[_ReadFrames]) -> Ints | None:
    """The index of each frame in the concatenated parts; None if there is only one part."""
    if len(parts) == 1:
        return None
    rows = np.concatenate([part.rows for part in parts])
    order = np.empty(len(rows), np.int64)
    order[rows] = np.arange(len(rows))
    return order


def read_rows(batch: FrameBatch) -> FrameRows:
    """Read a batch of at least one frame: by the fast path, and what it leaves out by the exact path."""
    area = area_of(batch)
    ends = area.starts.copy()
    parts: list[_ReadFrames] = []
    left = np.ones(len(area), bool)
    for found in read_layouts(area, batch.version):
        ends[found.rows] += found.sizes
        left[found.rows] = False
        parts.append(_ReadFrames(found.rows, found.headers))
    rest = np.flatnonzero(left)
    if rest.size:
        frames = exact_frames(area.subset(rest), batch.version)
        ends[rest] = area.stops[rest] - np.array([len(frame.body) for frame in frames])
        parts.append(_ReadFrames(rest, ExactHeaders(frames)))
    return FrameRows(area, ends, parts, _order(parts))
