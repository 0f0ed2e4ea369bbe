"""The columns of a read, chosen without Spark."""

from __future__ import annotations

import pyarrow as pa

from spark_stomp.columns import DEFAULT_COLUMNS, SOURCE_COLUMNS, Projection, arrow_type


def projection_of(*names: str, body_as_string: bool = False) -> Projection:
    """A projection of these columns, in their default types; of the default columns if none is named."""
    known = {column.name: column for column in SOURCE_COLUMNS}
    columns = [known[name] for name in names] if names else DEFAULT_COLUMNS
    types = {column.name: column.types[0] for column in columns}
    if body_as_string:
        types["body"] = "string"
    fields = [pa.field(column.name, arrow_type(types[column.name]), column.nullable) for column in columns]
    return Projection(tuple(column.name for column in columns), pa.schema(fields))
