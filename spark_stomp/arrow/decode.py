"""Raw MESSAGE frames to Arrow record batches, each frame on the cheapest path that is right for it.

1. Frames of one layout are read together (:mod:`spark_stomp.arrow.uniform`), for a few layouts.
2. The rest is read as a mixture of layouts (:mod:`spark_stomp.arrow.mixed`).
3. What this fast path cannot read takes the exact path, the frame decoder
   (:mod:`spark_stomp.arrow.exact_path`).

Both paths give the same rows. Malformed frames lie in batches of their own, which
:mod:`spark_stomp.arrow.malformed` reads. :mod:`spark_stomp.arrow.columns` makes the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from spark_stomp.arrow import columns, heads
from spark_stomp.arrow.columns import HeaderLines, Ints, Positions, gather
from spark_stomp.arrow.exact_path import ExactHeaders, ExactPathRules, exact_frames
from spark_stomp.arrow.malformed import MalformedRows
from spark_stomp.arrow.mixed import mixed_headers
from spark_stomp.arrow.text import Bodies, BodyText, OnError, body_text
from spark_stomp.arrow.uniform import uniform_headers
from spark_stomp.errors import MalformedMessageError
from spark_stomp.framebatch import FrameBatch
from spark_stomp.schema import MALFORMED, Projection

_MOST_LAYOUTS = 4
"""So many layouts are read one after another before the rest is read as a mixture."""

_WORTHWHILE = 0.2
"""Reading by layout ends after one with a smaller share than this of the frames not yet read."""


@dataclass(frozen=True, slots=True)
class RowRules:
    """How headers become columns: what the broker's dialect and the query's options say about it.

    Attributes:
        id_header: the header whose value is the ``stable_id``, its name unescaped; None if the broker has
            none.
        timestamp_unit: the unit of the ``timestamp`` header.
        body_decode_errors: what an undecodable body gives if ``body`` is a string: an error, null, or
            null with the reason in the column ``malformed``.
        id_separator: the ``stable_id`` is the part of the header after the last one; None means all of it.
        id_time_header: the header with the time that completes it; None if it is complete.
    """

    id_header: str | None
    timestamp_unit: Literal["ms", "s"]
    body_decode_errors: OnError = "error"
    id_separator: str | None = None
    id_time_header: str | None = None


def decode_frames(batch: FrameBatch, projection: Projection, rules: RowRules) -> pa.RecordBatch:
    """The rows of ``batch`` in the schema of the projection, in the order of the frames.

    Takes what :class:`spark_stomp.protocol.FrameScanner` accepts, and computes only the columns of the
    projection. Besides the result it needs memory of up to about ten times the header areas.

    Raises:
        BodyDecodeError: ``body`` is a string, and one body cannot be decoded (unless the rules say null).
        MalformedMessageError: the frames are malformed, and the projection has no column to say so.
    """
    schema = projection.arrow_schema
    if not len(batch.ends):
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    if batch.malformed is not None and MALFORMED not in projection.columns:
        raise MalformedMessageError(
            f"the batch holds a message that is malformed: {batch.malformed}. It was received with "
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
    """The bodies as strings; None if they are not asked for as such."""
    if not (projection.body_as_string and "body" in projection.columns):
        return None
    if isinstance(rows, MalformedRows):
        return BodyText(rows.texts(), {})
    column = rows.column
    bodies = Bodies(rows.bodies(), column("content-type"), column("message-id"), column("destination"))
    return body_text(bodies, rules.body_decode_errors)


def _constant(field: pa.Field, batch: FrameBatch, body: BodyText | None) -> pa.Array | None:
    """A column that is there already, or does not depend on the frames' bytes; None if ``field`` is none."""
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
            return pa.array(np.arange(batch.first_sequence, batch.first_sequence + rows))
    return None


def _column(field: pa.Field, rows: AnyRows, rules: RowRules, count: int) -> pa.Array:
    """A column that is read from the frames."""
    match field.name:
        case "stable_id":
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
        case name:  # destination, message_id, content_type
            return rows.column(name.replace("_", "-"))


# --- the paths


class Headers(Protocol):
    """The decoded headers of some messages, from either path."""

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
class _Part:
    """Some frames of a batch, read in one way; ``ends`` is where their header areas end in the batch."""

    rows: Ints
    headers: Headers
    ends: Ints


@dataclass(frozen=True)
class Rows:
    """The headers and bodies of all frames of a batch, in their order; the methods of :class:`Headers`."""

    _area: heads.Area
    _parts: Sequence[_Part]
    _order: Ints | None

    def column(self, name: str) -> pa.Array:
        columns = [part.headers.column(name) for part in self._parts]
        return columns[0] if self._order is None else pa.concat_arrays(columns).take(pa.array(self._order))

    def first_lines(self) -> HeaderLines:
        return self._in_order(lambda part: part.headers.first_lines())

    def all_lines(self) -> HeaderLines:
        return self._in_order(lambda part: part.headers.all_lines())

    def bodies(self) -> pa.Array:
        """The bodies' bytes."""
        ends = np.concatenate([part.ends for part in self._parts])
        if self._order is not None:
            ends = ends[self._order]
        return gather(pa.binary(), self._area.buffer, ends, self._area.stops)

    def _in_order(self, lines_of: Callable[[_Part], HeaderLines]) -> HeaderLines:
        lines = [lines_of(part) for part in self._parts]
        return lines[0] if self._order is None else in_order(lines, self._order)


AnyRows: TypeAlias = Rows | MalformedRows


def in_order(parts: Sequence[HeaderLines], order: Ints) -> HeaderLines:
    """The lines of all messages: message i is number ``order[i]`` of the messages of all parts."""
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    starts = np.cumsum(counts) - counts
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts[order])))
    taken = pa.array(np.repeat(starts[order] - offsets[:-1], counts[order]) + np.arange(offsets[-1]))
    names = pa.concat_arrays([part.names for part in parts]).take(taken)
    values = pa.concat_arrays([part.values for part in parts]).take(taken)
    return HeaderLines(offsets.astype(np.int32), names, values)


def _order(parts: Sequence[_Part]) -> Ints | None:
    """For each frame its index in the concatenated parts; None if there is only one part."""
    if len(parts) == 1:
        return None
    rows = np.concatenate([part.rows for part in parts])
    order = np.empty(len(rows), np.int64)
    order[rows] = np.arange(len(rows))
    return order


def read_rows(batch: FrameBatch) -> Rows:
    """Read the headers of a batch of at least one frame."""
    area, rules = heads.area_of(batch), ExactPathRules(batch.version)
    parts = _in_place(area, rules) if heads.lf_scan_pays(area) else _copied_out(area, rules)
    return Rows(area, parts, _order(parts))


def _in_place(area: heads.Area, rules: ExactPathRules) -> list[_Part]:
    """Read the header areas in the batch's own bytes."""
    lf = heads.line_feeds(area.octets)
    first = heads.first_feeds(area, lf)
    parts = list(_by_layout(area, lf, first, rules))
    rest = _rows_left(area, parts)
    if rest.size:
        ends = heads.ends_by_lf(area.subset(rest), lf, first[rest])
        parts.extend(_as_mixture(area, rest, ends, rules))
    return parts


def _copied_out(area: heads.Area, rules: ExactPathRules) -> list[_Part]:
    """Find the header areas and copy them side by side, then read the copy."""
    ends = heads.ends_by_search(area)
    plain = np.flatnonzero(ends != heads.NO_END)
    parts: list[_Part] = []
    if plain.size:
        compact = heads.compact(area.subset(plain), ends[plain])
        lf = heads.line_feeds(compact.octets)
        for part in _by_layout(compact, lf, heads.first_feeds(compact, lf), rules):
            rows = plain[part.rows]
            parts.append(_Part(rows, part.headers, ends[rows]))
    rest = _rows_left(area, parts)
    if rest.size:
        parts.extend(_as_mixture(area, rest, ends[rest], rules))
    return parts


def _rows_left(area: heads.Area, parts: Sequence[_Part]) -> Ints:
    """The frames that are in no part yet."""
    left = np.ones(len(area), bool)
    for part in parts:
        left[part.rows] = False
    return np.flatnonzero(left)


def _by_layout(area: heads.Area, lf: Positions, first: Ints, rules: ExactPathRules) -> Iterator[_Part]:
    """The first layouts, each with its frames, as long as each has enough of them."""
    rest = np.arange(len(area))
    for _ in range(_MOST_LAYOUTS):
        found = uniform_headers(area.subset(rest), lf, first[rest], rules)
        if found is None:
            return
        yield _Part(rest[found.rows], found.headers, found.ends)
        if len(found.rows) == len(rest) or len(found.rows) < _WORTHWHILE * len(rest):
            return
        rest = np.delete(rest, found.rows)


def _as_mixture(area: heads.Area, rows: Ints, ends: Ints, rules: ExactPathRules) -> Iterator[_Part]:
    """Frames of any layout: those of the fast path in one part, those of the exact path in another.

    Args:
        rows: which frames of the area.
        ends: where their header areas end.
    """
    plain = np.flatnonzero(ends != heads.NO_END)
    while plain.size:  # three rounds at most: one finds areas for the exact path, the next finds lines
        headers, exact = mixed_headers(heads.compact(area.subset(rows[plain]), ends[plain]), rules)
        if headers is not None:
            yield _Part(rows[plain], headers, ends[plain])
            break
        plain = np.delete(plain, exact)
    rest = np.delete(rows, plain)
    if rest.size:
        frames = exact_frames(area.subset(rest), rules.version)
        body_sizes = np.array([len(frame.body) for frame in frames])
        yield _Part(rest, ExactHeaders(frames), area.stops[rest] - body_sizes)
