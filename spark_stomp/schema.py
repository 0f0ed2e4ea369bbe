"""The columns of the source and of the sink, declared once.

A source's schema is a *projection*: any of :data:`SOURCE_COLUMNS`, by name, in any order. ``body`` may be
asked for as ``string`` instead of ``binary``. Columns have the Arrow types that Spark's own conversion gives
them (32-bit string and binary offsets, ``timestamp[us, tz=UTC]``). Spark refuses record batches with any
other type, even if only the nullability of a map's values differs, so :func:`projection` copies the schema's
flags.

pyspark is imported inside the functions that need it: the Arrow code works on a :class:`Projection` alone.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_stomp.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

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
        return pa.schema([pa.field(name, _simple(types[name])) for name in self.columns])


def source_struct() -> StructType:
    """The schema of a source for which the user gave none: :data:`DEFAULT_COLUMNS`."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(c.name, _spark_type(c.types[0]), c.nullable) for c in DEFAULT_COLUMNS])


def projection(schema: StructType) -> Projection:
    """What a user's ``.schema(...)`` asks for.

    Raises:
        SchemaError: lists every column that the source does not have (with the nearest known name), has in
            another type or cannot promise to be never null, each column named twice, and an empty schema.
    """
    problems = _problems(schema.fields, SOURCE_COLUMNS, "the source")
    if problems:
        raise SchemaError("; ".join(problems))
    fields = [pa.field(f.name, _arrow_type(f.dataType), f.nullable) for f in schema.fields]
    return Projection(tuple(schema.fieldNames()), _body_is_string(schema), pa.schema(fields))


def sink_columns(
    schema: StructType, headers: Collection[str] = (), keys: Collection[str] = ()
) -> SinkColumns:
    """What a DataFrame that is written to the sink holds.

    Args:
        headers: further columns that are to be headers (option ``headerColumns``).
        keys: columns that identify a row (option ``dedupKey``).

    Raises:
        SchemaError: lists every column that the sink does not take (with the nearest known name) or takes
            only in another type, each column named twice, a missing ``body``, and what the options name
            wrongly.
    """
    own = {column.name for column in SINK_COLUMNS}
    given = {field.name: field.dataType.simpleString() for field in schema.fields}
    further = {name: given[name] for name in (*headers, *keys) if name in given and name not in own}
    named = tuple(Column(name, (kind,), True, "") for name, kind in further.items())
    problems = _problems(schema.fields, SINK_COLUMNS + named, "the sink", nulls_refused=False)
    if "body" not in given:
        problems.append("the sink needs a column `body` (binary or string)")
    for option, names in (("headerColumns", headers), ("dedupKey", keys)):
        problems += [f"{option} names `{name}`, which is no column" for name in names if name not in given]
    problems += [
        f"headerColumns names `{name}`, a column of the sink's own" for name in headers if name in own
    ]
    problems += [
        f"column `{name}` is {kind}, which cannot be text; cast it"
        for name, kind in further.items()
        if kind in (HEADER_MAP, HEADER_LIST) or _simple(kind) is None
    ]
    if "headers" in keys:
        problems.append("dedupKey names `headers`, and a map has no order")
    if problems:
        raise SchemaError("; ".join(problems))
    return SinkColumns(tuple(given), _body_is_string(schema), tuple(further.items()))


def _problems(
    fields: Sequence[StructField], columns: Sequence[Column], owner: str, *, nulls_refused: bool = True
) -> list[str]:
    by_name = {column.name: column for column in columns}
    problems: list[str] = []
    seen: set[str] = set()
    for field in fields:
        column = by_name.get(field.name)
        if column is None:
            problems.append(_unknown(field.name, columns, owner))
        elif field.name in seen:
            problems.append(f"column `{field.name}` is named twice")
        else:
            problems.extend(_type_problems(field, column, owner, nulls_refused))
        seen.add(field.name)
    if not fields:
        problems.append(f"the schema is empty; {owner} has {_names(columns)}")
    return problems


def _type_problems(field: StructField, column: Column, owner: str, nulls_refused: bool) -> Iterable[str]:
    given = field.dataType.simpleString()
    if given not in column.types:
        yield f"column `{field.name}` is {given}; {owner} has it as {' or '.join(column.types)}"
    if nulls_refused and column.nullable and not field.nullable:
        yield f"column `{field.name}` cannot be NOT NULL: a message may lack it"


def _unknown(name: str, columns: Sequence[Column], owner: str) -> str:
    near = difflib.get_close_matches(name.lower(), [column.name for column in columns], n=1)
    hint = f" (did you mean `{near[0]}`?)" if near else ""
    return f"{owner} has no column `{name}`{hint}; it has {_names(columns)}"


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)


def _simple(kind: str) -> pa.DataType | None:
    """The Arrow type of a Spark type that a sink's column may have; None if there is none."""
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _ARROW.get(kind)


def _known(name: str, columns: Sequence[Column]) -> Column:
    for column in columns:
        if column.name == name:
            return column
    raise SchemaError(_unknown(name, columns, "the source"))


def _chosen_type(column: Column, body_as_string: bool) -> str:
    return STRING if column.name == "body" and body_as_string else column.types[0]


def _body_is_string(schema: StructType) -> bool:
    return any(field.name == "body" and field.dataType.simpleString() == STRING for field in schema.fields)


def _spark_type(name: str) -> DataType:
    """The type of one of :data:`DEFAULT_COLUMNS`."""
    from pyspark.sql import types as t

    makers: dict[str, Callable[[], DataType]] = {
        STRING: t.StringType,
        BINARY: t.BinaryType,
        BOOLEAN: t.BooleanType,
        TIMESTAMP: t.TimestampType,
        HEADER_MAP: lambda: t.MapType(t.StringType(), t.StringType(), True),
    }
    return makers[name]()


def _arrow_type(data_type: Any) -> pa.DataType:
    """The Arrow type of one of our column types, with the nullability of its children kept."""
    name = data_type.simpleString()
    if name == HEADER_MAP:
        return pa.map_(pa.string(), pa.field("value", pa.string(), data_type.valueContainsNull))
    if name == HEADER_LIST:
        parts = [pa.field(part.name, pa.string(), part.nullable) for part in data_type.elementType.fields]
        return pa.list_(pa.field("element", pa.struct(parts), data_type.containsNull))
    return _ARROW[name]
