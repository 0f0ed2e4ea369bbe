"""The columns of the source and of the sink, declared once.

A source's schema is a *projection*: any of :data:`SOURCE_COLUMNS`, by name, in any order. ``body`` may be
asked for as ``string`` instead of ``binary``. Columns have the Arrow types that Spark's own conversion gives
them (32-bit string and binary offsets, ``timestamp[us, tz=UTC]``).

Types are named as Spark names them, in plain text: nothing here needs Spark.
:mod:`spark_stomp.spark.schema` makes a :class:`Projection` or :class:`SinkColumns` of a schema of Spark's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_stomp.errors import SchemaError

STRING = "string"
BINARY = "binary"
BOOLEAN = "boolean"
BIGINT = "bigint"
TIMESTAMP = "timestamp"
HEADER_MAP = "map<string,string>"
HEADER_LIST = "array<struct<name:string,value:string>>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, the Spark types it may have (the first is the default), and what it means.

    ``nullable`` says whether the column can hold nulls; if it can, asking for it as ``NOT NULL`` is an error.
    """

    name: str
    types: tuple[str, ...]
    nullable: bool
    meaning: str


DEFAULT_COLUMNS: tuple[Column, ...] = (
    Column("destination", (STRING,), True, "where the broker says the message came from"),
    Column("message_id", (STRING,), True, "the `message-id` header"),
    Column(
        "stable_id",
        (STRING,),
        True,
        "an id that survives redelivery (the broker's own, on Artemis with its time, or the header that "
        "`idHeader` names); null where there is none",
    ),
    Column("content_type", (STRING,), True, "the `content-type` header as sent; null when absent"),
    Column("redelivered", (BOOLEAN,), True, "the `redelivered` header; null where the broker says nothing"),
    Column(
        "timestamp",
        (TIMESTAMP,),
        True,
        "the `timestamp` header in the broker's unit; null when absent or malformed",
    ),
    Column("received_at", (TIMESTAMP,), False, "when the receiver read the frame; never null"),
    Column(
        "headers",
        (HEADER_MAP,),
        False,
        "every header, unescaped; of repeated headers the first wins; never null",
    ),
    Column(
        "body", (BINARY, STRING), True, "the bytes of the body, or its text where `body string` is asked for"
    ),
)
"""What a source without a user's schema yields, in this order."""

MALFORMED = "malformed"

ON_DEMAND_COLUMNS: tuple[Column, ...] = (
    Column(
        MALFORMED,
        (STRING,),
        True,
        "why the message could not be read (`onMalformed=column`, `bodyDecodeErrors=column`); null for good "
        "ones",
    ),
    Column("header_history", (HEADER_LIST,), False, "every header line in order, repeats kept; never null"),
    Column("receiver", (STRING,), False, "the receiver that read the message; never null"),
    Column("sequence", (BIGINT,), False, "the order of delivery within one receiver's life; never null"),
)
"""What a user's schema may also name."""

SOURCE_COLUMNS: tuple[Column, ...] = DEFAULT_COLUMNS + ON_DEMAND_COLUMNS

SINK_COLUMNS: tuple[Column, ...] = (
    Column("body", (BINARY, STRING), False, "the body; text is sent as UTF-8"),
    Column(
        "destination", (STRING,), True, "where to send the message; the option `destination` wins over it"
    ),
    Column("content_type", (STRING,), True, "the `content-type` header; null sends none"),
    Column(
        "headers",
        (HEADER_MAP,),
        True,
        "further headers; a null value leaves its header out. Those that a broker sets on what it delivers, "
        "such as `message-id` and `destination`, do not travel on, nor those that [command the "
        "broker](sink.md#writing-what-the-source-read)",
    ),
    Column("persistent", (BOOLEAN,), True, "whether the broker keeps the message over its own restart"),
    Column("priority", ("int", BIGINT), True, "from 0 to 9"),
    Column("ttl", (BIGINT, "int"), True, "how long the message is worth delivering, in milliseconds"),
    Column("correlation_id", (STRING,), True, "the `correlation-id` header"),
    Column("reply_to", (STRING,), True, "the `reply-to` header"),
)
"""What a sink takes; only ``body`` is required. If a value is null, the option of the same meaning counts."""

_ARROW: dict[str, pa.DataType] = {
    STRING: pa.string(),
    BINARY: pa.binary(),
    BOOLEAN: pa.bool_(),
    BIGINT: pa.int64(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    HEADER_MAP: pa.map_(pa.string(), pa.string()),
    HEADER_LIST: pa.list_(
        pa.field("element", pa.struct([pa.field("name", pa.string()), pa.field("value", pa.string())]))
    ),
}


@dataclass(frozen=True)
class Projection:
    """What a query asks the source for. Picklable; hashable.

    Attributes:
        columns: the names, in the order of the query's schema.
        body_as_string: whether ``body`` is to be decoded to text.
        arrow_schema: exactly what Spark makes of the query's schema in Arrow (time zone "UTC").
    """

    columns: tuple[str, ...]
    body_as_string: bool
    arrow_schema: pa.Schema

    @classmethod
    def of(cls, *names: str, body_as_string: bool = False) -> Projection:
        """The projection of columns by name, without pyspark; all default columns when none is named.

        Raises:
            SchemaError: a name that the source does not have.
        """
        chosen = [_known(name, SOURCE_COLUMNS) for name in names] if names else list(DEFAULT_COLUMNS)
        fields = [pa.field(c.name, _ARROW[_chosen_type(c, body_as_string)], c.nullable) for c in chosen]
        return cls(tuple(c.name for c in chosen), body_as_string, pa.schema(fields))


@dataclass(frozen=True)
class SinkColumns:
    """Which of the sink's columns a DataFrame has, in its own order. Picklable; hashable.

    ``further`` are the Spark types of those that options name, by name.
    """

    columns: tuple[str, ...]
    body_as_string: bool
    further: tuple[tuple[str, str], ...] = ()

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns in Arrow, all nullable: forbidden nulls are refused row by row."""
        types = {column.name: _chosen_type(column, self.body_as_string) for column in SINK_COLUMNS}
        types |= dict(self.further)
        return pa.schema([pa.field(name, arrow_type(types[name])) for name in self.columns])


def unknown_column(name: str, columns: Sequence[Column], owner: str) -> str:
    near = difflib.get_close_matches(name.lower(), [column.name for column in columns], n=1)
    hint = f" (did you mean `{near[0]}`?)" if near else ""
    return f"{owner} has no column `{name}`{hint}; it has {column_names(columns)}"


def column_names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)


def arrow_type(kind: str) -> pa.DataType | None:
    """The Arrow type of a Spark type that a sink's column may have; None if there is none."""
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _ARROW.get(kind)


def _known(name: str, columns: Sequence[Column]) -> Column:
    for column in columns:
        if column.name == name:
            return column
    raise SchemaError(unknown_column(name, columns, "the source"))


def _chosen_type(column: Column, body_as_string: bool) -> str:
    return STRING if column.name == "body" and body_as_string else column.types[0]
