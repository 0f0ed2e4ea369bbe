"""``rescue_json``: what a body says is in the typed columns exactly, or the whole body is in ``_rescued``.

The decoder is the source's: unit/arrow/test_json_rows.py has what fits each type.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.spark import classic_only

from spark_stomp import rescue_json
from spark_stomp.errors import SchemaError

pytestmark = [pytest.mark.spark, pytest.mark.core]


def messages(spark: SparkSession, bodies: Sequence[object], kind: str = "string") -> DataFrame:
    return spark.createDataFrame(list(enumerate(bodies)), f"message_id int, body {kind}").coalesce(1)


def rescued(
    spark: SparkSession, schema: str, bodies: Sequence[object], kind: str = "string", **options: Any
) -> list[dict[str, Any]]:
    """The rows in the order of the bodies; each rescued body is checked to be whole, and to have a reason."""
    rows = rescue_json(messages(spark, bodies, kind), schema, **options).collect()
    found = [row.asDict(recursive=True) for row in sorted(rows, key=lambda row: row.message_id)]
    for row in found:
        body = bodies[row.pop("message_id")]
        assert row["_rescued"] == (None if row["_rescued_reason"] is None else body)
    return found


# Bodies for `a BIGINT`, and the reason; None: it fits.
BODIES: dict[str, str | None] = {
    '{"a":1}': None,
    ' {"a" :\n 1}\t': None,
    "{}": None,
    "": "the body is empty",
    "not json": "no JSON document",
    '{"a":1} {"a":2}': "more than one document",
    '{"a":1,"a":1}': "a field twice: a",
    "null": "the body is null",
    '[{"a":1}]': "the body is a list, fields were expected",
    '{"a":1,"b":2}': "the body has other fields, b",
    '{"a":"1"}': "a is a string that does not fit bigint",
}


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_body_is_in_the_columns_or_rescued_whole(spark: SparkSession, kind: str) -> None:
    bodies = [body if kind == "string" else body.encode() for body in BODIES]
    rows = rescued(spark, "a BIGINT", bodies, kind)
    assert dict(zip(BODIES, (row["_rescued_reason"] for row in rows), strict=True)) == BODIES
    filled = {body for body, row in zip(BODIES, rows, strict=True) if row["a"] == 1}
    assert filled == {'{"a":1}', ' {"a" :\n 1}\t', '{"a":1,"b":2}'}
    assert all(row["a"] in (None, 1) for row in rows)


def test_octets_and_no_body(spark: SparkSession) -> None:
    rows = rescued(spark, "a BIGINT", [b'{"a":1}', b'{"a":"\xff"}', None], "binary")
    assert [row["_rescued_reason"] for row in rows] == [None, "the body is not UTF-8", "there is no body"]


def test_a_text_that_is_not_utf8(spark: SparkSession) -> None:
    frame = messages(spark, [b'{"a":"\xff"}'], "binary").selectExpr("CAST(body AS STRING) AS body")
    (row,) = (
        rescue_json(frame, "a STRING")
        .selectExpr("a", "CAST(_rescued AS BINARY)", "_rescued_reason")
        .collect()
    )
    assert tuple(row) == (None, b'{"a":"\xff"}', "the body is not UTF-8")


def test_a_column_that_is_neither_is_refused(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="cast it to string"):
        rescue_json(messages(spark, [1], "int"), "a INT").collect()


@pytest.mark.parametrize(
    "schema",
    [
        "body STRUCT<a: BIGINT>",
        "Body ARRAY<STRUCT<a: BIGINT>>",
        "message_id STRING, body STRUCT<a: BIGINT>, rescued BINARY, malformed STRING",
        "body STRUCT<a: BIGINT>, RESCUED BINARY",
    ],
)
def test_the_schema_of_a_source_is_refused(spark: SparkSession, schema: str) -> None:
    with pytest.raises(SchemaError, match="is the schema of a source: give only the type of `body`"):
        rescue_json(messages(spark, []), schema)


def test_documents_with_a_field_body(spark: SparkSession) -> None:
    (row,) = rescued(spark, "body STRUCT<a: BIGINT>, malformed STRING", ['{"body":{"a":1},"malformed":"x"}'])
    assert row["_rescued_reason"] is None and row["body"] == {"a": 1}


FULL = (
    '{"s":"x","b":true,"y":-1,"h":2,"i":3,"l":4,"f":0.5,"d":2.5,"n":12.30,"day":"2026-11-29",'
    '"at":"2026-11-29T12:00:00+01:00","local":"2026-11-29T12:00:00","x.y":{"m":{"k":[1,null]}}}'
)
TYPES = (
    "s STRING, b BOOLEAN, y TINYINT, h SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10,2), "
    "day DATE, at TIMESTAMP_LTZ, local TIMESTAMP_NTZ, `x.y` STRUCT<m: MAP<STRING, ARRAY<INT>>>"
)


def test_each_type_comes_through_arrow(spark: SparkSession) -> None:
    """Whatever the session's zone is; one body takes the decoder's exact path, a hundred its fast one."""
    frame = rescue_json(messages(spark, [FULL] * 100), TYPES).drop("message_id")
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = frame.withColumn("at", frame["at"].cast("string")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    expected = {
        "s": "x",
        "b": True,
        "y": -1,
        "h": 2,
        "i": 3,
        "l": 4,
        "f": 0.5,
        "d": 2.5,
        "n": Decimal("12.30"),
    }
    expected |= {"day": date(2026, 11, 29), "at": "2026-11-29 06:00:00", "local": datetime(2026, 11, 29, 12)}
    expected |= {"x.y": {"m": {"k": [1, None]}}, "_rescued": None, "_rescued_reason": None}
    assert all(row.asDict(recursive=True) == expected for row in rows)


def test_a_variant_has_any_value(spark: SparkSession) -> None:
    bodies = ['{"a":{"b":[1,"x"]}}', '{"a":1.5e3}', '{"a":1e400}', '{"l":[7,null,true]}']
    rows = rescue_json(messages(spark, bodies), "a VARIANT, l ARRAY<VARIANT>").orderBy("message_id")
    found = [tuple(row) for row in rows.selectExpr("to_json(a)", "to_json(l)", "_rescued").collect()]
    assert found == [
        ('{"b":[1,"x"]}', None, None),
        ("1500.0", None, None),
        (None, None, bodies[2]),
        (None, "[7,null,true]", None),
    ]


def test_other_fields_in_a_column_of_their_own(spark: SparkSession) -> None:
    bodies = ['{"a":1,"b":2.50,"c":{"d":[1]}}', '{"a":1}', '{"a":"x","b":1}']
    rows = rescued(spark, "a BIGINT", bodies, others="more")
    assert [row["more"] for row in rows] == ['{"b":2.50,"c":{"d":[1]}}', None, None]
    assert [row["_rescued_reason"] is None for row in rows] == [True, True, False]


def test_the_elements_of_a_list_are_rows(spark: SparkSession) -> None:
    schema = "ARRAY<STRUCT<header: STRUCT<t: STRING>, body: STRUCT<n: INT>>>"
    bodies = [
        '[{"header":{"t":"a"},"body":{"n":1}}, {"body":{"n":2}}]',
        '[{"header":{"t":"b"},"body":{"n":3}},',
        '[{"header":{"t":"c"}},{"headers":{}}]',
        '{"header":{"t":"d"}}',
        "[]",
        "[7]",
        "[null]",
        '[{"header":{"t":"e"},"body":{"n":4}},null]',
        '[{"header":{"t":"e"},"body":{"n":4}}, null ]',
    ]
    rows = rescue_json(messages(spark, bodies), schema).orderBy("message_id", "body.n").collect()
    assert [(row.message_id, row.body and row.body.n, row._rescued) for row in rows] == [
        (0, 1, None),
        (0, 2, None),
        *((number, None, bodies[number]) for number in range(1, len(bodies))),
    ]


def test_a_reason_of_ones_own_rescues_the_whole_body(spark: SparkSession) -> None:
    """What does not fit has its reason whatever that says."""
    bodies = ['{"a":1}', '{"a":-1}', '{"a":"x"}', '{"a":-2,"b":1}', "bad"]
    reason = "IF(a < 0, concat('below 0 in ', message_id), NULL)"
    rows = rescued(spark, "a INT", bodies, reason=reason)
    assert [row["_rescued_reason"] for row in rows] == [
        None,
        "below 0 in 1",
        "a is a string that does not fit int",
        "below 0 in 3",
        "no JSON document",
    ]
    assert [row["a"] for row in rows] == [1, -1, None, -2, None]


def test_a_reason_is_computed_once(spark: SparkSession) -> None:
    """Else a row could have a reason and no body."""
    rows = rescued(spark, "a INT", ['{"a":1}'] * 200, reason="IF(rand() < 0.5, 'bad', NULL)")
    assert 0 < sum(row["_rescued_reason"] is None for row in rows) < 200


def test_a_reason_for_an_element_of_a_list(spark: SparkSession) -> None:
    body = '[{"a":1},{"a":-1}]'
    frame = rescue_json(messages(spark, [body]), "ARRAY<STRUCT<a: INT>>", reason="IF(a < 0, 'below 0', NULL)")
    assert [tuple(row) for row in frame.orderBy("a").collect()] == [
        (0, -1, body, "below 0"),
        (0, 1, None, None),
    ]


def test_the_names_of_columns(spark: SparkSession) -> None:
    frame = messages(spark, ['{"body":1}']).selectExpr("message_id", "body AS `text`")
    assert rescue_json(frame, "body INT", body="text").columns == [
        "message_id",
        "body",
        "_rescued",
        "_rescued_reason",
    ]


@classic_only("Spark Connect knows the names later")
@pytest.mark.parametrize(
    ("schema", "others"),
    [("Message_ID INT", None), ("a INT, A INT", None), ("_rescued INT", None), ("a INT", "MESSAGE_ID")],
)
def test_a_name_that_is_there_already_is_refused(
    spark: SparkSession, schema: str, others: str | None
) -> None:
    with pytest.raises(SchemaError, match=r"two columns of the result would have one name: "):
        rescue_json(messages(spark, ["{}"]), schema, others=others)


@pytest.mark.parametrize(
    "schema",
    ["a BINARY", "a VARCHAR(3)", "ARRAY<INT>", "a MAP<INT, INT>", "a STRUCT<b: INTERVAL DAY>", "INT"],
)
def test_a_type_that_json_does_not_have_is_refused(spark: SparkSession, schema: str) -> None:
    with pytest.raises(SchemaError, match=r"rescue_json"):
        rescue_json(messages(spark, ["{}"]), schema)


def test_a_body_is_decoded_once(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Also before a filter, which Spark would like to compute first."""
    frame = rescue_json(messages(spark, ["{}"]), "a BIGINT, b STRING", reason="IF(a < 0, 'below 0', NULL)")
    frame.where("_rescued_reason IS NULL").where("a > 1").selectExpr("a", "a + 1", "upper(b)").explain()
    plan = capsys.readouterr().out
    assert sum(plan.count(node) for node in ("ArrowEvalPython", "MapInArrow")) == 1


class TestAnyDocument:
    """Random documents: what is not rescued says what the row says, value by value."""

    SCHEMA = (
        "a BIGINT, b STRING, c DOUBLE, d STRUCT<e: ARRAY<DECIMAL(6,2)>, f: BOOLEAN>, g ARRAY<STRUCT<h: INT>>"
    )

    def value(self, chance: random.Random, depth: int = 0) -> str:
        plain = [
            "null",
            "true",
            "0",
            "-7",
            "12",
            "2.5",
            "1.25",
            "3.00",
            "1e3",
            "0.1234567890123456789",
            '"x y"',
            '""',
        ]
        plain += ["9223372036854775808", "1E-400", '"\\u00e9"', "1.005", "123456.75", "12345678.5"]
        if depth > 2 or chance.random() < 0.6:
            return chance.choice(plain)
        if chance.random() < 0.5:
            return "[" + ", ".join(self.value(chance, depth + 1) for _ in range(chance.randrange(3))) + "]"
        return self.document(chance, "abcdefghi", depth + 1)

    def document(self, chance: random.Random, names: str, depth: int = 0) -> str:
        likely = {
            "a": "12",
            "b": '"x y"',
            "c": "2.5",
            "d": '{"e":[1, 2.50], "f":true}',
            "g": '[{"h":1},{}]',
            "e": "[1.25]",
        }
        chosen = [chance.choice(names) for _ in range(chance.randrange(5))]
        fields = (
            (name, likely[name] if name in likely and chance.random() < 0.7 else self.value(chance, depth))
            for name in chosen
        )
        return "{" + chance.choice([",", ", "]).join(f'"{name}": {text}' for name, text in fields) + "}"

    def test_is_exact_or_rescued(self, spark: SparkSession) -> None:
        chance = random.Random(4)
        bodies = [self.document(chance, "abcdg" if chance.random() < 0.9 else "abcdgx") for _ in range(3_000)]
        rows = rescued(spark, self.SCHEMA, bodies)
        kept = 0
        for body, row in zip(bodies, rows, strict=True):
            row.pop("_rescued")
            if row.pop("_rescued_reason") is None:
                kept += 1
                pairs = json.loads(body, object_pairs_hook=lambda found: found, parse_float=Decimal)
                assert len(pairs) == len(dict(pairs)), body
                assert without_nulls(row) == without_nulls(json.loads(body, parse_float=Decimal)), body
        assert 300 < kept < 2_000


def without_nulls(value: object) -> object:
    """As said by either: fields that are null left out, numbers as decimals by their digits."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return Decimal(str(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
