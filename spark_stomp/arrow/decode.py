"""Raw MESSAGE frames to Arrow record batches.

Plain frames are read all at once, without a loop over frames or headers; odd ones by the frame decoder (see
:mod:`spark_stomp.arrow.rows`). Both give the same rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_stomp.arrow import columns
from spark_stomp.arrow.headers import nulls
from spark_stomp.arrow.raw import RowRules
from spark_stomp.arrow.rows import Rows, read_rows
from spark_stomp.arrow.text import Bodies, body_text
from spark_stomp.framebatch import FrameBatch
from spark_stomp.schema import Projection

__all__ = ["decode_block"]


def decode_block(block: FrameBatch, projection: Projection, rules: RowRules) -> pa.RecordBatch:
    """The rows of a block in the schema of the projection, in the order of the frames.

    Takes what :class:`spark_stomp.protocol.FrameScanner` lets through, and computes only the columns of the
    projection. Beside the result it needs memory of up to some ten times the header areas.

    Raises:
        BodyDecodeError: ``body`` was asked for as a string, and one has none (unless the rules say null).
    """
    schema = projection.arrow_schema
    if not len(block.ends):
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    rows = read_rows(block)
    arrays = []
    for field in schema:
        constant = _constant(field, block)
        arrays.append(_column(field, rows, rules, len(block.ends)) if constant is None else constant)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _constant(field: pa.Field, block: FrameBatch) -> pa.Array | None:
    """A column that does not depend on what the frames hold."""
    rows = len(block.ends)
    match field.name:
        case "received_at":
            return pa.array(np.full(rows, block.received_at)).view(field.type)
        case "receiver":
            return pa.repeat(block.receiver, rows)
        case "sequence":
            return pa.array(np.arange(block.first_sequence, block.first_sequence + rows))
    return None


def _column(field: pa.Field, rows: Rows, rules: RowRules, count: int) -> pa.Array:
    """A column that is read from the frames."""
    match field.name:
        case "stable_id":
            if rules.id_header is None:
                return nulls(count)
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
