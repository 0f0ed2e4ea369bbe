"""The schema that ``peek --schema`` prints: the type of each place, and what the comments say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest
from support.ddl import printed_schema

from spark_stomp.arrow.json_seen import DEEPEST, Seen
from spark_stomp.commands.schema import NoType, schema_call

DEEP = f"{'[' * DEEPEST}{{}}{']' * DEEPEST}"


def call(bodies: Iterable[str], where: str = "/queue/a") -> str:
    seen = Seen()
    for body in bodies:
        seen.add(body)
    return schema_call(seen, where)


def typed(*values: str) -> str:
    """The type of a field that has these values, and the comment behind it."""
    lines = call(f'{{"x": {value}}}' for value in values).splitlines()
    return "\n".join(lines[lines.index("  body STRUCT<") + 1 : -3]).strip()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-9223372036854775808", "-0"], "BIGINT"),
        (["1", "9223372036854775808"], "DECIMAL(19,0)"),
        (["1", "-1" + "0" * 37], "DECIMAL(38,0)"),
        (["1" + "0" * 38], "DOUBLE"),  # 39 digits, and exact
        (["1", "2.5", "1e3", "0.1"], "DOUBLE"),
        (["7.0"], "DOUBLE"),
        (["0.12345678901234567891"], "DECIMAL(20,20)"),
        (["100", "0.12345678901234567891"], "DECIMAL(23,20)"),
        (["0.10", "12345678901234567.250"], "DECIMAL(19,2)"),
        (["0.1", "9007199254740993"], "DECIMAL(17,1)"),
        (["true", "false"], "BOOLEAN"),
        (['"a text"', '"2026-11-29"', '""'], "STRING"),
        (['"2026-11-29"', '"0001-01-01"'], "DATE"),
        (['"2026-11-29"', '"2026-02-30"'], "STRING"),
        (['"2026-11-29T12:00:00Z"', '"2026-11-29 12:00:00.5+00:00"'], "TIMESTAMP_LTZ"),
        (['"2026-11-29T12:00:00Z"', '"2026-11-29T12:00+0530"'], "TIMESTAMP_LTZ  -- the moment, not the zone"),
        (['"2026-11-29T12:00:00"', '"2026-11-29T12:00:00.123456"'], "TIMESTAMP_NTZ"),
        (['"2026-11-29T12:00:00.1234567"'], "STRING"),
        (['"2026-11-29T12:00:00Z"', '"2026-11-29T12:00:00"'], "STRING"),
        (['"2026-11-29T12:00:00+01:00"', '"2026-11-29"'], "STRING"),
        (['"NaN"', '"Infinity"'], "STRING"),
        (["2.5", "1", '"NaN"'], "DOUBLE  -- 1 decimal number, 1 whole number, 1 string"),
        (["null", "1"], "BIGINT  -- null in 1 of 2"),
        (["null"], "STRING  -- null in 1 of 1; never a value, so STRING is a guess"),
        (["[]"], "ARRAY<STRING>  -- never an element, so STRING is a guess"),
        (["[null]"], "ARRAY<STRING>  -- null in 1 of 1 elements; never a value, so STRING is a guess"),
        (["[1, null]", "[]", "[[]]"], "ARRAY<VARIANT>  -- null in 1 of 3 elements; 1 whole number, 1 list"),
        (["1", '"a"'], "VARIANT  -- 1 whole number, 1 string"),
        (["[1, true]"], "ARRAY<VARIANT>  -- 1 whole number, 1 boolean"),
        (["1", "[[1e300]]", '{"a": {}}'], "VARIANT  -- 1 whole number, 1 list, 1 object"),
        (["9" * 38, "1e300"], "VARIANT  -- numbers that no numeric type has exactly"),
        (["0." + "1" * 37, "9" * 30], "VARIANT  -- numbers that no numeric type has exactly"),
        (["[[1], [2.5]]", "[]"], "ARRAY<ARRAY<DOUBLE>>"),
        (["{}", "null"], "MAP<STRING, STRING>  -- null in 1 of 2; never a field, so STRING is a guess"),
    ],
)
def test_the_type_that_has_every_value(values: list[str], expected: str) -> None:
    assert typed(*values) == f"x: {expected}"


@pytest.mark.parametrize("number", ["1e400", "9" * 39, "1" * 20 + "." + "1" * 19, "0.12345678901234567e-400"])
@pytest.mark.parametrize(
    "where", ["{}", "[{}]", '{{"a": {}}}', '{{"a": [1, {{"b": {}}}]}}', DEEP.format("{}")]
)
def test_what_no_variant_has_is_left_out(number: str, where: str) -> None:
    """Wherever it is in a value; beside it the others have their types."""
    mixed = call([f'{{"x": {where.format(number)}, "y": 1}}', '{"x": "text", "y": true}'])
    assert "    -- `x` is left out: " in mixed and "VARIANT" not in mixed.partition("y: ")[0]
    assert "    y: VARIANT  -- 1 whole number, 1 boolean\n" in mixed


@pytest.mark.parametrize("number", ["1", "1e400"])
def test_a_map_has_what_all_of_its_values_have(number: str) -> None:
    """In a VARIANT too, which is not their one type."""
    pairs = [(one, value) for one in range(102) for value in ("true", number)]
    lines = call(f'{{"x": {{"id{one}": {{"a": {value}, "b": 1}}}}}}' for one, value in pairs)
    assert "x: MAP<STRING, STRUCT<\n" in lines
    assert ("a: VARIANT" in lines, "`a` is left out" in lines) == (number == "1", number != "1")


def test_all_of_it() -> None:
    bodies = [
        '{"id": 1, "lines": [{"article": "bread", "count": 2}, {"article": null}], "mix": 1, "Id": 1}',
        '{"id": 2, "lines": null, "mix": "a", "x y": {"deep": {"z": 1.5}}, "more": [1, true]}',
        '{"id": 3, "huge": 1e400, "x y": {}}',
        '{"id": 4, "odd": {"only": [1, [1e400]]}}',
        "[]",
        "7",
        "no json",
        "nor this",
    ]
    assert (
        call(bodies)
        == '''\
.schema("""
  message_id STRING, destination STRING, headers MAP<STRING, STRING>,
  -- from 4 of 8 messages of /queue/a. The others are rescued:
  --   2: no JSON document
  --   1: the list is empty
  --   1: the body is a whole number, fields were expected
  body STRUCT<
    id: BIGINT,  -- differs from `Id` only in case: set spark.sql.caseSensitive=true
    lines: ARRAY<STRUCT<  -- missing in 2 and null in 1 of 4
      article: STRING,  -- null in 1 of 2
      count: BIGINT  -- missing in 1 of 2
    >>,
    mix: VARIANT,  -- missing in 2 of 4; 1 whole number, 1 string
    Id: BIGINT,  -- missing in 3 of 4; differs from `id` only in case: set spark.sql.caseSensitive=true
    `x y`: STRUCT<  -- missing in 2 of 4
      deep: STRUCT<  -- missing in 1 of 2
        z: DOUBLE
      >
    >,
    more: ARRAY<VARIANT>  -- missing in 3 of 4; 1 whole number, 1 boolean
    -- `huge` is left out: numbers that no numeric type has exactly. Bodies with it are rescued
    -- `odd` is left out: objects of `only`: a list of 1 whole number, 1 list. Bodies with it are rescued
  >,
  rescued BINARY, malformed STRING
""")
'''
    )


class TestNames:
    """Those of a producer, which may mean harm."""

    NAMES = ('"""); exit() #', "\\", "\n", "`", "--", "\x1b[2J", "", "\\N", '"', "é", "a\\\n", "order", "1a")

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("value", ["1", "1e400"])
    def test_stay_in_the_schema(self, name: str, value: str) -> None:
        printed = call([f'{{"a": 1, {json.dumps(name)}: {value}, "b": 2}}'])
        assert all(line.isprintable() for line in printed.splitlines())
        body = printed_schema(printed).columns["body"]
        assert list(body.parts) == (["a", name, "b"] if value == "1" else ["a", "b"])
        assert bool(body.left_out) == (value != "1")

    def test_of_files_and_queues_do_so_too(self) -> None:
        printed = printed_schema(call(['{"a": 1}'], 'x\n"""\\'))
        assert printed.comments[0] == r"from 1 message of x\n" + '"""\\'
        assert list(printed.columns) == [
            "message_id",
            "destination",
            "headers",
            "body",
            "rescued",
            "malformed",
        ]


class TestLists:
    def test_a_body_that_is_a_list(self) -> None:
        printed = printed_schema(call(['[{"a": 1}, {}]', '[{"a": 2.5}]', '{"a": 1}', "[{}, 1]"]))
        assert printed.columns["body"].name == "ARRAY"
        assert "  body ARRAY<STRUCT<\n    a: DOUBLE  -- missing in 1 of 3\n  >>," in printed.ddl
        assert printed.comments[:3] == [
            "from 2 of 4 messages of /queue/a. The others are rescued:",
            "1: the list has a whole number, fields were expected",
            "1: the body is an object, a list was expected",
        ]

    def test_objects_are_more(self) -> None:
        printed = printed_schema(call(['{"a": 1}', '{"a": 1}', '[{"b": 1}]']))
        assert list(printed.columns["body"].parts) == ["a"]
        assert printed.comments[1] == "1: the body is a list, fields were expected"


class TestMaps:
    def bodies(self, names: int, each: int, value: object = 1.5) -> list[str]:
        return [
            json.dumps({"x": {f"id{number + one}": value for one in range(each)}})
            for number in range(0, names, each)
        ]

    def test_many_names_of_which_each_object_has_few(self) -> None:
        lines = call(self.bodies(102, 2))
        assert "    x: MAP<STRING, DOUBLE>\n" in lines
        assert "    x: MAP<STRING, STRUCT<\n      a: BIGINT\n    >>\n" in call(self.bodies(102, 2, {"a": 1}))
        assert "    x: MAP<STRING, ARRAY<BIGINT>>  -- null in 1 of 103 values\n" in call(
            [*self.bodies(102, 2, [1]), '{"x": {"y": null}}']
        )

    def test_its_type_has_the_values_of_all(self) -> None:
        """Whatever each of them was alone."""
        many = self.bodies(100, 2, 0)
        assert "MAP<STRING, DECIMAL(22,20)>\n" in call(
            [*many, '{"x": {"y": 10, "z": 0.12345678901234567891}}']
        )
        times = self.bodies(102, 2, "2026-11-29T12:00:00Z")
        assert "MAP<STRING, TIMESTAMP_LTZ>\n" in call(times)
        moved = '{"x": {"y": "2026-11-29T12:00:00+01:00"}}'
        assert "MAP<STRING, TIMESTAMP_LTZ>  -- the moment, not the zone\n" in call([*times, moved])
        lists, levels = self.bodies(102, 2, []), DEEPEST - 2
        deep = "ARRAY<" * levels + "VARIANT" + ">" * levels
        assert f"x: MAP<STRING, {deep}>  -- more than" in call(
            [*lists, f'{{"x": {{"y": {DEEP.format("")}}}}}']
        )
        left_out = call([*lists, f'{{"x": {{"y": {DEEP.format("1e400")}}}}}'])
        assert f"`y` is left out: {'a list of ' * levels}more than" in left_out

    @pytest.mark.parametrize("bodies", [(100, 2), (102, 102), (102, 51)])
    def test_few_names_or_most_of_them_in_each_object(self, bodies: tuple[int, int]) -> None:
        assert "    x: STRUCT<\n" in call(self.bodies(*bodies))

    def test_values_of_several_kinds(self) -> None:
        lines = call([*self.bodies(102, 2), '{"x": {"id0": "a", "more": true}}'])
        assert "    x: STRUCT<\n" in lines
        assert "id0: VARIANT,  -- missing in 50 of 52; 1 decimal number, 1 string" in lines


def test_levels() -> None:
    """A client of Spark Connect reads no deeper types, and Spark's own functions call themselves."""
    for begin, end in (('{"x": ', "}"), ("[", "]")):
        deepest = f'{{"x": {begin * (DEEPEST - 1)}1{end * (DEEPEST - 1)}, "y": 1}}'
        deeper = f'{{"x": {begin * DEEPEST}1{end * DEEPEST}, "y": 1}}'
        assert "more than" not in call([deepest])
        why = f"more than {DEEPEST} lists and objects in one another"
        assert re.search(rf"VARIANT>*,?  -- {why}\n", call([deeper]))
        assert f"{why}. Bodies" in call([deeper.replace("1", "1e400", 1)])


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        ([], "no body of /queue/a is a JSON object or a list of them"),
        (
            ["x", "y", "7"],
            "a list of them: 2: no JSON document; 1: the body is a whole number, fields were exp",
        ),
        (["{}"], "the bodies of /queue/a are objects without fields"),
        (["[{}]"], "the bodies of /queue/a are a list of objects without fields"),
        (['{"a": 1e400}', '{"a": "x"}'], "objects of `a`: 1 decimal number, 1 string$"),
        (['{"a": 1e400, "b": 1e400}'], "objects of `a`: numbers that no numeric type has exactly and 1 more"),
    ],
)
def test_without_a_field_there_is_no_schema(bodies: list[str], reason: str) -> None:
    with pytest.raises(NoType, match=reason):
        call(bodies)


def test_many_reasons_are_cut() -> None:
    bodies = ['{"a": 1}', *(f'{{"{number}": 1, "{number}": 2}}' for number in range(14)), "x", "x"]
    comments = printed_schema(call(bodies)).comments
    assert comments[1] == "2: no JSON document" and comments[-1] == "5: other reasons"
    assert len(comments) == 12
