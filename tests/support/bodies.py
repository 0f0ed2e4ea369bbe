"""Bodies of every kind, and a stand-in for the queue: runs programs on them without a broker or a stream.

The source gives one batch with a message for each body; a query is that batch, written at once. What the
program then keeps, in a sink, a table or a message, is collected. So it takes a second, not half a minute.
"""

from __future__ import annotations

import ast
import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantVal,
)

from spark_stomp.arrow.columns import strings
from spark_stomp.arrow.json_rows import json_rows
from spark_stomp.columns import SOURCE_COLUMNS
from spark_stomp.spark.json_schema import is_json, json_type
from spark_stomp.spark.schema import source_struct

_PACKED = gzip.compress(b'{"id": 4722}', mtime=0)
BODIES: tuple[bytes, ...] = (
    b'{"id": 4711, "article": "bread", "price": 2.5}',
    b"not json",
    b"",
    b"   ",
    b"null",
    b"7007",
    b'"a text"',
    b"[]",
    b"[17, 18]",
    b'{"id": 4712, "article": "cut off"',
    b'{"id": "four", "article": "another type"}',
    b'{"other": "a field that nobody names"}',
    b'{"id": 4713} {"id": 4714}',
    b'{"id": 4715, "id": 4716}',
    b'{"id": 9223372036854775808}',
    b'{"id": 4717, "price": 1e400}',
    b'{"id": 4718, "price": 0.12345678901234567891}',
    b'{"id": 4719, "price": NaN}',
    b"{'id': 4720}",
    b'\xef\xbb\xbf{"id": 4721}',
    b'{"article": "\xff\xfe"}',
    b"\x00\x01\x02\xff",
    _PACKED,
    _PACKED[:-6],
    '{"id": 4723}'.encode("utf-16"),
    b'{"article": "' + b"x" * 1_000_000 + b'"}',
    b'[{"header": {"msg_type": "0003"}, "body": {"train_id": "t1", "toc_id": "o1", "planned_timestamp": "", '
    b'"actual_timestamp": "1772431200001", "new": "n1"}}]',
    b'[{"header": {"msg_type": "0003"}, "body": {"train_id": "t2"}},',
    b'[{"header": {"msg_type": "0003"}, "body": {"train_id": "t3", '
    b'"planned_timestamp": "-9223372036854775808", "actual_timestamp": "9223372036854775807"}}]',
)


class Kept:
    """What a program has kept: the cells of each row, each as bytes."""

    def __init__(self) -> None:
        self.rows: list[set[bytes]] = []
        self.queries: set[tuple[str, ...]] = set()
        """The columns of each query that was started."""
        self.failed: list[Exception] = []
        """Why queries have ended."""

    def add(self, frame: DataFrame) -> None:
        as_octets = [
            f.col(f"`{name}`").cast("binary").alias(name) if kind == "string" else f.col(f"`{name}`")
            for name, kind in frame.dtypes
        ]
        self.rows += [set(_cells(row)) for row in frame.select(*as_octets).collect()]

    def missing(self) -> list[bytes]:
        """The bodies that no row has: neither whole, nor each of their values."""
        return [body[:80] for body in BODIES if not any(_has(row, body) for row in self.rows)]


def _cells(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        yield from (cell for one in value.values() for cell in _cells(one))
    elif isinstance(value, (list, tuple)):
        yield from (cell for one in value for cell in _cells(one))
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value)
    elif value is not None:
        yield str(value).encode()


def _has(row: set[bytes], body: bytes) -> bool:
    if body in row or (body == _PACKED and gzip.decompress(body) in row):
        return True
    try:
        document = json.loads(body, parse_float=Decimal)
    except ValueError:
        return False
    said = set(_cells(document))
    values = {json.dumps(parts, separators=(",", ":")).encode() for parts in _objects(document)}
    return bool(said) and said <= row | {cell for cell in said if any(value in row for value in values)}


def _objects(document: Any) -> Iterator[Any]:
    """The parts of a list's elements, with sorted names as a VARIANT has them."""
    if isinstance(document, list):
        for element in document:
            if isinstance(element, dict):
                yield from (dict(sorted(part.items())) for part in element.values() if isinstance(part, dict))


def _decoded(kind: DataType) -> tuple[list[Any], Mapping[int, str]]:
    """The bodies, as the source decodes them if they are JSON, and why some do not fit."""
    if not is_json(kind):
        return [bytearray(body) for body in BODIES], {}
    found = json_rows(strings(BODIES, pa.binary()), json_type(kind))
    return [_of_spark(value) for value in found.values.to_pylist()], found.reasons


def _of_spark(value: Any) -> Any:
    """A value of Arrow as Spark makes a row of it."""
    if isinstance(value, list):
        return [_of_spark(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"value", "metadata"}:
        return VariantVal(**value)
    return {name: _of_spark(one) for name, one in value.items()}


class _Reader:
    """``spark.readStream`` and ``spark.read``; formats but ``stomp`` go to Spark."""

    def __init__(self, spark: SparkSession, real: Any) -> None:
        self._spark, self._real = spark, real
        self._stomp, self._options = False, dict[str, str]()
        self._schema: StructType | None = None

    def parquet(self, path: str) -> DataFrame:
        frame: DataFrame = self._real.parquet(_here(path))
        return frame

    def table(self, name: str) -> DataFrame:
        return self._spark.table(name)

    def format(self, name: str) -> Any:
        self._stomp = name == "stomp"
        return self if self._stomp else self._real.format(name)

    def schema(self, schema: str | StructType) -> _Reader:
        struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        assert isinstance(struct, StructType)
        self._schema = struct
        return self

    def option(self, key: str, value: Any) -> _Reader:
        self._options[key.lower()] = str(value)
        return self

    def options(self, **options: Any) -> _Reader:
        for key, value in options.items():
            self.option(key, value)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def load(self, path: str | None = None) -> DataFrame:
        schema = self._schema or source_struct(streams="startingoffsets" in self._options)
        given = self._options.get("destination", "/queue/orders")
        destination = path or (json.loads(given)[0] if given.startswith("[") else given)
        kind = schema["body"].dataType if "body" in schema.names else BinaryType()
        values, reasons = _decoded(kind)
        rows = [
            (number, value, bytearray(BODIES[number]) if number in reasons else None, reasons.get(number))
            for number, value in enumerate(values)
        ]
        types: dict[str, DataType] = {
            "sequence": LongType(),
            "body": BinaryType(),
            "rescued": BinaryType(),
            "malformed": StringType(),
        }
        types |= {"body": kind} if is_json(kind) else {}
        columns = StructType([StructField(name, one) for name, one in types.items()])
        frame = self._spark.createDataFrame(rows, columns).coalesce(1)
        known = {
            "message_id": f.concat(f.lit("ID:"), "sequence"),
            "stable_id": f.concat(f.lit("stable-"), "sequence"),
            "destination": f.lit(destination),
            "headers": f.create_map(f.lit("region"), f.lit("EU")),
            "timestamp": f.timestamp_seconds(f.lit(1_772_431_200)),
            "received_at": f.timestamp_seconds(f.lit(1_772_431_201)),
            "receiver": f.lit("1"),
            "stream_offset": f.col("sequence"),
            **{name: f.col(name) for name in ("sequence", "rescued", "malformed")},
            "body": f.col("body") if is_json(kind) else self._body(schema),
        }
        assert known.keys() <= {column.name for column in SOURCE_COLUMNS}
        return frame.select(
            *(
                known.get(field.name, f.lit(None)).cast(field.dataType).alias(field.name)
                for field in schema.fields
            )
        )

    def _body(self, schema: StructType) -> Any:
        """As the source decodes it: what is no text is an error, or null."""
        if "body" not in schema.names or schema["body"].dataType.typeName() == "binary":
            return f.col("body")
        text = f.col("body").cast("string")
        if self._options.get("bodydecodeerrors", "error") == "error":
            return f.validate_utf8(text)
        return f.try_validate_utf8(text)


def _here(path: str) -> str:
    """In the folder of this process; that of the JVM is another one."""
    return str(Path(path).absolute())


class _Query:
    """A query that has ended well."""

    isActive = False  # noqa: N815 - Spark's name

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class _StreamWriter:
    """``frame.writeStream``: the batch is written when the query starts."""

    def __init__(self, frame: DataFrame, kept: Kept, real: Any) -> None:
        self._frame, self._kept, self._real = frame, kept, real
        self._path: str | None = None
        self._name: str | None = None
        self._stomp = False
        self._function: Callable[[DataFrame, int], None] | None = None

    def foreachBatch(self, function: Callable[[DataFrame, int], None]) -> _StreamWriter:  # noqa: N802
        self._function = function
        return self

    def format(self, name: str) -> _StreamWriter:
        self._stomp = name == "stomp"
        return self

    def option(self, key: str, value: Any) -> _StreamWriter:
        if key == "path":
            self._path = value
        return self

    def queryName(self, name: str) -> _StreamWriter:  # noqa: N802
        self._name = name
        return self

    def start(self, *_: str, **__: Any) -> _Query:
        self._kept.queries.add(tuple(self._frame.columns))
        try:
            self._run()
        except Exception as error:
            self._kept.failed.append(error)
            raise
        return _Query()

    def _run(self) -> None:
        if self._stomp:
            _check_sendable(self._frame)
        if self._function:
            self._function(self._frame, 0)
        else:
            self._kept.add(self._frame)
            if self._path:
                self._real.mode("append").parquet(_here(self._path))
            if self._name:
                self._frame.createOrReplaceTempView(self._name)

    toTable = start  # noqa: N815

    def __getattr__(self, name: str) -> Callable[..., _StreamWriter]:
        return lambda *_, **__: self


def _check_sendable(frame: DataFrame) -> None:
    """As the sink does: a row without a body ends the query."""
    assert not frame.where("body IS NULL").count(), "a row without a body cannot be sent"


class _Writer:
    """``frame.write``: all is kept, and written if it is for Parquet files."""

    def __init__(self, frame: DataFrame, kept: Kept, real: Any) -> None:
        self._frame, self._kept, self._real = frame, kept, real

    def save(self, *_: str, **__: Any) -> None:
        self._kept.add(self._frame)

    saveAsTable = insertInto = save  # noqa: N815

    def parquet(self, path: str) -> None:
        self.save()
        self._real.mode("append").parquet(_here(path))

    def __getattr__(self, name: str) -> Callable[..., _Writer]:
        return lambda *_, **__: self


class _Pipelines(ModuleType):
    """``pyspark.pipelines``: a dataset is a query that runs when it is declared, and a view of its rows."""

    def __init__(self, kept: Kept) -> None:
        super().__init__("pyspark.pipelines")
        self._kept = kept

    def table(self, **_: str) -> Callable[[Callable[[], DataFrame]], _Query]:
        return lambda function: self._writer(function).queryName(function.__name__).start()

    materialized_view = table

    def create_sink(self, *_: Any) -> None:
        """The only sinks are those of ``stomp``."""

    def append_flow(self, target: str) -> Callable[[Callable[[], DataFrame]], _Query]:
        return lambda function: self._writer(function).format("stomp").start()

    def _writer(self, function: Callable[[], DataFrame]) -> _StreamWriter:
        return _StreamWriter(function(), self._kept, None)


@contextmanager
def stand_in(spark: SparkSession) -> Iterator[Kept]:
    """While the block runs, queries read :data:`BODIES`, and what they keep is collected."""
    kept = Kept()
    session: Any = type(spark)
    frames: Any = ClassicDataFrame
    read, write, arrow = session.read, frames.write, frames.toArrow

    def to_arrow(frame: ClassicDataFrame) -> Any:
        kept.add(frame)
        return arrow(frame)

    pipelines = _Pipelines(kept)
    # Else it would be forgotten with what the programs import, and it cannot be imported twice.
    with suppress(ImportError):
        import_module("deltalake")
    with (
        patch.dict(sys.modules, {"pyspark.pipelines": pipelines}),
        patch.object(pyspark, "pipelines", pipelines, create=True),
        patch.object(session, "readStream", property(lambda s: _Reader(s, read.fget(s)))),
        patch.object(session, "read", property(lambda s: _Reader(s, read.fget(s)))),
        patch.object(
            ClassicDataFrame,
            "writeStream",
            property(lambda frame: _StreamWriter(frame, kept, write.fget(frame))),
        ),
        patch.object(
            ClassicDataFrame, "write", property(lambda frame: _Writer(frame, kept, write.fget(frame)))
        ),
        patch.object(ClassicDataFrame, "toArrow", to_arrow),
    ):
        yield kept


def run(programs: Iterable[str], names: dict[str, Any]) -> None:
    """Execute the programs one after the other, with these names."""
    for program in programs:
        exec(compile(program, "a program", "exec"), names)


def run_queries(program: str, names: dict[str, Any]) -> None:
    """Execute its statements one after the other.

    One may fail: it looks for what a broker and a stream would have done. ``Kept`` has what came of queries.
    """
    for statement in ast.parse(program).body:
        with suppress(Exception):
            exec(compile(ast.Module([statement], []), "a program", "exec"), names)
