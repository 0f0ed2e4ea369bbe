"""JSON bodies as typed rows: what a body says is in the row exactly, or the row has a reason."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from math import copysign, inf, isnan
from typing import Any

import pyarrow as pa
import pytest

from spark_stomp.arrow.columns import strings
from spark_stomp.arrow.json_layouts import read_json_layouts
from spark_stomp.arrow.json_rows import JsonRows, json_rows
from spark_stomp.errors import SchemaError

RESCUED = object()
NO_JSON = "no JSON document"
TWENTY = "bcdefghijklmnopqrstu"
BIGINT, DOUBLE, STRING, INT = pa.int64(), pa.float64(), pa.string(), pa.int32()
MOMENT, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
UTC = timezone.utc
A: Sequence[tuple[str, pa.DataType]] = [("a", BIGINT)]


def decoded(kind: pa.DataType, bodies: Sequence[str | bytes | None]) -> list[tuple[Any, str | None]]:
    """The value and the reason of each body, which are the same alone and beside all others."""
    rows = json_rows(strings(bodies, pa.binary()), kind)
    assert rows.values.type == kind
    rows.values.validate(full=True)
    values = rows.values.to_pylist()
    return [(value, rows.reasons.get(row)) for row, value in enumerate(values)]


def read(kind: pa.DataType, texts: Sequence[str]) -> list[Any]:
    """What becomes of ``{"a": TEXT}``."""
    found = decoded(pa.struct([("a", kind)]), [f'{{"a":{text}}}' for text in texts])
    assert all(reason is None or value["a"] is None for value, reason in found if value is not None)
    return [value["a"] if reason is None else RESCUED for value, reason in found]


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
    '{"a":+1}': NO_JSON,
    '{"a":.5}': NO_JSON,
    '{"a":1.}': NO_JSON,
    '{"a":-}': NO_JSON,
    '{"a":\u0661}': NO_JSON,
    "{'a':1}": NO_JSON,
    '{"a":1 /* one */}': NO_JSON,
    '{"a":NaN}': "NaN is no number of JSON",
    '{"a":-Infinity}': "-Infinity is no number of JSON",
    '{"a":True}': NO_JSON,
    '{"a":"\t"}': NO_JSON,
    '{"a":"\\x41"}': NO_JSON,
    '{"a":"\\u12"}': NO_JSON,
    '{"a":"\\u 123"}': NO_JSON,
    '\u00a0{"a":1}': NO_JSON,
    '\x0b{"a":1}': NO_JSON,
    '{\u2028"a":1}': NO_JSON,
    '\ufeff{"a":1}': "the body begins with a byte order mark",
    '{"a":1} {"a":2}': "more than one document",
    '{"a":1}\n{"a":2}': "more than one document",
    '{"a":1}{"a":2}': "more than one document",
    '{"a":1} x': "there is text behind the JSON document",
    '{"a":1}]': "there is text behind the JSON document",
    '{"a":1}}': "there is text behind the JSON document",
    '{"a":1},2': "there is text behind the JSON document",
    '{"a":1}\0': "there is text behind the JSON document",
    '{"a":1,"a":2}': "a field twice: a",
    '{"a":1,"\\u0061":1}': "a field twice: a",
    '{"b":{"c":1,"d":1,"c":1}}': "a field twice: b.c",
    '{"a":1,"b\\n":2,"b\\n":2}': "a field twice: b\\n",
    "null": "the body is null",
    "7": "the body is a whole number, fields were expected",
    "0": "the body is a whole number, fields were expected",
    "false": "the body is a boolean, fields were expected",
    '""': "the body is a string, fields were expected",
    "[]": "the body is a list, fields were expected",
    '[{"a":1}]': "the body is a list, fields were expected",
    '{"a":1,"b":2}': "the body has other fields, b",
    '{"A":1}': "the body has other fields, A",
    '{"":1,"b":2}': "the body has other fields, , b",
    json.dumps(dict.fromkeys(TWENTY)): f"the body has other fields, {', '.join(TWENTY)}",
    json.dumps(dict.fromkeys(f"{TWENTY}vw")): f"the body has other fields, {', '.join(TWENTY)} and 2 more",
    '{"a":"1"}': "a is a string that does not fit bigint",
    '{"a":true}': "a is a boolean that does not fit bigint",
    '{"a":{}}': "a is an object that does not fit bigint",
    '{"a":1.0}': "a is a decimal number that does not fit bigint",
    '{"a":9223372036854775808}': "a is a whole number that does not fit bigint",
    '{"a":"\\ud800"}': "the body has half of a surrogate pair",
    '{"\\uDC00":1}': "the body has half of a surrogate pair",
}


@pytest.mark.rule("7.14")
@pytest.mark.parametrize("space", ["", " "])
def test_a_body_is_in_the_row_or_has_a_reason(space: str) -> None:
    found = decoded(pa.struct(A), [body + space for body in BODIES])
    assert dict(zip(BODIES, (reason for _, reason in found), strict=True)) == BODIES
    filled = {body for body, (value, _) in zip(BODIES, found, strict=True) if value == {"a": 1}}
    assert filled == {'{"a":1}', ' {"a" :\n 1}\t', '{"a":1,"b":2}'}
    assert all(value in (None, {"a": None}, {"a": 1}) for value, _ in found)


def test_octets() -> None:
    bodies = [b'{"a":1}', b'{"a":"\xff"}', '{"a":1}'.encode("utf-16"), b'{"a":"\xed\xa0\x80"}', None]
    assert [reason for _, reason in decoded(pa.struct(A), bodies)] == [
        None,
        *["the body is not UTF-8"] * 3,
        "there is no body",
    ]


def test_no_bodies() -> None:
    assert decoded(pa.struct(A), []) == []
    assert decoded(pa.list_(pa.struct(A)), []) == []


NUMBERS = [
    *("1", "2.50", "-0.1", "1e2", "1e400", "1e-400", "0.1234567890123456789", "9007199254740993"),
    *("12345678.5", "1764230400.123456", "1.2345678901234566e-09", "1.23456789012345670001e-9"),
    *('"1"', "true", "[]", "5E-324", "-0", "0.000", "1.50000000000000000000000000000000000000000"),
]


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (pa.int8(), {"1": 1, "-0": 0}),
        (INT, {"1": 1, "-0": 0}),
        (BIGINT, {"1": 1, "9007199254740993": 9007199254740993, "-0": 0}),
        (
            DOUBLE,
            {
                **{text: float(text) for text in NUMBERS[:4]},
                **{
                    text: float(text)
                    for text in ("12345678.5", "1764230400.123456", "1.2345678901234566e-09")
                },
                **{text: float(text) for text in NUMBERS[-4:]},
            },
        ),
        (
            pa.decimal128(10, 1),
            {
                "1": Decimal(1),
                "2.50": Decimal("2.5"),
                "-0.1": Decimal("-0.1"),
                "-0": Decimal(0),
                "12345678.5": Decimal("12345678.5"),
                "0.000": Decimal(0),
                NUMBERS[-1]: Decimal("1.5"),
            },
        ),
    ],
)
def test_numbers_are_exact_or_rescued(kind: pa.DataType, fits: dict[str, Any]) -> None:
    found = dict(zip(NUMBERS, read(kind, NUMBERS), strict=True))
    assert {text: value for text, value in found.items() if value is not RESCUED} == fits


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_the_ends_of_whole_numbers(bits: int) -> None:
    bound = 1 << (bits - 1)
    kind = {8: pa.int8(), 16: pa.int16(), 32: INT, 64: BIGINT}[bits]
    texts = [str(one) for one in (-bound - 1, -bound, bound - 1, bound)]
    assert read(kind, texts) == [RESCUED, -bound, bound - 1, RESCUED]


def test_the_ends_of_decimals() -> None:
    most, tiny = "9" * 38, "0." + "0" * 37 + "1"
    assert read(pa.decimal128(38, 0), [most, "-" + most, "1" + most]) == [
        Decimal(most),
        Decimal("-" + most),
        RESCUED,
    ]
    assert read(pa.decimal128(38, 38), [tiny, "-" + tiny, tiny + "1", "1"]) == [
        Decimal(tiny),
        Decimal("-" + tiny),
        RESCUED,
        RESCUED,
    ]


def test_a_float() -> None:
    texts = ["2.5", "0.1", "12345678.5", "1e5", "1.5e300", "1e-46", "16777217", "-0.0", '"NaN"']
    found = read(pa.float32(), texts)
    assert found[:7] == [2.5, pytest.approx(0.1), RESCUED, 100000.0, RESCUED, RESCUED, RESCUED]
    assert copysign(1, found[7]) == -1
    assert isnan(found[8])


def test_what_is_no_number() -> None:
    nan, infinite, *others = read(DOUBLE, ['"NaN"', '"-Infinity"', '"Inf"', '"nan"', '"1"', "{}", "[]"])
    assert isnan(nan)
    assert infinite == -inf
    assert others == [RESCUED] * 5


def test_texts_and_booleans() -> None:
    texts = ['"1"', r'"\u00e9 \n \/ \u0000"', '"\u20ac"', "1", "true", "{}", "null", '""']
    assert read(STRING, texts) == ["1", "é \n / \0", "€", *[RESCUED] * 3, None, ""]
    halves = [r'"\ud800"', r'"\uDC00 \ud800"', r'"\ud83d\ude00\ude00"', r'"\\\ud800"', r'"\ud800\\udc00"']
    assert read(STRING, halves) == [RESCUED] * 5
    whole = [r'"\ud83d\ude00\uD83D\uDE00"', r'"\\ud800"', r'"\\\ud83d\ude00"']
    assert read(STRING, whole) == ["\U0001f600" * 2, r"\ud800", "\\\U0001f600"]
    assert read(pa.bool_(), ["true", "false", '"true"', "1"]) == [True, False, RESCUED, RESCUED]


WHEN = datetime(2026, 11, 27, 12, 0, 0, 123456)
TIMES: dict[str, tuple[Any, Any]] = {
    "2026-11-27T12:00:00.123456+01:00": ((WHEN - timedelta(hours=1)).replace(tzinfo=UTC), RESCUED),
    "2026-11-27 12:00:00.123456-0130": ((WHEN + timedelta(minutes=90)).replace(tzinfo=UTC), RESCUED),
    "2026-11-27T12:00:00.123456": (RESCUED, WHEN),
    "2026-11-27T12:00Z": (datetime(2026, 11, 27, 12, tzinfo=UTC), RESCUED),
    "2026-11-27T12:00:07.5": (RESCUED, datetime(2026, 11, 27, 12, 0, 7, 500000)),
    "0001-01-01T00:00:00Z": (datetime(1, 1, 1, tzinfo=UTC), RESCUED),
    "9999-12-31T23:59:59.999999Z": (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), RESCUED),
    **dict.fromkeys(
        [
            *("2026-11-27", "2026-11-27T12:00:00.1234567Z", "2026-02-30T00:00:00Z", "2026-11-27T24:00:00Z"),
            *("2026-11-27T12:60:00", "2026-11-27T12:00:60", "0000-01-01T00:00:00", "2026-11-27T12"),
            *("2026-11-27T12:00:00+18:01", "2026-11-27T12:00:00+01:60", "2026-11-27t12:00:00z"),
            *("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "٢٠٢٦-11-27T12:00:00Z", ""),
            *(" 2026-11-27T12:00:00Z", "2026-11-27T12:00:00Z ", "2026-11-27T12:00:00 Z"),
            *("2026-11-27T12:00:00Z\\n", "2026-11-27T12:00:00\\n", "2026-W48-5T12:00:00"),
        ],
        (RESCUED, RESCUED),
    ),
}


def test_times() -> None:
    """A time without a zone is no moment: which one it is would be the session's guess."""
    texts = [f'"{text}"' for text in TIMES]
    assert dict(zip(TIMES, read(MOMENT, texts), strict=True)) == {
        text: ends[0] for text, ends in TIMES.items()
    }
    assert dict(zip(TIMES, read(LOCAL, texts), strict=True)) == {
        text: ends[1] for text, ends in TIMES.items()
    }
    assert read(MOMENT, ["5"]) == [RESCUED]


def test_dates() -> None:
    texts = ["2026-11-27", "2026-1-1", "20261127", "2026-W48-5", "2026-02-30", " 2026-11-27", "2026-11-27\\n"]
    assert read(pa.date32(), [f'"{text}"' for text in texts]) == [date(2026, 11, 27), *[RESCUED] * 6]


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (MOMENT, '"2026-11-27T12:00:00"', "a has no zone: timestamp_ntz takes it"),
        (LOCAL, '"2026-11-27T12:00:00Z"', "a has a zone: timestamp takes it"),
        (MOMENT, '"27.11.2026"', "a is a string that does not fit timestamp"),
        (MOMENT, "5", "a is a whole number that does not fit timestamp"),
        (DOUBLE, "0.1234567890123456789", "a is a number that double does not have exactly"),
        (pa.float32(), "16777217", "a is a number that float does not have exactly"),
        (pa.decimal128(4, 1), "1e2", "a is a number that decimal(4,1) does not have exactly"),
        (DOUBLE, '"1"', "a is a string that does not fit double"),
        (pa.list_(INT), "{}", "a is an object, a list was expected"),
        (pa.map_(STRING, INT), "[]", "a is a list, an object was expected"),
        (pa.map_(STRING, INT), '{"b":"x"}', "a[] is a string that does not fit int"),
        (pa.list_(pa.list_(INT)), "[[1],[2,true]]", "a[][] is a boolean that does not fit int"),
    ],
)
def test_a_reason_names_field_and_type(kind: pa.DataType, text: str, reason: str) -> None:
    assert [found for _, found in decoded(pa.struct([("a", kind)]), [f'{{"a":{text}}}'])] == [reason]


INSIDE = pa.struct(
    [
        ("x.y", STRING),
        ("s", pa.struct([("n", INT), ("l", pa.list_(pa.decimal128(4, 1)))])),
        ("m", pa.map_(STRING, INT)),
    ]
)


def test_what_is_inside() -> None:
    fits: dict[str, Any] = {
        '{"x.y":"z","s":{"n":1,"l":[1,2.5,null]},"m":{"b":1,"c":null}}': {
            "x.y": "z",
            "s": {"n": 1, "l": [Decimal("1.0"), Decimal("2.5"), None]},
            "m": [("b", 1), ("c", None)],
        },
        '{"m":{},"s":{}}': {"x.y": None, "s": {"n": None, "l": None}, "m": []},
        '{"s":null}': {"x.y": None, "s": None, "m": None},
        '{"s":{"l":[]}}': {"x.y": None, "s": {"n": None, "l": []}, "m": None},
    }
    others = {
        '{"s":{"n":1,"l":[1,1.25]}}': "s.l[] is a number that decimal(4,1) does not have exactly",
        '{"s":{"n":1,"o":2}}': "s has other fields, o",
        '{"s":{"n":1,"n":2}}': "a field twice: s.n",
        '{"s":{"l":[0,{"k":[{"k":1,"k":2},{"o":1,"o":2}]}]}}': "a field twice: s.l[].k[].k",
        '{"s":[1]}': "s is a list, fields were expected",
        '{"s":{"l":{}}}': "s.l is an object, a list was expected",
        '{"m":{"b":1,"b":2}}': "a field twice: m.b",
        '{"m":{"b":1,"c":"x"}}': "m[] is a string that does not fit int",
        '{"m":[]}': "m is a list, an object was expected",
        '{"x.y":1,"s":{"n":"x"},"o":1}': "x.y is a whole number that does not fit string",
    }
    found = decoded(INSIDE, [*fits, *others])
    assert [value for value, _ in found[: len(fits)]] == list(fits.values())
    assert [reason for _, reason in found] == [None] * len(fits) + list(others.values())
    kept = dict(zip(others, (value for value, _ in found[len(fits) :]), strict=True))
    assert kept['{"s":{"n":1,"l":[1,1.25]}}']["s"] == {"n": 1, "l": [Decimal(1), None]}
    assert kept['{"m":{"b":1,"c":"x"}}']["m"] == [("b", 1), ("c", None)]


def test_fields_that_the_type_does_not_name_as_a_text() -> None:
    """With the numbers as they came; only those of the body itself, and only if all others fit."""
    deep = "[" * 400 + "]" * 400
    bodies = {
        '{"a":1,"b":2.50,"c":{"d":[1e400,"\\u00e9\\n"]}}': '{"b":2.50,"c":{"d":[1e400,"é\\n"]}}',
        f'{{"a":1,"b":{deep}}}': f'{{"b":{deep}}}',
        '{"a":1}': None,
        '{"a":"x","b":1}': None,
        '{"s":{"b":1},"b":1}': None,
        "7": None,
    }
    kind = pa.struct([("a", BIGINT), ("s", pa.struct(A))])
    rows = json_rows(strings([*bodies]), kind, others=True)
    assert [rows.others.get(row) for row in range(len(bodies))] == [*bodies.values()]
    assert sorted(rows.reasons) == [3, 4, 5]


NESTED = pa.struct([("l", pa.list_(pa.struct([("a", pa.struct([("b", INT)])), ("s", STRING)]))), *A])


@pytest.mark.parametrize(
    ("first", "others"),
    [
        ('[{"s":"x"},{"s":"y","a":{}}]', '[{"s":"x"}]'),
        ('[{"a":null},{"a":{"b":1}}]', '[{"a":null},{"a":null}]'),
        ("[null,{}]", "[null]"),
        ('[{}, {"a": {}}]', "[{}]"),
        ("null", "null"),
    ],
)
def test_what_one_body_has_is_not_in_those_of_its_layout(first: str, others: str) -> None:
    """An element or a field that is not there, or null, is so whatever other bodies have."""
    bodies = [f'{{"l":{text},"a":{number}}}' for text in (first, others) for number in range(100)]
    alone = [decoded(NESTED, [body])[0] for body in bodies]
    assert decoded(NESTED, bodies) == alone


def test_a_null_is_in_a_layout() -> None:
    texts = strings([f'{{"l":[{{"a":null,"s":null}}, {{"a":null}}],"a":{number}}}' for number in range(200)])
    texts = pa.concat_arrays([texts, strings(['{"l":null,"a":null}'] * 200)])
    ((rows, _),) = read_json_layouts(texts, NESTED)
    assert rows.tolist() == [*range(200, 400)]


def test_lists_of_structs() -> None:
    kind = pa.list_(pa.struct([("t", STRING), ("n", pa.struct([("i", INT)]))]))
    bodies: dict[str, tuple[Any, str | None]] = {
        '[{"t":"a","n":{"i":1}}, {"n":{"i":2}}]': (
            [{"t": "a", "n": {"i": 1}}, {"t": None, "n": {"i": 2}}],
            None,
        ),
        '[{"t":"b"},': (None, NO_JSON),
        '[{"t":"c"},{"u":{}}]': (None, "[] has other fields, u"),
        '{"t":"d"}': (None, "the body is an object, a list was expected"),
        "[]": (None, "the list is empty"),
        "[7]": (None, "[] is a whole number, fields were expected"),
        "[null]": (None, "the list has a null"),
        '[{"t":"e"}, null ]': (None, "the list has a null"),
        "null": (None, "the body is null"),
        '[{"t":"f"}]': ([{"t": "f", "n": None}], None),
    }
    assert dict(zip(bodies, decoded(kind, list(bodies)), strict=True)) == bodies


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_string(), pa.time32("s"), pa.timestamp("ns"), pa.null()]
)
def test_a_type_that_json_does_not_have(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"s\.b\[\] has the type .*, which no value of JSON has exactly"):
        json_rows(strings([]), pa.struct([("s", pa.struct([("b", pa.list_(kind))]))]))


def hostile() -> Iterator[tuple[str, str, str | None]]:
    """Bodies for HOSTILE that are as large as a frame may be, and the reason's begin."""
    count = 200_000
    yield "deep", "[" * count, "the body has more than 500 lists"
    yield "deep, closed", '{"a":' * count + "1" + "}" * count, "the body has more than 500 lists"
    yield "deep enough", '{"o":' + "[" * 499 + "]" * 499 + "}", "the body has other fields, o"
    yield "too deep by one", '{"o":' + "[" * 500 + "]" * 500 + "}", "the body has more than 500 lists"
    yield "wide", '{"l":[' + "[]," * count + "[]]}", "l[] is a list that"
    yield "wide, fits", '{"l":[' + "1.5," * count + "1.5]}", None
    yield "many fields", "{" + ",".join(f'"{n}":1' for n in range(count)) + "}", "the body has other"
    yield "one field often", "{" + '"a":1,' * count + '"a":1}', "a field twice: a"
    yield "brackets in a text", f'{{"s":"{"[" * count}"}}', None
    yield "escaped quotes", '{"s":"' + '\\"[{' * count, NO_JSON
    yield "escapes", '{"s":"' + "\\u0041[" * count + '"}', None
    yield "backslashes", '{"s":"' + "\\\\" * count + '\\ud83d"}', "the body has half"
    yield "digits", f'{{"d":{"7" * count}}}', "d is a number"
    yield "zeros", f'{{"d":0.{"0" * count}1}}', "d is a number"
    yield "zeros behind", f'{{"d":1.5{"0" * count}}}', None
    yield "exponent", f'{{"d":1e{"9" * count}}}', "d is a number"
    yield "exponent of zeros", f'{{"d":1e{"0" * count}1}}', None
    yield "whole", f'{{"i":-{"7" * count}}}', "i is a whole number"
    yield "decimal", f'{{"m":{"7" * count}.{"7" * count}}}', "m is a number"
    yield "time", f'{{"t":"2026-11-27T12:00:00.{"1" * count}Z"}}', "t is a string"
    yield "twice below a name", f'{{"{"n" * count}":[{"[]," * count}{{"k":1,"k":2}}]}}', "a field twice: nnn"
    yield "twice, deep", '{"a":' * 499 + '{"k":1,"k":2}' + "}" * 499, "a field twice: a.a.a"
    yield "twice, digits", f'{{"a":{{"k":1,"k":2}},"d":{"7" * count}}}', "a field twice: a.k"
    yield "twice, cut off", '{"a":{"k":1,"k":2},', NO_JSON
    yield "name", f'{{"{"n" * count}":1}}', "the body has other fields, nnn"
    yield "name twice", f'{{"{"n" * count}":1,"{"n" * count}":1}}', "a field twice: nnn"
    yield "documents", "{}" * count, "more than one"
    yield "spaces", " " * count + "{}" + " " * count, None


HOSTILE = pa.struct(
    [
        *[("s", STRING), ("d", DOUBLE), ("i", BIGINT), ("m", pa.decimal128(38, 10)), ("t", MOMENT)],
        *[("f", pa.float32()), ("l", pa.list_(DOUBLE)), ("a", BIGINT)],
    ]
)


@pytest.mark.parametrize(("body", "reason"), [pytest.param(*case[1:], id=case[0]) for case in hostile()])
def test_a_large_body_takes_a_time_in_its_size(body: str, reason: str | None) -> None:
    """What grows with the square of the parts takes minutes."""
    began = time.process_time()
    ((_, found),) = decoded(HOSTILE, [body])
    assert time.process_time() - began < 5
    assert found is None if reason is None else (found or "").startswith(reason)
    assert found is None or len(found) < 400


def test_a_stack_that_is_used_up_is_a_reason() -> None:
    """However deep the caller is, and whatever limit Python has."""

    deep = '{"o":' + "[" * 499 + "]" * 499 + "}"

    def at_depth(depth: int) -> JsonRows:
        if depth:
            return at_depth(depth - 1)
        return json_rows(strings(['{"a":1}', deep]), pa.struct(A), others=True)

    # The parser needs about as much of the stack as what comes behind it, so each depth is tried.
    found = [at_depth(depth) for depth in range(300, 600)]
    assert all(rows.values[0]["a"].as_py() == 1 for rows in found)
    assert [*found[0].reasons] == []
    assert [*found[-1].reasons] == [1]
