"""The columns of the source and of the sink, declared once.

The schema of a read is a *projection*: any of :data:`SOURCE_COLUMNS`, by name, in any order. ``body`` may be
a ``string`` instead of ``binary``, or the fields of its JSON. Columns have the Arrow types that Spark's own
conversion gives them (32-bit string and binary offsets, ``timestamp[us, tz=UTC]``).

Types are text, written as Spark writes them, so that nothing here needs Spark.
:mod:`spark_stomp.spark.schema` makes a :class:`Projection` or :class:`SinkColumns` from a schema of Spark.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

STRING = "string"
BINARY = "binary"
BOOLEAN = "boolean"
BIGINT = "bigint"
TIMESTAMP = "timestamp"
TIMESTAMP_NTZ = "timestamp_ntz"
HEADER_MAP = "map<string,string>"
HEADER_LIST = "array<struct<name:string,value:string>>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the source or of the sink.

    Attributes:
        name: its name.
        types: the Spark types it may have; the first is the default.
        nullable: whether the column may have nulls. If so, a read's schema must not make it ``NOT NULL``.
        meaning: a phrase for docs/reference.md.
    """

    name: str
    types: tuple[str, ...]
    nullable: bool
    meaning: str


DEFAULT_COLUMNS: tuple[Column, ...] = (
    Column("destination", (STRING,), True, "where the message came from, as a SEND names it"),
    Column("message_id", (STRING,), True, "the `message-id` header"),
    Column(
        "stable_id",
        (STRING,),
        True,
        "an id that survives redelivery; of a stream its name, `@` and the offset; null if there is none, "
        "as in all rows from RabbitMQ without `idHeader`",
    ),
    Column("content_type", (STRING,), True, "the `content-type` header as sent; null if absent"),
    Column("redelivered", (BOOLEAN,), True, "the `redelivered` header; null if it is neither true nor false"),
    Column(
        "timestamp",
        (TIMESTAMP,),
        True,
        "the `timestamp` header, in the broker's unit; null if absent, 0 or malformed. On RabbitMQ only "
        "producers set it: for watermarks use `received_at`",
    ),
    Column("received_at", (TIMESTAMP,), False, "when the frame was read; never null"),
    Column("headers", (HEADER_MAP,), False, "all headers, unescaped; of repeated ones the first; never null"),
    Column(
        "body",
        (BINARY, STRING),
        True,
        "the bytes of the body, its text with `body string` in the schema, or [the fields of its JSON]"
        "(payloads.md#json-and-what-fails) with `body STRUCT<...>` or `body ARRAY<STRUCT<...>>`",
    ),
)
"""The columns of a read without a schema, in this order."""

STREAM_OFFSET = Column("stream_offset", (BIGINT,), True, "the offset in the stream, or null")
"""A column that a read of streams has by default too, as the last one."""

MALFORMED = "malformed"
RESCUED = "rescued"

ON_DEMAND_COLUMNS: tuple[Column, ...] = (
    Column(
        MALFORMED,
        (STRING,),
        True,
        "why the message could not be read (`onMalformed=column`, `bodyDecodeErrors=column`), or what of its "
        "body does not fit, or null",
    ),
    Column(
        RESCUED,
        (BINARY,),
        True,
        "the whole body, as it came, of a message that has a reason in `malformed`; else null",
    ),
    Column("header_history", (HEADER_LIST,), False, "all header lines in order; never null"),
    Column("receiver", (STRING,), False, "the receiver that read the message; never null"),
    Column(
        "sequence", (BIGINT,), False, "the number in this run, in the journal or in the stream; never null"
    ),
    STREAM_OFFSET,
)
"""The columns that a read has only if its schema names them."""

SOURCE_COLUMNS: tuple[Column, ...] = DEFAULT_COLUMNS + ON_DEMAND_COLUMNS

SINK_COLUMNS: tuple[Column, ...] = (
    Column("body", (BINARY, STRING), False, "the body; text is sent as UTF-8"),
    Column("destination", (STRING,), True, "where to send the message; the option `destination` wins"),
    Column("content_type", (STRING,), True, "the `content-type` header; null sends none"),
    Column(
        "headers",
        (HEADER_MAP,),
        True,
        "more headers; a null value leaves its header out. Not sent are those that a broker sets, such as "
        "`message-id`, and those that [command the broker](sink.md#writing-what-the-source-read)",
    ),
    Column("persistent", (BOOLEAN,), True, "whether the broker keeps the message when it restarts"),
    Column("priority", ("int", BIGINT), True, "the `priority` header, from 0 to 9"),
    Column("ttl", (BIGINT, "int"), True, "how long the message lives, in milliseconds"),
    Column("correlation_id", (STRING,), True, "the `correlation-id` header"),
    Column("reply_to", (STRING,), True, "the `reply-to` header"),
)
"""The columns of a write; only ``body`` is required. If a value is null, the option for its column counts."""

LEAVES: dict[str, pa.DataType] = {
    STRING: pa.string(),
    BOOLEAN: pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    BIGINT: pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
}
"""The types without parts that JSON has values for too, and their Arrow types."""

_ARROW: dict[str, pa.DataType] = {
    **LEAVES,
    BINARY: pa.binary(),
    HEADER_MAP: pa.map_(pa.string(), pa.string()),
    HEADER_LIST: pa.list_(
        pa.field("element", pa.struct([pa.field("name", pa.string()), pa.field("value", pa.string())]))
    ),
}


@dataclass(frozen=True)
class Projection:
    """The columns that a query asks for. Picklable and hashable.

    Attributes:
        columns: their names here, in the order of the query's schema, which may have them in another case.
        arrow_schema: the Arrow schema that Spark makes from the query's schema (time zone "UTC").
    """

    columns: tuple[str, ...]
    arrow_schema: pa.Schema

    @property
    def body(self) -> pa.DataType | None:
        """The type of ``body``: octets, text, or the fields of its JSON; None if the query does not ask."""
        return self.arrow_schema.field(self.columns.index("body")).type if "body" in self.columns else None


@dataclass(frozen=True)
class SinkColumns:
    """The columns of a DataFrame that is written. Picklable and hashable.

    Attributes:
        columns: the names, in the order of the DataFrame.
        body_as_string: whether ``body`` is a string.
        further: columns beyond the sink's own that options name, with their Spark types.
    """

    columns: tuple[str, ...]
    body_as_string: bool
    further: tuple[tuple[str, str], ...] = ()

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema. All columns are nullable, because a forbidden null is refused with its row."""
        types = {column.name: column.types[0] for column in SINK_COLUMNS} | dict(self.further)
        types["body"] = STRING if self.body_as_string else BINARY
        return pa.schema([pa.field(name, arrow_type(types[name])) for name in self.columns])


def unknown_column(name: str, columns: Sequence[Column], owner: str) -> str:
    """The sentence for a column that ``owner``, the source or the sink, does not have."""
    near = difflib.get_close_matches(name.lower(), [column.name for column in columns], n=1)
    hint = f" (did you mean `{near[0]}`?)" if near else ""
    return f"{owner} has no column `{name}`{hint}; it has {column_names(columns)}"


def column_names(columns: Sequence[Column]) -> str:
    """The names of ``columns``, joined for a sentence."""
    return ", ".join(column.name for column in columns)


def arrow_type(spark_type: str) -> pa.DataType | None:
    """The Arrow type for the Spark type ``spark_type``; None if no column may have that type."""
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", spark_type)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _ARROW.get(spark_type)
