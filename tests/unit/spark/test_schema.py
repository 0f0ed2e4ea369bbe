"""Spark's schemas: the projection of a user's schema, and its Arrow types."""

from __future__ import annotations

import pickle
import re

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.errors import SchemaError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.spark.schema import projection, sink_columns, source_struct

TEXT = StringType()
HEADERS = StructField("headers", MapType(TEXT, TEXT))
PAIR = StructType([StructField("name", TEXT), StructField("value", TEXT)])
STRICT_PAIR = StructType([StructField("name", TEXT, False), StructField("value", TEXT, False)])

LEAVES = (
    *(TEXT, BooleanType(), ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType()),
    *(DateType(), TimestampType(), TimestampNTZType(), DecimalType(38, 3), PAIR),
    ArrayType(MapType(TEXT, ArrayType(IntegerType()))),
)


def struct(*fields: StructField) -> StructType:
    return StructType(list(fields))


class TestSource:
    def test_default_columns_in_order(self) -> None:
        assert source_struct().simpleString() == (
            "struct<destination:string,message_id:string,stable_id:string,content_type:string,"
            "redelivered:boolean,timestamp:timestamp,received_at:timestamp,headers:map<string,string>,"
            "body:binary>"
        )

    def test_a_read_of_streams_has_the_offset_too(self) -> None:
        struct = source_struct(streams=True)
        assert [*struct] == [*source_struct(), StructField("stream_offset", LongType())]
        assert projection(struct).columns[-1] == "stream_offset"


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(source_struct(), id="default"),
        pytest.param(
            struct(
                *(StructField("sequence", LongType(), False), StructField("receiver", TEXT)),
                *(StructField("header_history", ArrayType(PAIR)), StructField("body", TEXT)),
            ),
            id="on demand, text",
        ),
        pytest.param(
            struct(
                StructField("headers", MapType(TEXT, TEXT, False)),
                StructField("header_history", ArrayType(STRICT_PAIR, False), False),
                StructField("redelivered", BooleanType(), True, {"comment": "metadata does not matter"}),
            ),
            id="nothing null inside",
        ),
        pytest.param(
            struct(
                *(StructField("rescued", BinaryType()), StructField("malformed", TEXT)),
                StructField(
                    "body", ArrayType(struct(*(StructField(str(n), one) for n, one in enumerate(LEAVES))))
                ),
            ),
            id="JSON",
        ),
    ],
)
def test_the_arrow_schema_is_exactly_sparks(schema: StructType) -> None:
    assert projection(schema).arrow_schema.equals(to_arrow_schema(schema, timezone="UTC"))


class TestProjection:
    def test_all_problems_are_reported_together(self) -> None:
        kinds = [("Bodi", BinaryType()), ("sequence", IntegerType()), ("timestamp", TimestampNTZType())]
        kinds += [("body", BinaryType())] * 2
        schema = struct(*(StructField(*one) for one in kinds), StructField("stable_id", TEXT, False))
        with pytest.raises(SchemaError) as caught:
            projection(schema)
        text = str(caught.value)
        assert text.startswith("[STOMP_SCHEMA_INVALID]")
        assert "no column `Bodi` (did you mean `body`?)" in text
        assert "column `sequence` is int; the source has it as bigint" in text
        assert (
            "column `timestamp` is timestamp_ntz; the source has it as timestamp: write timestamp_ltz" in text
        )
        assert "column `body` is named twice" in text
        assert "column `stable_id` cannot be NOT NULL" in text

    def test_names_have_no_case(self) -> None:
        """Spark wants the batches with its own names."""
        schema = struct(StructField("BODY", TEXT), StructField("Received_At", TimestampType()))
        chosen = projection(schema)
        assert chosen.columns == ("body", "received_at") and chosen.body == pa.string()
        assert chosen.arrow_schema.equals(to_arrow_schema(schema, timezone="UTC"))
        frame = b"MESSAGE\nmessage-id:1\n\nx\0"
        rows = decode_frames(
            FrameBatch(frame, [len(frame)], 0, 7, "1.2", "generic"), chosen, RowRules(None, "ms")
        )
        assert rows.to_pydict()["BODY"] == ["x"] and rows.schema == chosen.arrow_schema
        with pytest.raises(SchemaError, match="column `body` is named twice"):
            projection(struct(StructField("body", TEXT), StructField("Body", TEXT)))

    def test_unknown_name_lists_the_columns(self) -> None:
        with pytest.raises(SchemaError, match=r"no column `zzz`; it has destination, .*, stream_offset$"):
            projection(struct(StructField("zzz", TEXT)))

    def test_empty_schema_is_refused(self) -> None:
        with pytest.raises(SchemaError, match="the schema is empty"):
            projection(struct())

    def test_a_body_of_fields_needs_the_column_of_what_does_not_fit(self) -> None:
        body = StructField("body", struct(StructField("a", IntegerType())))
        with pytest.raises(
            SchemaError, match=r"needs the column `rescued binary`.*body struct<a:int>, rescued"
        ):
            projection(struct(body, StructField("malformed", TEXT)))

    @pytest.mark.parametrize(
        ("kind", "problem"),
        [
            (
                struct(StructField("a", BinaryType())),
                "`body.a` is binary, which no value of JSON has exactly: use ",
            ),
            (struct(StructField("a", struct(StructField("b", NullType())))), "`body.a.b` is void, which"),
            (struct(StructField("a", MapType(LongType(), TEXT))), "`body.a` is map<bigint,string>, which"),
            (struct(StructField("a", VarcharType(3))), "`body.a` is varchar(3), which"),
            (struct(StructField("a", TEXT, False)), "`body.a` cannot be NOT NULL: a body may lack it"),
            (
                ArrayType(struct(StructField("a", ArrayType(STRICT_PAIR)))),
                "`body[].a[].name` cannot be NOT NULL",
            ),
            (struct(StructField("a", TEXT), StructField("a", LongType())), "`body.a` is named twice"),
            (struct(), "`body` has no fields"),
            (ArrayType(LongType()), "column `body` is array<bigint>; the source has it as binary or string"),
            (
                MapType(TEXT, TEXT),
                "column `body` is map<string,string>; the source has it as binary or string",
            ),
        ],
    )
    def test_a_body_of_fields_that_json_does_not_have(self, kind: DataType, problem: str) -> None:
        with pytest.raises(SchemaError, match=re.escape(problem)):
            projection(struct(StructField("body", kind), StructField("rescued", BinaryType())))

    def test_all_problems_of_a_body_are_reported_together(self) -> None:
        inside = struct(StructField("a", ArrayType(LongType(), False), False), StructField("b", struct()))
        with pytest.raises(SchemaError) as caught:
            projection(struct(StructField("body", inside), StructField("rescued", BinaryType())))
        for problem in ("`body.a` cannot be", "`body.a[]` cannot be", "`body.b` has no fields"):
            assert problem in str(caught.value)

    def test_what_is_never_null_may_be_not_null(self) -> None:
        schema = struct(StructField("received_at", TimestampType(), False))
        assert not projection(schema).arrow_schema.field(0).nullable


class TestSink:
    def test_all_columns_in_the_frames_order(self) -> None:
        rest = (StructField("content_type", TEXT), StructField("destination", TEXT, False))
        chosen = sink_columns(struct(HEADERS, StructField("body", TEXT, False), *rest))
        assert chosen.columns == ("headers", "body", "content_type", "destination")
        assert chosen.body_as_string
        assert pickle.loads(pickle.dumps(chosen)) == chosen

    def test_names_have_no_case(self) -> None:
        chosen = sink_columns(struct(StructField("Destination", TEXT), StructField("BODY", TEXT)))
        assert chosen.columns == ("destination", "body") and chosen.body_as_string

    def test_problems_are_reported_together(self) -> None:
        schema = struct(StructField("value", TEXT), StructField("headers", MapType(TEXT, LongType())))
        with pytest.raises(SchemaError) as caught:
            sink_columns(schema)
        text = str(caught.value)
        assert "the sink has no column `value`; it has body, destination, content_type, headers" in text
        assert "column `headers` is map<string,bigint>; the sink has it as map<string,string>" in text
        assert "the sink needs a column `body`" in text

    def test_columns_that_options_name(self) -> None:
        kinds = {"a": IntegerType(), "b": DecimalType(9, 2), "c": TimestampType(), "body": TEXT}
        kinds["d"] = TimestampNTZType()
        schema = struct(*(StructField(name, kind) for name, kind in kinds.items()))
        chosen = sink_columns(schema, headers=("b", "c", "d"), keys=("a", "body"))
        types = {
            "a": pa.int32(),
            "b": pa.decimal128(9, 2),
            "c": pa.timestamp("us", tz="UTC"),
            "body": pa.string(),
            "d": pa.timestamp("us"),
        }
        assert chosen.arrow_schema == pa.schema(types)
        assert pickle.loads(pickle.dumps(chosen)) == chosen

    @pytest.mark.parametrize(
        ("headers", "keys", "problem"),
        [
            (("x",), (), "headerColumns names `x`, which is no column"),
            ((), ("x",), "dedupKey names `x`, which is no column"),
            (("body",), (), "headerColumns names `body`, a column of the sink's own"),
            ((), ("headers",), "dedupKey names `headers`, and a map has no order"),
            (("m",), (), "column `m` is map<string,string>, which cannot be text"),
            (("l",), (), "column `l` is array<int>, which cannot be text"),
        ],
    )
    def test_columns_that_options_name_wrongly(
        self, headers: tuple[str, ...], keys: tuple[str, ...], problem: str
    ) -> None:
        rest = (StructField("m", MapType(TEXT, TEXT)), StructField("l", ArrayType(IntegerType())))
        schema = struct(StructField("body", TEXT), HEADERS, *rest)
        with pytest.raises(SchemaError, match=re.escape(problem)):
            sink_columns(schema, headers, keys)
