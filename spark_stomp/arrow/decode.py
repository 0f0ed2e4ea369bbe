"""Decodes raw MESSAGE frames into Arrow record batches.

:mod:`spark_stomp.arrow.headers` reads the headers: by the fast path all frames of one layout together, then
those of the next layout; and the rest by the exact path. Malformed frames are in batches without other
frames, and take the exact path. :mod:`spark_stomp.arrow.columns` makes the columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow import columns
from spark_stomp.arrow.columns import (
    BodyColumn,
    HeaderLines,
    Ints,
    OnError,
    TextSource,
    array_of,
    body_text,
    gather,
    kept,
    places,
    scalar,
    strings,
)
from spark_stomp.arrow.content import (
    NOT_TEXT,
    Bodies,
    Flaw,
    flaws_by_destination,
    open_bodies,
    open_message,
    unfit,
)
from spark_stomp.arrow.headers import (
    Area,
    ExactHeaders,
    MalformedRows,
    UniformHeaders,
    area_of,
    exact_frames,
    not_text_headers,
    read_layouts,
)
from spark_stomp.brokers.bodies import NO_MARKS, BodyMarks
from spark_stomp.columns import MALFORMED, RESCUED, Projection
from spark_stomp.errors import BodyDecodeError, HeaderNotText, MalformedMessageError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.quoting import quoted


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
        marks: how encoded and missing bodies are recognised.
        content_types: headers with the content type, of which the first that a message has counts.
    """

    id_header: str | None
    timestamp_unit: Literal["ms", "s"]
    body_decode_errors: OnError = "error"
    id_separator: str | None = None
    id_time_header: str | None = None
    stream: str | None = None
    offset_header: str | None = None
    quoted_names: bool = False
    marks: BodyMarks = NO_MARKS
    content_types: tuple[str, ...] = ("content-type",)


def decode_frames(
    batch: FrameBatch, projection: Projection, rules: RowRules, flaws: Counter[Flaw] | None = None
) -> pa.RecordBatch:
    """The rows of ``batch`` in the schema of the projection, in the order of the frames.

    The frames must be such as :class:`spark_stomp.protocol.FrameScanner` accepts. Only the columns of the
    projection are computed. Besides the result, this needs up to about ten times the memory of the headers.
    What makes rows other than what was sent is counted in ``flaws``, what is wrong with bodies only if the
    projection has ``body``, ``rescued`` or ``malformed``.

    Raises:
        BodyDecodeError: ``body`` is a string, a body cannot be decoded, and the rules make that an error.
        MalformedMessageError: the frames are malformed, and the projection lacks the column ``malformed``.
    """
    schema = projection.arrow_schema
    if not len(batch.ends):
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    if batch.malformed is not None and MALFORMED not in projection.columns:
        raise MalformedMessageError(
            f"the batch has a malformed message: {batch.malformed}. It was received with "
            f"onMalformed=column: set that again, and name the column `{MALFORMED}` in the schema"
        )
    if batch.malformed is not None:
        rows: AnyRows = MalformedRows(batch)
    else:
        rows = read_rows(batch, rules.marks)
        if flaws is not None:
            of_bodies = not {"body", MALFORMED, RESCUED}.isdisjoint(projection.columns)
            flaws.update(rows.flaws(batch.dialect, of_bodies=of_bodies))
    body = _body(rows, projection, rules)
    if flaws is not None and body is not None and body.reasons and projection.body != pa.string():
        flaws.update(unfit(body.reasons, rows.column("destination"), batch.dialect))
    reasons = {} if {MALFORMED, RESCUED}.isdisjoint(projection.columns) else _reasons(rows, body)
    names = zip(projection.columns, schema, strict=True)
    arrays = [_column(name, field, rows, rules, batch, body, reasons) for name, field in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _body(rows: AnyRows, projection: Projection, rules: RowRules) -> BodyColumn | None:
    """The bodies as text or fields; None unless the projection asks for that."""
    data_type = projection.body
    if data_type is None or data_type == pa.binary():
        return None
    is_text = data_type == pa.string()
    if isinstance(rows, MalformedRows):
        texts = rows.texts()
        return BodyColumn(texts if is_text else pa.nulls(len(texts), data_type), {})
    column = rows.column
    types = _content_types(rows, rules)
    bodies = TextSource(rows.bodies(), types, column("message-id"), column("destination"))
    text = body_text(bodies, rules.body_decode_errors if is_text else "column")
    if is_text:
        reasons = {row: str(BodyDecodeError(reason)) for row, reason in text.reasons.items()}
        return BodyColumn(text.values, reasons)
    # Only for a query that has such a body.
    from spark_stomp.arrow.json_rows import json_rows

    found = json_rows(text.values, data_type)
    return BodyColumn(found.values, {**found.reasons, **text.reasons})


def _reasons(rows: AnyRows, body: BodyColumn | None) -> dict[int, str]:
    """Why messages could not be read as they were sent, or do not fit, by row."""
    found = rows.reasons()
    for row, reason in ({} if body is None else body.reasons).items():
        found[row] = f"{found[row]}; {reason}" if row in found else reason
    return found


def _rescued(rows: AnyRows, reasons: Mapping[int, str], count: int) -> pa.Array:
    """The bodies of the messages that have a reason."""
    if not reasons:
        return pa.nulls(count, pa.binary())
    flags = np.zeros(count, bool)
    flags[list(reasons)] = True
    return kept(rows.bodies(), flags)


def _column(
    name: str,
    field: pa.Field,
    rows: AnyRows,
    rules: RowRules,
    batch: FrameBatch,
    body: BodyColumn | None,
    reasons: Mapping[int, str],
) -> pa.Array:
    count = len(batch.ends)
    match name:
        case "received_at":
            return array_of(np.full(count, batch.received_at)).view(field.type)
        case "body":
            return rows.bodies() if body is None else body.values
        case "malformed":
            return strings(map(reasons.get, range(count))) if reasons else columns.nulls(count)
        case "rescued":
            return _rescued(rows, reasons, count)
        case "receiver":
            return pa.repeat(scalar(batch.receiver), count)
        case "sequence":
            return array_of(np.arange(batch.first_number, batch.first_number + count))
        case _:
            return _of_headers(name, field.type, rows, rules, count)


def _of_headers(name: str, data_type: pa.DataType, rows: AnyRows, rules: RowRules, count: int) -> pa.Array:
    match name:
        case "stream_offset":
            if rules.stream is None or rules.offset_header is None:
                return pa.nulls(count, data_type)
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
            return columns.timestamps(rows.column("timestamp"), rules.timestamp_unit, data_type)
        case "headers":
            return columns.header_lines(rows.first_lines(), data_type)
        case "header_history":
            return columns.header_lines(rows.all_lines(), data_type)
        case "content_type":
            return _content_types(rows, rules)
        case "destination" if rules.quoted_names:
            return columns.unquoted(rows.column("destination"))
        case _:  # destination, message_id
            return rows.column(name.replace("_", "-"))


def _content_types(rows: AnyRows, rules: RowRules) -> pa.Array:
    return pc.coalesce(*map(rows.column, rules.content_types))


# --- the paths


Headers: TypeAlias = ExactHeaders | UniformHeaders


@dataclass(frozen=True)
class FrameRows:
    """The headers and bodies of all frames of a batch, in order, with the methods of ``Headers``.

    ``_read`` says where the bodies begin, and has those of whole messages that are opened. ``_not_text`` are
    the names of headers that are not text, of some frames.
    """

    _area: Area
    _read: Bodies
    _parts: Sequence[Headers]
    _order: Ints | None
    _marks: BodyMarks
    _not_text: Mapping[int, list[str]]

    def column(self, name: str) -> pa.Array:
        columns = [part.column(name) for part in self._parts]
        return columns[0] if self._order is None else pa.concat_arrays(columns).take(array_of(self._order))

    def first_lines(self) -> HeaderLines:
        return self._in_order(lambda part: part.first_lines())

    def all_lines(self) -> HeaderLines:
        return self._in_order(lambda part: part.all_lines())

    @cached_property
    def _opened(self) -> Bodies:
        open_bodies(self._area.array, self._read, self._area.stops, self.column, self._marks)
        return self._read

    def bodies(self) -> pa.Array:
        """The bodies as bytes."""
        found = self._opened
        bodies = gather(pa.binary(), self._area.buffer, found.starts, self._area.stops)
        if not found.replaced:
            return bodies
        taken = np.arange(len(bodies))
        taken[list(found.replaced)] = np.arange(len(bodies), len(bodies) + len(found.replaced))
        return pa.concat_arrays([bodies, strings(found.replaced.values(), pa.binary())]).take(array_of(taken))

    def reasons(self) -> dict[int, str]:
        """Why a message is not as it was sent, by row."""
        return {row: _not_text(names) for row, names in self._not_text.items()} | self._opened.reasons

    def flaws(self, dialect: str, *, of_bodies: bool) -> Counter[Flaw]:
        """How many messages have which flaw; flaws of bodies only on demand."""
        kinds = {NOT_TEXT: list(self._not_text)} if self._not_text else {}
        kinds |= self._opened.flaws if of_bodies else {}
        return flaws_by_destination(kinds, self.column("destination"), dialect) if kinds else Counter()

    def _in_order(self, lines_of: Callable[[Headers], HeaderLines]) -> HeaderLines:
        lines = [lines_of(part) for part in self._parts]
        return lines[0] if self._order is None else in_order(lines, self._order)


def _not_text(names: Sequence[str]) -> str:
    return str(
        HeaderNotText(
            f"headers that are not UTF-8, or have a NUL: {', '.join(map(quoted, names))}. Each character "
            "of their values is one octet: encode(value, 'ISO-8859-1')"
        )
    )


AnyRows: TypeAlias = FrameRows | MalformedRows


def in_order(parts: Sequence[HeaderLines], order: Ints) -> HeaderLines:
    """The lines of all messages in order: message i is message ``order[i]`` of the concatenated parts."""
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    starts = np.cumsum(counts) - counts
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts[order])))
    taken = array_of(np.repeat(starts[order] - offsets[:-1], counts[order]) + np.arange(offsets[-1]))
    names = pa.concat_arrays([part.names for part in parts]).take(taken)
    values = pa.concat_arrays([part.values for part in parts]).take(taken)
    return HeaderLines(offsets.astype(np.int32), names, values)


def read_rows(batch: FrameBatch, marks: BodyMarks = NO_MARKS) -> FrameRows:
    """Read a batch of at least one frame: by the fast path, and what it leaves out by the exact path.

    Whole messages in bodies take the exact path, because they have further headers.
    """
    area = area_of(batch)
    read = Bodies(area.starts.copy())
    parts: list[tuple[Ints, Headers]] = []
    remaining = np.ones(len(area), bool)
    not_text: dict[int, list[str]] = {}
    for found in read_layouts(area, batch.version):
        read.starts[found.rows] += found.sizes
        if marks.message is None or not found.headers.has(marks.message):
            remaining[found.rows] = False
            not_text |= {int(found.rows[row]): names for row, names in found.headers.not_text().items()}
            parts.append((found.rows, found.headers))
    rest = np.flatnonzero(remaining)
    if rest.size:
        exact = area.subset(rest)
        frames = exact_frames(exact, batch.version)
        read.starts[rest] = exact.stops - np.array([len(frame.body) for frame in frames])
        not_text |= {int(rest[row]): names for row, names in not_text_headers(exact, batch.version).items()}
        if marks.message is not None:
            frames = [
                open_message(read, row, frame, marks.message)
                for row, frame in zip(rest.tolist(), frames, strict=True)
            ]
        parts.append((rest, ExactHeaders(frames)))
    rows, headers = zip(*parts, strict=True)
    order = None if len(parts) == 1 else places(rows)
    return FrameRows(area, read, headers, order, marks, not_text)
