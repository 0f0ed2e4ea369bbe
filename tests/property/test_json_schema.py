"""What must hold of ``spark-stomp peek --schema``: the decoder rescues only what its comments name."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.ddl import printed_schema
from support.documents import Producer, written

from spark_stomp.arrow.columns import strings
from spark_stomp.arrow.json_rows import json_rows, parse
from spark_stomp.arrow.json_seen import Seen
from spark_stomp.arrow.json_values import Fraction, Whole
from spark_stomp.commands.schema import NoType, schema_call
from spark_stomp.quoting import counted

TYPES = [
    ": BOOLEAN",
    ": BIGINT",
    ": DOUBLE",
    ": DECIMAL(",
    ": DATE",
    ": TIMESTAMP_LTZ",
    ": TIMESTAMP_NTZ",
    ": STRING",
    ": VARIANT",
]
TYPES += [": STRUCT<", ": ARRAY<", ": MAP<STRING, ", "body STRUCT<", "body ARRAY<STRUCT<"]


def dumped(value: Any) -> str:
    """A document of the parser as JSON."""
    if isinstance(value, (Whole, Fraction)):
        return str(value)
    if isinstance(value, dict):
        return written({name: dumped(one) for name, one in value.items()})
    if isinstance(value, list):
        return f"[{', '.join(map(dumped, value))}]"
    return json.dumps(value)


def look(texts: list[str]) -> Seen:
    seen = Seen()
    for text in texts:
        seen.add(text)
    return seen


def rescued(texts: list[str], kind: pa.DataType) -> set[int]:
    found = json_rows(strings(texts), kind)
    found.values.validate(full=True)
    return set(found.reasons)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_only_what_the_comments_name_is_rescued(seed: int, count: int) -> None:
    check(Producer(random.Random(seed)).bodies(count))


def test_a_body_with_many_levels() -> None:
    check(['{"b": 1, "a": ' * 40 + "1" + "}" * 40])
    check(['{"b": 1, "a": ' + "[" * 40 + "]" * 40 + "}"])
    check(['{"b": 1, "a": ' + "[" * 40 + "1e400" + "]" * 40 + "}", '{"b": 1}'])


def check(texts: list[str]) -> None:
    """What is rescued is what the comments name, and all of that."""
    try:
        call = schema_call(look(texts), "/queue/a")
    except NoType:
        return
    assert all(character.isprintable() or character == "\n" for character in call)
    printed = printed_schema(call)
    body = printed.columns["body"]
    others = {
        row
        for row, text in enumerate(texts)
        if look([text]).unfit or text.startswith("[") is not (body.name == "ARRAY")
    }
    fit = len(texts) - len(others)
    begin = f"from {fit} of {len(texts)} messages" if others else f"from {counted(fit, 'message')}"
    assert printed.comments[0].startswith(f"{begin} of /queue/a")
    documents = {row: parse(text) for row, text in enumerate(texts) if row not in others}
    stripped = {row: body.without_left_out(document) for row, document in documents.items()}
    named = {row for row, document in documents.items() if stripped[row] != document}
    assert rescued(texts, body.arrow()) == others | named
    assert rescued([dumped(document) for document in stripped.values()], body.arrow()) == set()


def test_most_of_these_have_a_schema() -> None:
    """With each of its types and comments; else the other tests would compare little."""
    calls = [call for seed in range(150) for call in calls_of(seed)]
    assert len(calls) > 120
    words = [
        *TYPES,
        "is left out",
        "a guess",
        "only in case",
        "not the zone",
        "The others are rescued",
        "null in",
    ]
    assert [word for word in words if sum(word in call for call in calls) < 3] == []
    assert sum("is left out" not in call for call in calls) > 30


def calls_of(seed: int) -> Iterator[str]:
    with suppress(NoType):
        yield schema_call(look(Producer(random.Random(seed)).bodies(40)), "/queue/a")
