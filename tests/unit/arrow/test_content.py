"""Rows of messages from other protocols: headers that are no text, bodies that are encoded or left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.amqp import compound, section, short
from support.columns import projection_of

from spark_stomp.arrow import Flaw, RowRules, decode_frames
from spark_stomp.arrow.content import open_frame
from spark_stomp.brokers import dialect_named
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import read_message
from spark_stomp.source.reads import RowSettings

COLUMNS = ("destination", "content_type", "headers", "body", "malformed")
Row = dict[str, Any]


def frame(body: bytes, *lines: str, length: bool = True) -> bytes:
    declared = f"content-length:{len(body)}\n" if length else ""
    head = "".join(f"{line}\n" for line in ("destination:/queue/a", *lines))
    return f"MESSAGE\n{head}{declared}\n".encode("latin-1") + body + b"\0"


def rows(
    broker: str, *frames: bytes, amqp: bool = True, text: bool = False
) -> tuple[list[Row], Mapping[Flaw, int]]:
    flaws: Counter[Flaw] = Counter()
    projection = projection_of(*COLUMNS, body_as_string=text)
    settings = RowSettings(projection, None, "column" if text else "error", decodes_amqp=amqp)
    ends = [sum(map(len, frames[: count + 1])) for count in range(len(frames))]
    batch = FrameBatch(b"".join(frames), ends, 0, 0, "1.2", broker)
    found = decode_frames(batch, projection, settings.rules(dialect_named(broker)), flaws)
    found.validate(full=True)
    return found.to_pylist(), flaws


def bodies(broker: str, *frames: bytes, **how: bool) -> list[bytes]:
    return [row["body"] for row in rows(broker, *frames, **how)[0]]


LONG = bytes(range(1, 256)) * 3
AMQP = "type:amqp-1.0"


@pytest.mark.rule("7.11")
@pytest.mark.parametrize("count", [1, 40])
class TestSections:
    def test_text_and_octets_behind_their_constructors(self, count: int) -> None:
        frames = [
            frame(b"\0Sw\xa1\3abc", AMQP),
            frame(b"\0Sw\xa0\3\xff\0\1", AMQP),
            frame(b"\0Sw\xb1\0\0\2\x58" + "ä".encode() * 300, AMQP),
            frame(b"\0Sw\xb0\0\0\2\xfd" + LONG, AMQP),
            frame(b"\0Sw\xb0\0\0\0\0", AMQP),
            frame(b"\0Sw\xa1\0", AMQP),
        ] * count
        found, flaws = rows("rabbitmq", *frames)
        assert [row["body"] for row in found] == [
            b"abc",
            b"\xff\0\1",
            "ä".encode() * 300,
            LONG,
            b"",
            b"",
        ] * count
        assert not flaws and all(row["malformed"] is None for row in found)

    def test_other_values_are_json_among_plain_bodies(self, count: int) -> None:
        """In layouts of their own, and together in one."""
        frames = [
            frame(b"plain", "type:x"),
            frame(section(0x77, compound(0xC1, short("a"), b"\x54\5")), AMQP),
            frame(b"\0Sv\xc0\3\1\x54\1", AMQP),
            frame(b"plain"),
            frame(b"\0Sw\xa1\3abc", AMQP),
            frame(b"\0Sw\x41", AMQP, "x:\xff"),
        ] * count
        found, flaws = rows("rabbitmq", *frames)
        expected = [b"plain", b'{"a":5}', b"[1]", b"plain", b"abc", b"true"]
        assert [row["body"] for row in found] == expected * count
        assert flaws == {Flaw("headers_not_text", "/queue/a", "rabbitmq"): count}

    def test_as_text(self, count: int) -> None:
        frames = [frame(b"\0Sw\xa1\2\xc3\xa4", AMQP), frame(b"\0Sw\x54\1", AMQP)] * count
        assert bodies("rabbitmq", *frames, text=True) == ["ä", "1"] * count

    def test_raw_on_demand(self, count: int) -> None:
        body = b"\0Sw\xa1\3abc"
        assert bodies("rabbitmq", *[frame(body, AMQP)] * count, amqp=False) == [body] * count


@pytest.mark.parametrize(
    "body",
    [
        b"\0Sw\xa1\4abc",
        b"\0Sw\xa1\2abc",
        b"\0Sw\xb1\0\0\0\4abc",
        b"\0Sw\x01",
        b"\0Sw\xa1",
        b"\0Sw\xb1\0\0",
    ],
)
def test_what_does_not_parse_stays_as_it_came_and_has_a_reason(body: bytes) -> None:
    (row,), flaws = rows("rabbitmq", frame(body, AMQP))
    assert row["body"] == body
    assert row["malformed"].startswith("[STOMP_BODY_UNDECODABLE] the body is marked as AMQP 1.0")
    assert flaws == {Flaw("bodies_undecoded", "/queue/a", "rabbitmq"): 1}


@pytest.mark.parametrize(
    ("broker", "lines"),
    [("rabbitmq", []), ("rabbitmq", ["type:other"]), ("activemq", [AMQP]), ("generic", [AMQP])],
)
def test_octets_alone_say_nothing_where_the_broker_marks_such_bodies(broker: str, lines: list[str]) -> None:
    body = b"\0Sw\xa1\3abc"
    assert bodies(broker, frame(body, *lines)) == [body]


@pytest.mark.rule("7.11")
class TestArtemis:
    def test_a_value_whose_octets_may_be_others(self) -> None:
        value, text = b"\0Sw\x42", frame(b"text", "JMS_AMQP_HEADER:true", "JMS_AMQP_ORIGINAL_ENCODING:5")
        found, flaws = rows("artemis", frame(value, "JMS_AMQP_HEADER:true"), text, frame(value))
        assert [row["body"] for row in found] == [value, b"text", value]
        assert "neither text nor octets" in found[0]["malformed"]
        assert found[1]["malformed"] is None and found[2]["malformed"] is None
        assert flaws == {Flaw("bodies_lost", "/queue/a", "artemis"): 1}

    def test_content_that_it_leaves_out(self) -> None:
        lost = frame(b"\0", "JMS_AMQP_ORIGINAL_ENCODING:7")
        kept = frame(b"text", "JMS_AMQP_ORIGINAL_ENCODING:5")
        serialized = frame(b"", "JMS_AMQP_ContentType:application/x-java-serialized-object")
        found, flaws = rows(
            "artemis", lost, kept, serialized, frame(b"\0", "__AMQ_CID:c"), frame(b""), frame(b"\1")
        )
        reasons = [row["malformed"] for row in found]
        assert "the broker has left the content out, a map of AMQP" in reasons[0]
        assert "an object of JMS" in reasons[2]
        assert "a map of JMS (by its octets)" in reasons[3]
        assert reasons[1] is None and reasons[4:] == [None, None]
        assert flaws == {
            Flaw("bodies_lost", "/queue/a", "artemis"): 3,
            Flaw("bodies_hollow", "/queue/a", "artemis"): 1,
        }

    @pytest.mark.parametrize(
        ("body", "is_map"),
        [
            ("\0\u0c00", True),
            ("\0\u0200\u7300", True),
            ("\0\u0600\u7300\u7900", True),
            ("\0", True),
            ("\0\0", False),
            ("\0a\u0c00", False),
            ("\u0c00", False),
        ],
    )
    def test_a_map_of_jms_is_known_by_its_octets(self, body: str, is_map: bool) -> None:
        of_jms, other = frame(body.encode(), "__AMQ_CID:c"), frame(body.encode())
        found, _ = rows("artemis", of_jms, other)
        assert [row["body"] for row in found] == [body.encode()] * 2
        assert [row["malformed"] is not None for row in found] == [is_map, False]

    def test_an_empty_text_is_none_of_them(self) -> None:
        _, flaws = rows("artemis", frame(b"", "JMS_AMQP_ORIGINAL_ENCODING:5"))
        assert not flaws


NATIVE = b"".join(
    [
        section(0x70, compound(0xC0, b"\x41")),
        section(0x73, compound(0xC0, short("m1"), b"\x40", b"\x40", short("sub"))),
        section(0x74, compound(0xC1, short("n"), b"\x54\7", short("t"), short("v"))),
        section(0x77, short("hello")),
    ]
)


@pytest.mark.rule("7.11")
class TestActiveMQ:
    def test_a_whole_message(self) -> None:
        """Headers of the frame come first: of repeated ones the first counts."""
        native = frame(NATIVE, "message-id:b", "JMS_AMQP_NATIVE:true", "n:first")
        plain = frame(b"x", "message-id:c", length=False)
        found, flaws = rows("activemq", plain, native, plain, native)
        assert [row["body"] for row in found] == [b"x", b"hello"] * 2
        headers = dict(found[1]["headers"])
        assert headers["amqp-message-id"] == "m1" and headers["subject"] == "sub"
        assert (headers["message-id"], headers["n"], headers["t"]) == ("b", "first", "v")
        assert not flaws

    def test_an_object_in_a_whole_message_is_not_left_out(self) -> None:
        java = section(0x75, short(b"\xac\xed\0\5", 0xA0))
        kind = "JMS_AMQP_ContentType:application/x-java-serialized-object"
        (row,), flaws = rows("activemq", frame(java, "JMS_AMQP_NATIVE:true", kind))
        assert (row["body"], row["malformed"], flaws) == (b"\xac\xed\0\5", None, {})

    def test_a_whole_message_is_not_lost_whatever_its_own_properties_say(self) -> None:
        (row,), flaws = rows(
            "activemq", frame(NATIVE, "JMS_AMQP_NATIVE:true", "JMS_AMQP_ORIGINAL_ENCODING:7")
        )
        assert (row["body"], row["malformed"]) == (b"hello", None)
        assert not flaws

    @pytest.mark.parametrize(
        "left_out",
        ["JMS_AMQP_ContentType:application/x-java-serialized-object", "JMS_AMQP_ORIGINAL_ENCODING:7"],
    )
    @pytest.mark.parametrize("body", [NATIVE, b""])
    def test_a_whole_message_that_stays_encoded_has_lost_nothing(self, left_out: str, body: bytes) -> None:
        (row,), flaws = rows("activemq", frame(body, "JMS_AMQP_NATIVE:true", left_out), amqp=False)
        assert (row["body"], row["malformed"], flaws) == (body, None, {})

    def test_one_that_cannot_be_decoded(self) -> None:
        (row,), flaws = rows("activemq", frame(b"\0Sp", "JMS_AMQP_NATIVE:true"))
        assert row["body"] == b"\0Sp" and "cannot be decoded" in row["malformed"]
        assert flaws == {Flaw("bodies_undecoded", "/queue/a", "activemq"): 1}

    def test_raw_on_demand(self) -> None:
        assert bodies("activemq", frame(b"\0Sp", "JMS_AMQP_NATIVE:true"), amqp=False) == [b"\0Sp"]

    def test_a_map_that_the_connector_has_left_out(self) -> None:
        (row,), flaws = rows("activemq", frame(b"", "JMS_AMQP_ORIGINAL_ENCODING:7", length=False))
        assert "a map of AMQP" in row["malformed"] and "jms-xml" in row["malformed"]
        assert flaws == {Flaw("bodies_lost", "/queue/a", "activemq"): 1}

    def test_empty_ones_are_counted_if_they_may_have_been_a_map(self) -> None:
        _, flaws = rows(
            "activemq", frame(b"", length=False), frame(b""), frame(b"\0"), frame(b"", length=False)
        )
        assert flaws == {Flaw("bodies_hollow", "/queue/a", "activemq"): 2}


@pytest.mark.parametrize(
    ("broker", "lines", "found"),
    [
        ("rabbitmq", ["content-type:a"], "a"),
        ("artemis", ["JMS_AMQP_ContentType:a"], "a"),
        ("artemis", ["mqtt.content.type:a"], "a"),
        ("artemis", ["JMS_AMQP_ContentType:b", "content-type:a"], "a"),
        ("activemq", ["JMS_AMQP_ContentType:text/plain; charset=latin-1"], "text/plain; charset=latin-1"),
        ("rabbitmq", ["JMS_AMQP_ContentType:a"], None),
    ],
)
def test_the_content_type_is_the_producers(broker: str, lines: list[str], found: str | None) -> None:
    ((row, plain), _) = rows(broker, frame(b"\xe4", *lines), frame(b"x"), text="latin" in str(found))
    assert (row["content_type"], plain["content_type"]) == (found, None)
    assert row["body"] in (b"\xe4", "ä")


@pytest.mark.rule("7.10")
class TestHeadersThatAreNoText:
    def test_the_row_has_the_octets_and_the_rest_as_ever(self) -> None:
        octets = bytes(octet for octet in range(1, 256) if chr(octet) not in "\n\r\\:")
        found, flaws = rows(
            "rabbitmq", frame(b"body", "x-correlation-id:" + octets.decode("latin-1"), "y:\xe4"), frame(b"b")
        )
        assert dict(found[0]["headers"])["x-correlation-id"].encode("latin-1") == octets
        assert found[0]["body"] == b"body" and found[1]["malformed"] is None
        assert found[0]["malformed"].startswith("[STOMP_HEADER_NOT_TEXT] ")
        assert "'x-correlation-id', 'y'" in found[0]["malformed"]
        assert flaws == {Flaw("headers_not_text", "/queue/a", "rabbitmq"): 1}

    @pytest.mark.parametrize("count", [1, 40])
    def test_a_nul_makes_octets_of_text(self, count: int) -> None:
        """Otherwise two values of a producer would be one."""
        values = [b"\0\xc3\xbc", b"\0\xfc", b"\xc3\xbc", b"a"]
        frames = [frame(b"body", "x:" + value.decode("latin-1")) for value in values]
        found, _ = rows("rabbitmq", *frames * count)
        shown = [dict(row["headers"])["x"] for row in found]
        assert shown == ["\0\xc3\xbc", "\0\xfc", "ü", "a"] * count
        assert [row["malformed"] is None for row in found] == [False, False, True, True] * count

    def test_bodies_are_not_looked_at_if_nobody_asks_for_them(self) -> None:
        flaws: Counter[Flaw] = Counter()
        rules = RowRules(None, "ms", marks=replace(dialect_named("activemq").bodies))
        batch = FrameBatch(one := frame(b"", length=False), [len(one)], 0, 0, "1.2", "activemq")
        decode_frames(batch, projection_of("destination"), rules, flaws)
        assert not flaws


class TestOneFrame:
    """As `peek` shows it."""

    @pytest.mark.parametrize(
        ("broker", "body", "lines", "shown", "amqp_type"),
        [
            ("rabbitmq", b"\0Sw\xa1\3abc", [AMQP], b"abc", "string"),
            ("rabbitmq", b"\0Sw\x41", [AMQP], b"true", "boolean"),
            ("rabbitmq", b"\0Sw\x41", [], b"\0Sw\x41", None),
            ("activemq", NATIVE, ["JMS_AMQP_NATIVE:true"], b"hello", "string"),
            ("activemq", b"", [], b"", None),
        ],
    )
    def test_its_body_and_what_that_is(
        self, broker: str, body: bytes, lines: list[str], shown: bytes, amqp_type: str | None
    ) -> None:
        found = open_frame(read_message(frame(body, *lines), "1.2"), dialect_named(broker).bodies)
        assert (found.frame.body, found.amqp_type, found.reason) == (shown, amqp_type, None)
        assert found.frame.get("destination") == "/queue/a"

    @pytest.mark.parametrize(
        ("broker", "body", "line"),
        [
            ("rabbitmq", b"\0Sw\x01", AMQP),
            ("activemq", b"\0Sp", "JMS_AMQP_NATIVE:true"),
            ("artemis", b"\0", "JMS_AMQP_ORIGINAL_ENCODING:7"),
        ],
    )
    def test_why_it_is_not_what_was_sent(self, broker: str, body: bytes, line: str) -> None:
        found = open_frame(read_message(frame(body, line), "1.2"), dialect_named(broker).bodies)
        assert (found.frame.body, found.amqp_type) == (body, None)
        assert found.reason == rows(broker, frame(body, line))[0][0]["malformed"]


@pytest.mark.rule("7.11")
@pytest.mark.parametrize("broker", ["rabbitmq", "activemq", "artemis", "generic"])
def test_a_map_of_stompjms(broker: str) -> None:
    """Its body is a java.util.HashMap for Java alone."""
    java, marked = b"\xac\xed\0\5sr\0\x11java.util.HashMap", "transformation:MAP"
    frames = (
        frame(java, marked),
        frame(java),
        frame(b"{}", marked),
        frame(b"\xac", marked),
        frame(java, "transformation:x"),
    )
    found, flaws = rows(broker, *frames)
    assert [row["body"] for row in found] == [java, java, b"{}", b"\xac", java]
    assert [row["malformed"] is not None for row in found] == [True, False, False, False, False]
    assert "a map of StompJMS, as Java serializes it" in found[0]["malformed"]
    assert flaws == {Flaw("bodies_undecoded", "/queue/a", broker): 1}
