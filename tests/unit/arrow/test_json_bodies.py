"""Rows whose body is the fields of its JSON: what does not fit is in ``rescued``, whole."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from support.amqp import compound, section, short

from spark_stomp.arrow import Flaw, RowRules, decode_frames
from spark_stomp.brokers import dialect_named
from spark_stomp.columns import Projection
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.source.reads import RowSettings

KIND = pa.struct([("a", pa.int64()), ("b", pa.string())])
AMQP = "type:amqp-1.0"


def projection(kind: pa.DataType, *names: str) -> Projection:
    types = {"body": kind, "rescued": pa.binary()}
    fields = [pa.field(name, types.get(name, pa.string())) for name in names]
    return Projection(names, pa.schema(fields))


ALL = projection(KIND, "message_id", "body", "rescued", "malformed")


def frame(body: bytes, *lines: str) -> bytes:
    head = "".join(f"{line}\n" for line in ("destination:/queue/a", *lines))
    return f"MESSAGE\n{head}content-length:{len(body)}\n\n".encode("latin-1") + body + b"\0"


def rows(
    *frames: bytes, broker: str = "rabbitmq", chosen: Projection = ALL, malformed: str | None = None
) -> list[dict[str, Any]]:
    settings = RowSettings(chosen, None, "error")
    ends = [sum(map(len, frames[: count + 1])) for count in range(len(frames))]
    batch = FrameBatch(b"".join(frames), ends, 0, 0, "1.2", broker, malformed=malformed)
    found = decode_frames(batch, chosen, settings.rules(dialect_named(broker)))
    found.validate(full=True)
    return found.to_pylist()


def only(*frames: bytes, **how: Any) -> tuple[Any, Any, Any]:
    (row,) = rows(*frames, **how)
    return row["body"], row["rescued"], row["malformed"]


@pytest.mark.rule("7.14")
def test_a_body_is_fields_or_rescued() -> None:
    bodies = [b'{"a":1,"b":"x"}', b'{"b":"\xc3\xa9","a":2}', b'{"a":"3","b":"y"}', b"[]", b""]
    found = rows(*(frame(body, f"message-id:{n}") for n, body in enumerate(bodies)))
    assert [row["body"] for row in found] == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": "é"},
        {"a": None, "b": "y"},
        None,
        None,
    ]
    assert [row["rescued"] for row in found] == [None, None, *bodies[2:]]
    assert [row["malformed"] for row in found] == [
        None,
        None,
        "a is a string that does not fit bigint",
        "the body is a list, fields were expected",
        "the body is empty",
    ]
    assert [row["message_id"] for row in found] == [*"01234"]


def test_the_content_type_says_the_charset() -> None:
    line = "content-type:application/json;charset=iso-8859-1"
    assert only(frame(b'{"b":"\xe9"}', line)) == ({"a": None, "b": "é"}, None, None)
    body, rescued, reason = only(frame(b'{"b":"\xe9"}'))
    assert (body, rescued) == (None, b'{"b":"\xe9"}')
    assert reason == "the body is not UTF-8"
    wide = '{"a":"x"}'.encode("utf-16")
    body, rescued, reason = only(frame(wide, "content-type:application/json;charset=utf-16"))
    assert (body, rescued) == ({"a": None, "b": None}, wide)
    assert reason == "a is a string that does not fit bigint"
    assert "charset 'klingon' is unknown" in only(frame(b"{}", "content-type:a/b;charset=klingon"))[2]


def test_bodies_of_amqp_are_json_or_text() -> None:
    text = frame(b'\0Sw\xa1\7{"a":1}', AMQP)
    value = frame(section(0x77, compound(0xC1, short("a"), b"\x54\x07", short("b"), short("x"))), AMQP)
    octets = frame(b'\0Su\xa0\7{"a":2}', AMQP)
    cut = frame(b"\0Sw\xa1\x09", AMQP)
    found = rows(text, value, octets, cut)
    assert [row["body"] for row in found[:3]] == [
        {"a": 1, "b": None},
        {"a": 7, "b": "x"},
        {"a": 2, "b": None},
    ]
    assert [row["rescued"] for row in found] == [None, None, None, b"\0Sw\xa1\x09"]
    assert "the body is marked as AMQP 1.0 and cannot be decoded" in found[3]["malformed"]


def test_a_row_with_any_reason_has_its_body_in_rescued() -> None:
    """So what goes by ``malformed`` finds the body there."""
    body, rescued, reason = only(frame(b'{"a":1}', "h:\xff"))
    assert body == {"a": 1, "b": None}
    assert rescued == b'{"a":1}'
    assert "headers that are not UTF-8" in reason
    body, rescued, reason = only(frame(b'{"a":"x"}', "h:\xff"))
    assert rescued == b'{"a":"x"}'
    assert reason.endswith("; a is a string that does not fit bigint")
    plain = projection(pa.binary(), "message_id", "body", "rescued")
    found = rows(frame(b"a"), frame(b"b", "h:\xff"), chosen=plain)
    assert [(row["body"], row["rescued"]) for row in found] == [(b"a", None), (b"b", b"b")]


def test_a_malformed_frame_is_rescued_whole() -> None:
    raw = b"MESSAGE\nbroken\n\n{}\0"
    assert only(raw, malformed="no colon") == (None, raw, "no colon")


@pytest.mark.parametrize("names", [("body", "rescued"), ("rescued",), ("malformed", "body", "rescued")])
def test_columns_in_any_order(names: Sequence[str]) -> None:
    found = rows(frame(b'{"a":1}'), frame(b"x"), chosen=projection(KIND, *names))
    assert [[row.get(name) for name in names] for row in found] == [
        [{"body": {"a": 1, "b": None}}.get(name) for name in names],
        [
            {"rescued": b"x", "malformed": "no JSON document"}.get(name) if "body" in names else None
            for name in names
        ],
    ]


def test_what_does_not_fit_is_counted_with_the_first_reason() -> None:
    long = '{"' + "n" * 500 + '":1}'
    frames = [frame(body.encode()) for body in ('{"a":1}', "[]", '{"a":"x"}', long)]
    batch = FrameBatch(b"".join(frames), [*accumulate(map(len, frames))], 0, 0, "1.2", "artemis")
    flaws: Counter[Flaw] = Counter()
    decode_frames(batch, ALL, RowRules(None, "ms"), flaws)
    reason = "the body is a list, fields were expected"
    assert flaws == {Flaw("bodies_unfit", "/queue/a", "artemis", reason): 3}
    flaws.clear()
    last = replace(batch, data=frames[3], ends=[len(frames[3])])
    decode_frames(last, ALL, RowRules(None, "ms"), flaws)
    assert all(len(one.reason) < 210 for one in flaws)


def test_no_frames() -> None:
    assert rows() == []


LAZY = """
import sys
from spark_stomp.arrow import Flaw, RowRules, decode_frames
from support.columns import projection_of
from spark_stomp.frame_batch import FrameBatch

raw = b"MESSAGE\\n\\n{}\\0"
for text in (False, True):
    chosen = projection_of("body", body_as_string=text)
    decode_frames(FrameBatch(raw, [len(raw)], 0, 0, "1.2"), chosen, RowRules(None, "ms"))
assert not {name for name in sys.modules if name.startswith("spark_stomp.arrow.json")}
"""


def test_a_query_without_such_a_body_imports_nothing_for_it() -> None:
    subprocess.run([sys.executable, "-c", LAZY], timeout=60, check=True)
