"""JSON as a VARIANT, in Spark's encoding: exactly, or not at all."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import VariantVal

from spark_stomp.arrow.columns import strings
from spark_stomp.arrow.json_rows import json_rows
from spark_stomp.arrow.json_values import VARIANT

RESCUED = object()


def decoded(*texts: str) -> list[tuple[Any, str | None]]:
    """The value and the reason of each ``{"a": TEXT}``."""
    rows = json_rows(strings([f'{{"a":{text}}}' for text in texts]), pa.struct([("a", VARIANT)]))
    values = [value and value["a"] for value in rows.values.to_pylist()]
    return [(value, rows.reasons.get(row)) for row, value in enumerate(values)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ('[1,"x",null,true,{"b":[-0.50]}]', [1, "x", None, True, {"b": [Decimal("-0.50")]}]),
        ("9" * 38, Decimal("9" * 38)),
        ("0." + "1" * 37, Decimal("0." + "1" * 37)),
        ("1.5e3", 1500.0),
        ("1" + "0" * 60, 1e60),
        ('"\\u00e9\\ud83d\\ude00"', "é\U0001f600"),
        ("1e400", RESCUED),
        ("9" * 39, RESCUED),
        ('{"b":[0.12345678901234567890123456789012345678901]}', RESCUED),
        (f'"{"x" * 17_000_000}"', RESCUED),
    ],
)
def test_a_variant_has_any_value_that_it_has_exactly(text: str, value: Any) -> None:
    ((found, reason), null) = decoded(text, "null")
    assert null == (None, None)
    if value is RESCUED:
        assert found is None
        assert reason == (
            "a is too large or too deep for variant"
            if "xx" in text
            else "a has a number that variant does not have exactly"
        )
    else:
        assert reason is None
        with localcontext() as context:
            context.prec = 50  # toPython rounds by it
            assert VariantVal(**found).toPython() == value


def test_names_that_spark_does_not_find_in_a_variant() -> None:
    """It compares UTF-16, in which characters beyond 16 bits come before some that have fewer."""

    def names(count: int, *more: str) -> str:
        name = [*map("n{}".format, range(count - len(more))), *more]
        return "{" + ",".join(f'"{one}":{number}' for number, one in enumerate(name)) + "}"

    fit = [names(31, "\U0001f600", "\uff5e"), names(40, "\U0001f600", "é"), names(40, "\ue000", "\uff5e")]
    unfit = names(32, "\U0001f600", "\uff5e")
    found = decoded(*fit, unfit, f"[{unfit}]")
    assert [reason for _, reason in found[:3]] == [None] * 3
    assert [reason for _, reason in found[3:]] == ["a has names that Spark does not find in a variant"] * 2


def test_a_stack_that_is_used_up_is_a_reason() -> None:
    deep = "[" * 499 + "]" * 499

    def at_depth(depth: int) -> list[tuple[Any, str | None]]:
        return at_depth(depth - 1) if depth else decoded("1", deep)

    found = [at_depth(depth) for depth in range(300, 600)]
    assert all(rows[0][0] is not None for rows in found)
    assert found[0][1][1] is None
    assert found[-1][1][1] is not None
