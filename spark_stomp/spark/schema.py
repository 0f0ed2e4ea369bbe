"""Spark's schemas: the columns that a user wants from the source, and those that the sink gets.

Spark refuses record batches whose types differ from its own conversion, even if only the nullability of a
map's values differs. So :func:`projection` copies the flags of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.types import DataType, StructField, StructType

from spark_stomp.columns import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DEFAULT_COLUMNS,
    HEADER_LIST,
    HEADER_MAP,
    MALFORMED,
    RESCUED,
    SINK_COLUMNS,
    SOURCE_COLUMNS,
    STREAM_OFFSET,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Column,
    Projection,
    SinkColumns,
    arrow_type,
    column_names,
    unknown_column,
)
from spark_stomp.errors import SchemaError
from spark_stomp.spark.json_schema import is_json, json_problems, json_type


def source_struct(*, streams: bool = False) -> StructType:
    """The schema of the source if the user gives none: :data:`DEFAULT_COLUMNS`, and the offset of streams."""
    columns = (*DEFAULT_COLUMNS, STREAM_OFFSET) if streams else DEFAULT_COLUMNS
    return StructType([StructField(c.name, _spark_type(c.types[0]), c.nullable) for c in columns])


def projection(schema: StructType) -> Projection:
    """The columns that a user's ``.schema(...)`` asks for.

    Raises:
        SchemaError: lists every column that the source does not have (with the nearest known name), that it
            has in another type, or that is NOT NULL although a message may lack it. It also lists each column
            that is named twice, and an empty schema.
    """
    known = _in_lower_case(schema, SOURCE_COLUMNS)
    problems = _problems(known.fields, SOURCE_COLUMNS, "the source")
    kinds = {field.name: field.dataType for field in known.fields}
    if "body" in kinds and is_json(kinds["body"]) and RESCUED not in kinds:
        problems.append(
            f"a body of fields needs the column `{RESCUED} binary`, which has each body that does not fit: "
            f'.schema("..., body {kinds["body"].simpleString()[:60]}, {RESCUED} binary, {MALFORMED} string")'
        )
    if problems:
        raise SchemaError("; ".join(problems))
    fields = [pa.field(f.name, _as_declared(f.dataType), f.nullable) for f in schema.fields]
    return Projection(tuple(known.fieldNames()), pa.schema(fields))


def sink_columns(
    schema: StructType, headers: Collection[str] = (), keys: Collection[str] = ()
) -> SinkColumns:
    """The columns of a DataFrame that is written to the sink.

    Args:
        headers: further columns that become headers (option ``headerColumns``).
        keys: columns that identify a row (option ``dedupKey``).

    Raises:
        SchemaError: lists all problems: columns that the sink does not have (with the nearest known name),
            columns of a wrong type, columns that are named twice, a missing ``body``, and columns that an
            option names and cannot use.
    """
    schema = _in_lower_case(schema, SINK_COLUMNS)
    own = {column.name for column in SINK_COLUMNS}
    given = {field.name: field.dataType.simpleString() for field in schema.fields}
    further = {name: given[name] for name in (*headers, *keys) if name in given and name not in own}
    named = tuple(Column(name, (spark_type,), True, "") for name, spark_type in further.items())
    problems = _problems(schema.fields, SINK_COLUMNS + named, "the sink", nulls_refused=False)
    if "body" not in given:
        problems.append("the sink needs a column `body` (binary or string)")
    for option, names in (("headerColumns", headers), ("dedupKey", keys)):
        problems += [f"{option} names `{name}`, which is no column" for name in names if name not in given]
    problems += [
        f"headerColumns names `{name}`, a column of the sink's own" for name in headers if name in own
    ]
    problems += [
        f"column `{name}` is {spark_type}, which cannot be text; cast it"
        for name, spark_type in further.items()
        if spark_type in (HEADER_MAP, HEADER_LIST) or arrow_type(spark_type) is None
    ]
    if "headers" in keys:
        problems.append("dedupKey names `headers`, and a map has no order")
    if problems:
        raise SchemaError("; ".join(problems))
    return SinkColumns(tuple(given), given["body"] == STRING, tuple(further.items()))


def _in_lower_case(schema: StructType, columns: Sequence[Column]) -> StructType:
    """``schema`` with the names of ``columns`` as they are here: Spark's names have no case."""
    own = {column.name for column in columns}
    names = (field.name.lower() if field.name.lower() in own else field.name for field in schema.fields)
    return StructType(
        [
            StructField(name, field.dataType, field.nullable)
            for name, field in zip(names, schema.fields, strict=True)
        ]
    )


def _problems(
    fields: Sequence[StructField], columns: Sequence[Column], owner: str, *, nulls_refused: bool = True
) -> list[str]:
    by_name = {column.name: column for column in columns}
    problems: list[str] = []
    seen: set[str] = set()
    for field in fields:
        column = by_name.get(field.name)
        if column is None:
            problems.append(unknown_column(field.name, columns, owner))
        elif field.name in seen:
            problems.append(f"column `{field.name}` is named twice")
        else:
            problems.extend(_type_problems(field, column, owner, nulls_refused))
        seen.add(field.name)
    if not fields:
        problems.append(f"the schema is empty; {owner} has {column_names(columns)}")
    return problems


def _type_problems(field: StructField, column: Column, owner: str, nulls_refused: bool) -> Iterable[str]:
    given = field.dataType.simpleString()
    if field.name == "body" and owner == "the source" and is_json(field.dataType):
        yield from json_problems(field.dataType)
    elif given not in column.types:
        hint = ""
        if given == TIMESTAMP_NTZ and TIMESTAMP in column.types:
            hint = ": write timestamp_ltz, because spark.sql.timestampType may say what timestamp means"
        yield f"column `{field.name}` is {given}; {owner} has it as {' or '.join(column.types)}{hint}"
    if nulls_refused and column.nullable and not field.nullable:
        yield f"column `{field.name}` cannot be NOT NULL: a message may lack it"


def _spark_type(name: str) -> DataType:
    """The Spark type called ``name``, for the types of :data:`DEFAULT_COLUMNS`."""
    makers: dict[str, Callable[[], DataType]] = {
        STRING: t.StringType,
        BINARY: t.BinaryType,
        BIGINT: t.LongType,
        BOOLEAN: t.BooleanType,
        TIMESTAMP: t.TimestampType,
        HEADER_MAP: lambda: t.MapType(t.StringType(), t.StringType(), True),
    }
    return makers[name]()


def _as_declared(data_type: Any) -> pa.DataType:
    """The Arrow type of a column, with the nullability that the schema declares for its children."""
    name = data_type.simpleString()
    if is_json(data_type) and name != HEADER_LIST:
        return json_type(data_type)
    if name == HEADER_MAP:
        return pa.map_(pa.string(), pa.field("value", pa.string(), data_type.valueContainsNull))
    if name == HEADER_LIST:
        parts = [pa.field(part.name, pa.string(), part.nullable) for part in data_type.elementType.fields]
        return pa.list_(pa.field("element", pa.struct(parts), data_type.containsNull))
    return arrow_type(name)
