"""``rescue_json``: what a body says is in the typed columns exactly, or the whole body is in ``_rescued``."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from math import inf, isnan
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_stomp import rescue_json
from spark_stomp.errors import SchemaError

pytestmark = [pytest.mark.spark, pytest.mark.core]

RESCUED = object()
NO_JSON = "no JSON document, or more than one, or a field is there twice"


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


def values(spark: SparkSession, kind: str, texts: Sequence[str]) -> list[object]:
    """What becomes of ``{"a": TEXT}`` for a column of this type."""
    rows = rescued(spark, f"a {kind}", [f'{{"a":{text}}}' for text in texts])
    assert all(row["_rescued_reason"] is None or row["a"] is None for row in rows)
    return [row["a"] if row["_rescued_reason"] is None else RESCUED for row in rows]


# Bodies for `a BIGINT`, and the reason; None: it fits.
BODIES: dict[str, str | None] = {
    '{"a":1}': None,
    ' {"a" :\n 1}\t': None,
    '{"a":null}': None,
    "{}": None,
    "": "the body is empty",
    " \r\n": "the body is empty",
    "not json": NO_JSON,
    '{"a":1': NO_JSON,
    '{"a":1,}': NO_JSON,
    '{"a":01}': NO_JSON,
    "{'a':1}": NO_JSON,
    '{"a":1 /* one */}': NO_JSON,
    '{"a":1} {"a":2}': NO_JSON,
    '{"a":1}\n{"a":2}': NO_JSON,
    '{"a":1} x': NO_JSON,
    '{"a":1}]': NO_JSON,
    '{"a":1}}': NO_JSON,
    '{"a":1},2': NO_JSON,
    '{"a":1}],[': NO_JSON,
    '{"a":1,"a":2}': NO_JSON,
    '{"a":1,"a":1}': NO_JSON,
    '\ufeff{"a":1}': NO_JSON,
    '{"a":1}\0': NO_JSON,
    "null": "the body is null",
    "7": "the body is bigint that does not fit struct<a:bigint>",
    '"text"': "the body is string that does not fit struct<a:bigint>",
    "[]": "the body is array that does not fit struct<a:bigint>",
    '[{"a":1}]': "the body is array that does not fit struct<a:bigint>",
    '{"a":1,"b":2}': "the body has other fields, b",
    '{"A":1}': "the body has other fields, A",
    '{"a":"1"}': "a is string that does not fit bigint",
    '{"a":9223372036854775808}': "a is decimal that does not fit bigint",
}


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_body_is_in_the_columns_or_rescued_whole(spark: SparkSession, kind: str) -> None:
    bodies = [body if kind == "string" else body.encode() for body in BODIES]
    rows = rescued(spark, "a BIGINT", bodies, kind)
    assert dict(zip(BODIES, (row["_rescued_reason"] for row in rows), strict=True)) == BODIES
    filled = {body for body, row in zip(BODIES, rows, strict=True) if row["a"] == 1}
    assert filled == {'{"a":1}', ' {"a" :\n 1}\t', '{"a":1,"b":2}'}
    assert all(row["a"] in (None, 1) for row in rows)


def test_octets(spark: SparkSession) -> None:
    bodies = [b'{"a":1}', b'{"a":"\xff"}', '{"a":1}'.encode("utf-16"), b"\x1f\x8b\x08\0", None]
    rows = rescued(spark, "a BIGINT", bodies, "binary")
    assert [row["_rescued_reason"] for row in rows] == [
        None,
        "the body is not UTF-8",
        "the body is not UTF-8",
        "the body is not UTF-8",
        "there is no body",
    ]


def test_large_bodies(spark: SparkSession) -> None:
    """Beyond a limit of a parser a body is rescued."""
    fits, many, long = "x" * 1_000_000, f"[{'[],' * 250}[]]", "1" * 2_000
    bodies = [f'{{"a":"{fits}"}}', f'{{"a":{many}}}', f'{{"a":{long}}}', f'{{"{"n" * 60_000}":1}}']
    rows = rescued(spark, "a STRING", bodies)
    assert [row["a"] for row in rows] == [fits, None, None, None]
    reasons = [row["_rescued_reason"] for row in rows]
    assert [None if one is None else one[:30] for one in reasons] == [
        None,
        "it has more than 250 lists and",
        NO_JSON[:30],
        NO_JSON[:30],
    ]


NUMBERS = ["1", "2.50", "-0.1", "1e2", "1e400", "1e-400", "0.1234567890123456789", "9007199254740993"]
MORE = [
    "12345678.5",
    "1764230400.123456",
    "1.2345678901234566e-09",
    "1.23456789012345670001e-9",
    '"1"',
    "true",
]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INT", [1, *[RESCUED] * 13]),
        ("BIGINT", [1, *[RESCUED] * 6, 9007199254740993, *[RESCUED] * 6]),
        (
            "DOUBLE",
            [1.0, 2.5, -0.1, 100.0, *[RESCUED] * 4, 12345678.5, 1764230400.123456, 1.2345678901234566e-9],
        ),
        (
            "DECIMAL(10,1)",
            [Decimal(1), Decimal("2.5"), Decimal("-0.1"), *[RESCUED] * 5, Decimal("12345678.5")],
        ),
    ],
)
def test_numbers_are_exact_or_rescued(spark: SparkSession, kind: str, expected: list[object]) -> None:
    expected = expected + [RESCUED] * (len(NUMBERS + MORE) - len(expected))
    assert values(spark, kind, NUMBERS + MORE) == expected


def test_a_float(spark: SparkSession) -> None:
    texts = ["2.5", "0.1", "12345678.5", "1e5", "1.5e300"]
    assert values(spark, "FLOAT", texts) == [2.5, pytest.approx(0.1), RESCUED, 100000.0, RESCUED]


def test_what_is_no_number(spark: SparkSession) -> None:
    nan, infinite, *others = values(
        spark, "DOUBLE", ['"NaN"', '"-Infinity"', "NaN", '"Inf"', '"1"', "{}", "[]"]
    )
    assert isinstance(nan, float)
    assert isnan(nan)
    assert infinite == -inf
    assert others == [RESCUED] * 5


def test_texts_and_booleans(spark: SparkSession) -> None:
    texts = ['"1"', r'"\u00e9 \n \/ \u0000"', r'"\ud800"', "1", "true", "{}", "null", '""']
    assert values(spark, "STRING", texts) == ["1", "é \n / \0", *[RESCUED] * 4, None, ""]
    halves = [r'"\ud800"', r'"\uDC00 \ud800"', r'"\ud83d\ude00\ude00"', r'"\\\ud800"', r'"\ud800\\udc00"']
    assert values(spark, "STRING", halves) == [RESCUED] * 5
    whole = [r'"\ud83d\ude00\uD83D\uDE00"', r'"\\ud800"', r'"\\\ud83d\ude00"']
    assert values(spark, "STRING", whole) == ["\U0001f600" * 2, r"\ud800", "\\\U0001f600"]
    assert values(spark, "BOOLEAN", ["true", "false", '"true"', "1"]) == [True, False, RESCUED, RESCUED]


def test_times(spark: SparkSession) -> None:
    """A time without a zone is none of a TIMESTAMP: which one it is would be the session's guess."""
    texts = [f'"{text}"' for text in ("2026-11-27T12:00:00.123456+01:00", "2026-11-27T12:00:00.123456")]
    texts += ['"2026-11-27"', '"2026-11-27T12:00:00.1234567Z"', '"2026-02-30"', '"2026-1-1"', "5"]
    when = datetime(2026, 11, 27, 12, 0, 0, 123456)
    moments = values(spark, "TIMESTAMP", texts)
    assert [one is RESCUED for one in moments] == [False, *[True] * 6]
    (moment,) = (
        rescue_json(messages(spark, [f'{{"a":{texts[0]}}}']), "a TIMESTAMP")
        .selectExpr("unix_micros(a)")
        .first()
    )
    assert moment == (when.replace(tzinfo=timezone.utc).timestamp() - 3600) * 1_000_000
    assert values(spark, "TIMESTAMP_NTZ", texts) == [RESCUED, when, *[RESCUED] * 5]
    assert values(spark, "DATE", texts) == [RESCUED, RESCUED, date(2026, 11, 27), *[RESCUED] * 4]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("DATE", "2026-11-27"),
        ("TIMESTAMP", "2026-11-27T12:00:00.000Z"),
        ("TIMESTAMP_NTZ", "2026-11-27T12:00:00.000"),
    ],
)
def test_a_time_with_a_space_more_is_rescued(spark: SparkSession, kind: str, text: str) -> None:
    """Spark reads it without the space, or the end of the line."""
    texts = [f'"{text}"', f'" {text}"', f'"{text} "', f'"{text[:-1]} {text[-1]}"', f'"{text}\\n"']
    assert [one is RESCUED for one in values(spark, kind, texts)] == [False, True, True, True, True]


def test_what_is_inside(spark: SparkSession) -> None:
    schema = "`x.y` STRING, s STRUCT<n: INT, l: ARRAY<DECIMAL(4,1)>>, m MAP<STRING, INT>"
    fits = {
        '{"x.y":"z","s":{"n":1,"l":[1,2.5,null]},"m":{"b":1,"c":null}}': (
            "z",
            {"n": 1, "l": [Decimal("1.0"), Decimal("2.5"), None]},
            {"b": 1, "c": None},
        ),
        '{"m":{},"s":{}}': (None, {"n": None, "l": None}, {}),
        '{"s":null}': (None, None, None),
    }
    others = {
        '{"s":{"n":1,"l":[1.25]}}': "s.l[] is decimal that does not fit decimal(4,1)",
        '{"s":{"n":1,"o":2}}': "s has other fields, o",
        '{"s":{"n":1,"n":2}}': NO_JSON,
        '{"s":[1]}': "s is array that does not fit struct<n:int,l:array<decimal(4,1)>>",
        '{"s":{"l":{}}}': "s.l is object that does not fit array<decimal(4,1)>",
        '{"m":{"b":1,"b":2}}': NO_JSON,
        '{"m":{"b":"x"}}': "m[] is string that does not fit int",
        '{"m":[]}': "m is array that does not fit map<string,int>",
    }
    rows = rescued(spark, schema, [*fits, *others])
    assert [(row["x.y"], row["s"], row["m"]) for row in rows[: len(fits)]] == list(fits.values())
    assert [row["_rescued_reason"] for row in rows] == [None] * len(fits) + list(others.values())


def test_a_variant_has_any_value(spark: SparkSession) -> None:
    bodies = ['{"a":{"b":[1,"x"]}}', '{"a":1.5e3}', '{"a":1e400}']
    rows = rescue_json(messages(spark, bodies), "a VARIANT").orderBy("message_id")
    found = [tuple(row) for row in rows.selectExpr("to_json(a)", "_rescued").collect()]
    assert found == [('{"b":[1,"x"]}', None), ("1500.0", None), (None, bodies[2])]


def test_other_fields_in_a_column_of_their_own(spark: SparkSession) -> None:
    bodies = [
        '{"a":1,"b":2.50,"c":{"d":[1]}}',
        '{"a":1}',
        '{"a":"x","b":1}',
        '{"a":1,"b":1.00000000000000000001e9}',
    ]
    rows = rescued(spark, "a BIGINT", bodies, others="more")
    assert [row["more"] for row in rows] == ['{"b":2.5,"c":{"d":[1]}}', None, None, None]
    assert [row["_rescued_reason"] is None for row in rows] == [True, True, False, False]


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
        "a is string that does not fit int",
        "below 0 in 3",
        NO_JSON,
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


@pytest.mark.parametrize(
    "schema", ["a BINARY", "a VARCHAR(3)", "ARRAY<INT>", "a MAP<INT, INT>", "a STRUCT<b: INTERVAL DAY>"]
)
def test_a_type_that_json_does_not_have_is_refused(spark: SparkSession, schema: str) -> None:
    with pytest.raises(SchemaError, match=r"rescue_json"):
        rescue_json(messages(spark, ["{}"]), schema)


def test_no_python_runs_for_a_row(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    frame = rescue_json(messages(spark, ["{}"]), "a BIGINT, b ARRAY<STRUCT<c: DOUBLE>>")
    frame.explain()
    plan = capsys.readouterr().out
    assert "from_json" in plan
    assert not {"BatchEvalPython", "ArrowEvalPython", "MapInPandas", "MapInArrow"} & set(plan.split())


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
