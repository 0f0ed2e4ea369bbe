"""What must hold of the decoder of AMQP 1.0: it reads every value, and nothing makes it fail or grow."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.amqp import compound, long, section, short, wide
from support.columns import projection_of

from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.arrow.amqp import NotAmqp, read_content
from spark_stomp.brokers import dialect_named
from spark_stomp.frame_batch import FrameBatch

Encoded = tuple[bytes, Any]
"""A value as it is encoded, and as JSON."""

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = st.one_of(
    st.sampled_from([(b"\x40", None), (b"\x41", True), (b"\x56\0", False), (b"\x43", 0), (b"\x45", [])]),
    st.integers(0, 255).map(lambda n: (bytes([0x50, n]), n)),
    st.integers(-128, 127).map(lambda n: (b"\x54" + n.to_bytes(1, "big", signed=True), n)),
    st.integers(0, 2**64 - 1).map(lambda n: (b"\x80" + n.to_bytes(8, "big"), n)),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: (b"\x81" + n.to_bytes(8, "big", signed=True), n)),
    TEXTS.map(lambda text: (short(text), text)),
    TEXTS.map(lambda text: (long(text), text)),
)


def lists(items: st.SearchStrategy[Encoded]) -> st.SearchStrategy[Encoded]:
    def of(chosen: tuple[list[Encoded], bool]) -> Encoded:
        encoded, values = [one for one, _ in chosen[0]], [one for _, one in chosen[0]]
        narrow = sum(map(len, encoded)) < 250 and not chosen[1]
        return (compound(0xC0, *encoded) if narrow else wide(0xD0, *encoded)), values

    return st.tuples(st.lists(items, max_size=5), st.booleans()).map(of)


def maps(items: st.SearchStrategy[Encoded]) -> st.SearchStrategy[Encoded]:
    def of(pairs: dict[str, Encoded]) -> Encoded:
        encoded = [part for name, (one, _) in pairs.items() for part in (short(name), one)]
        return wide(0xD1, *encoded), {name: value for name, (_, value) in pairs.items()}

    return st.dictionaries(TEXTS, items, max_size=5).map(of)


VALUES = st.recursive(SCALARS, lambda items: lists(items) | maps(items), max_leaves=20)


@given(VALUES)
def test_every_value_is_read(encoded: Encoded) -> None:
    body = read_content(section(0x77, encoded[0])).body
    value = encoded[1]
    assert (body.decode() if isinstance(value, str) else json.loads(body)) == value


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = b"".join(
        section(draw(st.integers(0x70, 0x78)), draw(VALUES)[0]) for _ in range(draw(st.integers(1, 3)))
    )
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        piece = draw(
            st.binary(max_size=3) | st.sampled_from([b"\xff" * 4, b"\xf0", b"\xe0\2\xff\x41", b"\0" * 9])
        )
        data = data[:place] + piece + data[place + draw(st.integers(0, 3)) :]
    return data


@given(damaged() | st.binary(max_size=60).map(lambda data: b"\0\x53\x77" + data))
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    try:
        content = read_content(data)
    except NotAmqp:
        return
    # An octet becomes an escape at most, and an item of an array that takes none "false" and a comma.
    assert len(content.body) <= 12 * (len(data) + 10_000)


BODIES = st.one_of(
    VALUES.map(lambda one: section(0x77, one[0])),
    st.binary(max_size=4).map(lambda data: section(0x77, short(data))),
    damaged(),
    st.binary(max_size=12).map(lambda data: b"\0\x53\x77" + data),
    st.binary(max_size=20),
)


@given(st.lists(st.tuples(BODIES, st.booleans()), min_size=1, max_size=40))
def test_many_are_read_as_one_is(messages: list[tuple[bytes, bool]]) -> None:
    frames, expected = [], []
    for body, marked in messages:
        mark = b"type:amqp-1.0\n" if marked else b""
        frames.append(b"MESSAGE\n%bcontent-length:%d\n\n%b\0" % (mark, len(body), body))
        begins = len(body) > 3 and body.startswith((b"\0\x53\x75", b"\0\x53\x76", b"\0\x53\x77"))
        try:
            expected.append(read_content(body).body if marked and begins else body)
        except NotAmqp:
            expected.append(body)
    ends = [sum(map(len, frames[: count + 1])) for count in range(len(frames))]
    rules = RowRules(None, "s", marks=dialect_named("rabbitmq").bodies)
    found = decode_frames(
        FrameBatch(b"".join(frames), ends, 0, 0, "1.2"), projection_of("body"), rules, Counter()
    )
    found.validate(full=True)
    assert found.column("body").to_pylist() == expected
