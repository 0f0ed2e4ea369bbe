"""Raw MESSAGE frames to Arrow record batches.

Nearly all frames take the fast path: they are read all at once, without a loop over frames or headers. The
few that it cannot read take the exact path, the frame decoder. Both give the same rows. To follow a row:
:mod:`spark_stomp.arrow.rows` chooses the path, :mod:`spark_stomp.arrow.columns` makes the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from spark_stomp.arrow import columns
from spark_stomp.arrow.rows import Rows, read_rows
from spark_stomp.arrow.text import Bodies, body_text
from spark_stomp.framebatch import FrameBatch
from spark_stomp.schema import Projection

__all__ = ["RowRules", "decode_frames"]


@dataclass(frozen=True, slots=True)
class RowRules:
    """How headers become columns: what the broker's dialect and the query's options say about it.

    Attributes:
        id_header: the header whose value is the ``stable_id``, its name unescaped; None if the broker has
            none.
        timestamp_unit: the unit of the ``timestamp`` header.
        body_decode_errors: what an undecodable body gives if ``body`` is a string: an error, or null.
        id_separator: the ``stable_id`` is what follows the last one in the header; None means all of it.
    """

    id_header: str | None
    timestamp_unit: Literal["ms", "s"]
    body_decode_errors: Literal["error", "null"] = "error"
    id_separator: str | None = None


def decode_frames(batch: FrameBatch, projection: Projection, rules: RowRules) -> pa.RecordBatch:
    """The rows of ``batch`` in the schema of the projection, in the order of the frames.

    Takes what :class:`spark_stomp.protocol.FrameScanner` accepts, and computes only the columns of the
    projection. Besides the result it needs memory of up to about ten times the header areas.

    Raises:
        BodyDecodeError: ``body`` is a string, and one body cannot be decoded (unless the rules say null).
    """
    schema = projection.arrow_schema
    if not len(batch.ends):
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    rows = read_rows(batch)
    arrays = []
    for field in schema:
        constant = _constant(field, batch)
        arrays.append(_column(field, rows, rules, len(batch.ends)) if constant is None else constant)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _constant(field: pa.Field, batch: FrameBatch) -> pa.Array | None:
    """A column that does not depend on the frames' bytes; None if ``field`` does."""
    rows = len(batch.ends)
    match field.name:
        case "received_at":
            return pa.array(np.full(rows, batch.received_at)).view(field.type)
        case "receiver":
            return pa.repeat(batch.receiver, rows)
        case "sequence":
            return pa.array(np.arange(batch.first_sequence, batch.first_sequence + rows))
    return None


def _column(field: pa.Field, rows: Rows, rules: RowRules, count: int) -> pa.Array:
    """A column that is read from the frames."""
    match field.name:
        case "stable_id":
            if rules.id_header is None:
                return columns.nulls(count)
            return columns.after_last(rows.column(rules.id_header), rules.id_separator)
        case "redelivered":
            return columns.redelivered(rows.column("redelivered"))
        case "timestamp":
            return columns.timestamps(rows.column("timestamp"), rules.timestamp_unit, field.type)
        case "headers":
            return columns.header_map(rows.first_lines(), field.type)
        case "header_history":
            return columns.header_list(rows.all_lines(), field.type)
        case "body":
            return _text(rows, rules) if pa.types.is_string(field.type) else rows.bodies()
        case name:  # destination, message_id, content_type
            return rows.column(name.replace("_", "-"))


def _text(rows: Rows, rules: RowRules) -> pa.Array:
    column = rows.column
    bodies = Bodies(rows.bodies(), column("content-type"), column("message-id"), column("destination"))
    return body_text(bodies, rules.body_decode_errors)
