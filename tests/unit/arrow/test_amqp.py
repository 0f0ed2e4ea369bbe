"""spark_stomp.arrow.amqp: sections and values of AMQP 1.0 (OASIS, October 2012, parts 1 and 3)."""

from __future__ import annotations

import base64
import tracemalloc
import uuid

import pytest
from support.amqp import compound, section, short, wide

from spark_stomp.arrow.amqp import Content, NotAmqp, read_content

ID = uuid.UUID("2f1c8a54-3a37-4d1e-9c3b-7d3b0f4a1e22")


def value(encoded: bytes) -> Content:
    return read_content(section(0x77, encoded))


@pytest.mark.parametrize(
    ("encoded", "kind", "body"),
    [
        (short("ä"), "string", "ä".encode()),
        (b"\xb1\0\0\0\2ab", "string", b"ab"),
        (short(b"\xff\0", 0xA0), "binary", b"\xff\0"),
        (b"\xb0\0\0\0\1\xff", "binary", b"\xff"),
        (short("a", 0xA3), "value", b'"a"'),
        (short(b"\xff"), "string", b"\xff"),
        (b"\x40", "null", b"null"),
        (b"\x41", "boolean", b"true"),
        (b"\x42", "boolean", b"false"),
        (b"\x56\1", "boolean", b"true"),
        (b"\x50\xff", "number", b"255"),
        (b"\x51\xff", "number", b"-1"),
        (b"\x60\1\0", "number", b"256"),
        (b"\x61\xff\0", "number", b"-256"),
        (b"\x43", "number", b"0"),
        (b"\x52\7", "number", b"7"),
        (b"\x70\xff\xff\xff\xff", "number", b"4294967295"),
        (b"\x54\xff", "number", b"-1"),
        (b"\x71\x80\0\0\0", "number", b"-2147483648"),
        (b"\x44", "number", b"0"),
        (b"\x53\x09", "number", b"9"),
        (b"\x80" + b"\xff" * 8, "number", b"18446744073709551615"),
        (b"\x55\xfe", "number", b"-2"),
        (b"\x81\x80" + bytes(7), "number", b"-9223372036854775808"),
        (b"\x72\x3f\x8c\xcc\xcd", "number", b"1.1"),
        (b"\x82\x3f\xf1\x99\x99\x99\x99\x99\x9a", "number", b"1.1"),
        (b"\x82\x7f\xf8" + bytes(6), "number", b'"NaN"'),
        (b"\x72\xff\x80\0\0", "number", b'"-Infinity"'),
        (b"\x73\0\1\xf6\0", "value", '"\U0001f600"'.encode()),
        (b"\x83" + (1_700_000_000_123).to_bytes(8, "big"), "value", b'"2023-11-14T22:13:20.123Z"'),
        (b"\x83" + bytes([0x7F] + [0xFF] * 7), "number", b"9223372036854775807"),
        (b"\x98" + ID.bytes, "value", b'"%b"' % str(ID).encode()),
        (b"\x74\1\2\3\4", "value", b'"%b"' % base64.b64encode(b"\1\2\3\4")),
        (b"\x45", "list", b"[]"),
        (
            compound(0xC0, b"\x54\1", short("a"), short(b"\xff", 0xA0), b"\x40"),
            "list",
            b'[1,"a","/w==",null]',
        ),
        (b"\xd0\0\0\0\x06\0\0\0\1\x54\1", "list", b"[1]"),
        (compound(0xC1, short("k"), b"\x54\1", short("l", 0xA3), b"\x45"), "map", b'{"k":1,"l":[]}'),
        (compound(0xC1), "map", b"{}"),
        (compound(0xC1, b"\x54\1", b"\x42"), "map", b"[[1,false]]"),
        (compound(0xC1, short("k"), b"\x54\1", short("k"), b"\x54\2"), "map", b'[["k",1],["k",2]]'),
        (compound(0xE0, b"\1", b"\2", more=b"\x54"), "list", b"[1,2]"),
        (compound(0xE0, b"\1a", b"\0", more=b"\xa1"), "list", b'["a",""]'),
        (b"\xe0\2\3\x41", "list", b"[true,true,true]"),
        (compound(0xE0, b"\1", more=b"\0\xa3\1d\x54"), "list", b'[{"descriptor":"d","value":1}]'),
        (b"\0\x53\7\x54\1", "value", b'{"descriptor":7,"value":1}'),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else value,
)
def test_values(encoded: bytes, kind: str, body: bytes) -> None:
    assert value(encoded) == Content(body, kind)


DATA = section(0x75, short(b"a", 0xA0)), section(0x75, short(b"\xff", 0xA0))
SEQUENCE = (
    section(0x76, compound(0xC0, b"\x54\1")),
    section(0x76, b"\x45"),
    section(0x76, compound(0xC0, b"\x40")),
)
PROPERTIES = section(0x73, compound(0xC0, b"\x53\7", b"\x40", short("to"), b"\x40", short("/queue/r")))
APPLICATION = section(0x74, compound(0xC1, short("n"), b"\x54\1", short("t"), b"\x41", short("z"), b"\x40"))
OCTETS = section(0x74, compound(0xC1, short("a"), short("ä", 0xA0), short("b"), short(b"\xff", 0xA0)))


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"", Content(b"", "nothing")),
        (OCTETS, Content(b"", "nothing", (("a", "ä"), ("b", "ÿ")))),
        (DATA[0] + DATA[1], Content(b"a\xff", "data")),
        (b"".join(SEQUENCE), Content(b"[1,null]", "sequence")),
        (DATA[0] + section(0x78, compound(0xC1)), Content(b"a", "data")),
        (
            b"".join(
                [
                    section(0x70, b"\x45"),
                    section(0x71, compound(0xC1)),
                    section(0x72, compound(0xC1, short("x-opt-a", 0xA3), b"\x41")),
                    PROPERTIES,
                    APPLICATION,
                    section(0x77, short("text")),
                ]
            ),
            Content(
                b"text",
                "string",
                (("amqp-message-id", "7"), ("to", "to"), ("reply-to", "/queue/r"), ("n", "1"), ("t", "true")),
            ),
        ),
        (
            b"\0\x80" + bytes(7) + b"\x77" + short("long descriptor"),
            Content(b"long descriptor", "string"),
        ),
        (b"\0" + short("amqp:amqp-value:*", 0xA3) + short("named"), Content(b"named", "string")),
    ],
)
def test_sections(data: bytes, content: Content) -> None:
    assert read_content(data) == content


DEEP = b"\x45"
for _ in range(60):
    DEEP = wide(0xD0, DEEP)
DESCRIBED = b"\x41"  # a constructor, and then an item
for _ in range(40):
    DESCRIBED = b"\xf0" + wide(0xF0, b"", more=b"\0\x43" * 60 + DESCRIBED)[1:]


@pytest.mark.parametrize(
    "data",
    [
        b"text",
        b"\0",
        b"\0\x53",
        b"\x40",
        section(0x77, b""),
        section(0x77, b"\x54\1") + section(0x77, b"\x54\1"),
        section(0x77, b"\x54\1") + b"x",
        section(0x77, b"\x54\1") + DATA[0],
        DATA[0] + PROPERTIES,
        section(0x79, b"\x40"),
        section(0x74, compound(0xC1, short("n"), short(b"\xff"))) + DATA[0],
        section(0x75, b"\x40"),
        section(0x76, b"\x40"),
        b"\0" + short("amqp:unknown", 0xA3) + b"\x40",
        *(
            section(0x77, encoded)
            for encoded in (
                b"\x01",
                b"\xa1\5abc",
                compound(0xC0, b"\xa1\1\xff"),
                b"\xa3\1\xff",
                b"\xb1\xff\xff\xff\xffabc",
                b"\x56\2",
                b"\x73\0\0\xd8\0",
                b"\xc0\2\2\x40",
                b"\xc0\3\1\x40",
                b"\xd0\0\0\0\4\xff\xff\xff\xff",
                b"\xc1\2\1\x40",
                b"\xe0\2\xff\x54",
                b"\xf0\0\0\0\5\xff\xff\xff\xff\x41",
                b"\xf0\0\0\0\5\xff\xff\xff\xff\x45",
                *(bytes([code]) + b"\xff" * 8 + b"\x41" for code in (0xD0, 0xD1, 0xF0)),
                b"\xf0\xff\xff\xff\xff\x0f\xff\xff\xff\x41",
                compound(0xE0, more=b"\0\x40" * 70 + b"\x40"),
                wide(0xF0, *[b""] * 100, more=b"\0\xb3\0\1\0\0" + bytes(0x1_0000) + b"\x41"),
                compound(0xE0, more=b"\0\x45\x41"),
                DESCRIBED,
                b"\0" * 70,
                b"\0" * 100,
            )
        ),
    ],
    ids=lambda data: data.hex()[:60],
)
def test_what_is_none_ends_in_a_reason_that_takes_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(NotAmqp):
            read_content(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_values_deep_in_one_another() -> None:
    assert value(DEEP).body == b"[" * 61 + b"]" * 61
    with pytest.raises(NotAmqp, match="deep"):
        value(wide(0xD0, wide(0xD0, wide(0xD0, wide(0xD0, DEEP)))))


def test_the_values_of_a_message_are_bounded() -> None:
    array = b"\xf0\0\0\0\5\0\0\x10\0\x41"
    assert len(value(array).body) == 5 * 0x1000 + 1
    for data in (wide(0xD0, *[array] * 5), wide(0xD0, *[b"\x45"] * 1_000_000)):
        with pytest.raises(NotAmqp, match="too many values"):
            value(data)
