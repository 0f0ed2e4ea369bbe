"""spark_stomp.protocol.raw: where a refused MESSAGE ends, and what of it is readable."""

from __future__ import annotations

import time

import pytest
from support.codec import splits

from spark_stomp.errors import FrameSyntaxError, LimitExceeded, RemoteProtocolError
from spark_stomp.protocol import (
    NEED_DATA,
    VERSIONS,
    Frame,
    FrameScanner,
    Limits,
    MalformedMessage,
    MessageBlock,
    frame_content,
    octet_headers,
    read_malformed,
    read_message,
)
from spark_stomp.protocol.decoder import FrameDecoder

ALL = pytest.mark.parametrize("version", VERSIONS)

BAD = b"MESSAGE\ndestination:/q\nmessage-id:m\nack:7\nid:s\nno colon\ncontent-length:4\n\nbo\0y\0"


def scanned(
    octets: bytes | list[bytes], version: str = "1.2", limits: Limits | None = None
) -> list[MessageBlock | MalformedMessage | Frame]:
    """All events but heart-beats; raises what the scanner raises."""
    scanner = FrameScanner(version, limits, tolerant=True)
    scanner.collect(id_header="id")
    events: list[MessageBlock | MalformedMessage | Frame] = []
    for piece in octets if isinstance(octets, list) else [octets]:
        scanner.receive_data(piece)
        while (event := scanner.next_event()) is not NEED_DATA:
            if isinstance(event, MessageBlock | MalformedMessage | Frame):
                events.append(event)
    return events


def bad_one(octets: bytes, version: str = "1.2", limits: Limits | None = None) -> MalformedMessage:
    (event,) = scanned(octets, version, limits)
    assert isinstance(event, MalformedMessage)
    return event


class TestTheEnd:
    @pytest.mark.parametrize(
        ("lines", "limits", "error"),
        [
            (b"x:" + b"y" * 70_000, Limits(), LimitExceeded),
            (b"\n".join([b"x:1"] * 1_100), Limits(), LimitExceeded),
            (b"a:1\nb:2", Limits(max_headers=1), LimitExceeded),
            (b"x:\\t", Limits(), FrameSyntaxError),
            (b":no name", Limits(), FrameSyntaxError),
            (b"no colon", Limits(), FrameSyntaxError),
            (b"x:a\rb", Limits(), FrameSyntaxError),
        ],
        ids=lambda value: getattr(value, "__name__", ""),
    )
    def test_is_known_whatever_is_wrong_in_the_head(
        self, lines: bytes, limits: Limits, error: type[RemoteProtocolError]
    ) -> None:
        octets = b"MESSAGE\n" + lines + b"\nack:m\n\nbody\0"
        bad = bad_one(octets, limits=limits)
        assert (bad.data, type(bad.error), bad.ack) == (octets, error, b"m")

    @pytest.mark.parametrize(
        "octets",
        [
            pytest.param(b"MESSAGE\nx:a\0b\n\nbody\0", id="a NUL in the head, and nothing declared"),
            pytest.param(b"MESSAGE\nx:a\0b\ncontent-length:2\n\nbody\0", id="no NUL where it is declared"),
            pytest.param(b"MESSAGE\nx:a\0b\ncontent-length:four\n\nbody\0", id="no number"),
            pytest.param(b"MESSAGE\nx:a\0b\ncontent-length:\0\n\nbody\0", id="a length that cannot be read"),
            pytest.param(b"MESSAGE\nx:a\0b\ncontent-length:-1\n\nbody\0", id="less than none"),
            pytest.param(b"MESSAGE\nx:a\0MESSAGE\nmessage-id:m\ncontent-length:0\n\n\0", id="cut off"),
            pytest.param(b"MESSAGE\nx:a\0\r\nERROR\ncontent-length:0\n\n\0", id="cut off before an ERROR"),
            pytest.param(b"ERROR\nx:a\0b\ncontent-length:4\n\nbody\0", id="no MESSAGE"),
            pytest.param(b"MESS\0AGE\ncontent-length:4\n\nbody\0", id="no command"),
        ],
    )
    def test_is_unknown(self, octets: bytes) -> None:
        for pieces in splits(octets):
            with pytest.raises(FrameSyntaxError):
                scanned(pieces)

    @pytest.mark.parametrize(
        ("octets", "enough", "less"),
        [
            (b"x:\\t\ncontent-length:4\n\nbody\0", Limits(max_body=4, max_frame=36), Limits(max_body=3)),
            (b"x:\\t\ncontent-length:4\n\nbody\0", Limits(max_frame=36), Limits(max_frame=35)),
            (b"x:\\t\n\nbody\0", Limits(max_body=4), Limits(max_body=3)),
            (b"x:\\t\n\nbody\0", Limits(max_frame=19), Limits(max_frame=18)),
        ],
    )
    def test_is_known_if_the_frame_is_within_the_limits(
        self, octets: bytes, enough: Limits, less: Limits
    ) -> None:
        for pieces in splits(b"MESSAGE\n" + octets):
            (bad,) = scanned(pieces, limits=enough)
            assert isinstance(bad, MalformedMessage) and bad.data == b"MESSAGE\n" + octets
            with pytest.raises(FrameSyntaxError):
                scanned(pieces, limits=less)

    def test_is_known_without_a_body(self) -> None:
        assert bad_one(b"MESSAGE\nx:\\t\n\n\0", limits=Limits(max_body=0, max_frame=15)).error is not None

    def test_a_body_that_is_too_large_stays_an_error(self) -> None:
        with pytest.raises(LimitExceeded):
            scanned(b"MESSAGE\ncontent-length:4\n\nbody\0", limits=Limits(max_body=3))

    def test_is_found_without_searching_anything_twice(self) -> None:
        """Octet by octet, a head of half a MiB would take minutes if each octet meant another search."""
        octets = b"MESSAGE\nx\0:" + b"y" * 500_000 + b"\ncontent-length:1\n\nb\0"
        began = time.process_time()
        (bad,) = scanned([octets[at : at + 1] for at in range(len(octets))])
        assert isinstance(bad, MalformedMessage) and bad.data == octets
        assert time.process_time() - began < 60


def test_one_of_a_foreign_subscription_is_told_apart() -> None:
    scanner = FrameScanner("1.2", tolerant=True)
    scanner.collect_from("mine")
    scanner.receive_data(BAD.replace(b"id:s", b"subscription:other") + BAD)
    frame = scanner.next_event()
    assert isinstance(frame, Frame)
    assert isinstance(scanner.next_event(), MalformedMessage)
    assert (frame.command, frame.get("subscription"), frame.body) == ("MESSAGE", "other", b"bo\0y")


class TestWhatItIsCalled:
    @pytest.mark.parametrize("version", ["1.0", "1.1"])
    def test_before_1_2_an_ack_names_the_message_id(self, version: str) -> None:
        assert bad_one(BAD, version).ack == b"m"

    def test_in_any_case_in_the_lenient_dialect(self) -> None:
        data = b"message\ndestination\n\xff:\nDESTINATION: /q\nMessage-Id: m\nID: s\nx:\xff\n\n\0"
        bad = bad_one(data, "lenient")
        assert (bad.ack, bad.id, bad.destination, bad.message_id) == (b"m", b"s", "/q", "m")

    def test_raw_for_an_ack_and_unescaped_for_a_person(self) -> None:
        bad = bad_one(b"MESSAGE\ndestination:a\\cb\nmessage-id:m\\n\nack:1\\c2\nid:s\\c\nx\n\n\0")
        assert (bad.ack, bad.id, bad.destination, bad.message_id) == (b"1\\c2", b"s\\c", "a:b", "m\n")

    @pytest.mark.parametrize("value", [b"a\0b", b"a\\t", b"a\rb"])
    def test_by_nothing_that_breaks_a_rule_itself(self, value: bytes) -> None:
        """And not by the next best: an ACK of the message-id would be refused by a broker that sent ack."""
        lines = b"".join(
            b"%b:%b\n" % (name, value) for name in (b"destination", b"ack", b"id", b"message-id")
        )
        bad = bad_one(b"MESSAGE\n" + lines + b"message-id:m\ncontent-length:0\n\n\0")
        assert (bad.ack, bad.id, bad.destination, bad.message_id) == (b"", None, None, None)


class TestTheError:
    def test_names_message_destination_reason_and_remedy(self) -> None:
        error = bad_one(BAD).as_error("/queue/subscribed")
        assert str(error) == (
            "[STOMP_MESSAGE_MALFORMED] message 'm' from /q is malformed: [STOMP_FRAME_MALFORMED] header line "
            "5 of MESSAGE has no colon. It is not acknowledged, so the broker keeps it and redelivers it. "
            "Remove it there, or get it as a row with onMalformed=column"
        )

    def test_quotes_what_the_message_says_in_short(self) -> None:
        frame = b"MESSAGE\ndestination:/q\\n\x1b%b\nmessage-id:\\n%b\ncontent-length:1\nx\n\nb\0"
        text = str(bad_one(frame % (b"d" * 999, b"m" * 999)).as_error("/queue/subscribed"))
        assert text.isprintable()
        assert len(text) < 600

    def test_says_so_if_there_is_no_name_and_no_row_either(self) -> None:
        text = str(bad_one(b"MESSAGE\nx\n\n\0").as_error("/queue/subscribed"))
        assert "message without a readable message-id from /queue/subscribed is malformed" in text
        assert text.endswith("It cannot be a row either, because it has no handle that an ACK could name")


class TestReading:
    @ALL
    def test_the_lines_that_follow_the_rules(self, version: str) -> None:
        readable = read_malformed(b"\n\n" + BAD, version)
        found = {"destination": "/q", "message-id": "m", "ack": "7", "id": "s", "content-length": "4"}
        assert readable == Frame("MESSAGE", tuple(found.items()), b"bo\0y")

    def test_of_countless_lines_the_first_and_those_that_become_columns(self) -> None:
        lines = b"".join(b"%d:\n" % number for number in range(1_100))
        headers = read_malformed(b"MESSAGE\n" + lines + b"destination:/q\n\n\0", "1.2").headers
        assert len(headers) == 1_001
        assert headers[999:] == (("999", ""), ("destination", "/q"))

    def test_a_body_that_looks_like_a_head_stays_a_body(self) -> None:
        assert read_malformed(b"MESSAGE\r\nx\r\n\r\na:b\n\n\0", "1.2") == Frame("MESSAGE", (), b"a:b\n\n")

    def test_a_value_that_is_no_text_is_readable(self) -> None:
        readable = read_malformed(b"MESSAGE\nx\ny:\xff\0\ncontent-length:0\n\n\0", "1.2")
        assert readable.headers == (("y", "ÿ\0"), ("content-length", "0"))


ALMOST_ALL = bytes(octet for octet in range(33, 256) if octet != ord("\\"))
OCTETS = b"MESSAGE\nack:7\nid:s\nx:%b\ncontent-length:4\n\nbo\0y\0"


def block_of(octets: bytes | list[bytes], version: str = "1.2") -> MessageBlock:
    (event,) = scanned(octets, version)
    assert isinstance(event, MessageBlock)
    return event


@pytest.mark.rule("7.10")
class TestValuesThatAreNoText:
    """They are no fault: producers of other protocols send binary values."""

    @ALL
    @pytest.mark.parametrize("value", [b"\xff", b"a\xc3:b\xed\xa0\x80", ALMOST_ALL])
    def test_each_octet_is_a_character(self, value: bytes, version: str) -> None:
        frame = OCTETS % value
        assert block_of(frame, version).data == frame
        read = read_message(frame, version)
        assert (read.get("x") or "").encode("latin-1") == (
            value.lstrip(b" ") if version == "lenient" else value
        )
        assert (read.get("id"), read.body) == ("s", b"bo\0y")
        assert octet_headers(frame, version) == ["x"]
        decoder = FrameDecoder(version)
        decoder.receive_data(frame)
        assert decoder.next_event() == read

    @ALL
    def test_so_is_a_value_with_a_nul_if_the_end_is_declared(self, version: str) -> None:
        value = "ä\0b".encode()
        frame = OCTETS % value
        assert block_of(frame, version).ids == [b"s"]
        assert (read_message(frame, version).get("x") or "").encode("latin-1") == value
        assert octet_headers(frame, version) == ["x"]

    def test_wherever_the_bytes_are_split_and_between_others(self) -> None:
        good, raw = OCTETS % b"ok", OCTETS % b"\xff\0"
        for pieces in splits(good + raw + good):
            data = b"".join(block.data for block in scanned(pieces) if isinstance(block, MessageBlock))
            assert data == good + raw + good

    def test_escapes_are_those_of_the_version(self) -> None:
        frame = OCTETS % b"\xff\\c\\\\"
        assert read_message(frame, "1.2").get("x") == "ÿ:\\"
        assert isinstance(scanned(OCTETS % b"\xff\\t")[0], MalformedMessage)

    @ALL
    def test_different_destinations_stay_different(self, version: str) -> None:
        """In the keys by which a redelivered message is recognised."""
        frames = [b"MESSAGE\ndestination:%b\n\n\0" % name for name in (b"\xff", b"\xfe")]
        assert len({frame_content(frame, version)[0] for frame in frames}) == 2

    @pytest.mark.parametrize("line", [b"\xff:x", b"x\0:y", b"\xff"])
    def test_a_name_that_is_none_is_malformed(self, line: bytes) -> None:
        bad = bad_one(b"MESSAGE\nack:7\n" + line + b"\ncontent-length:0\n\n\0")
        assert bad.ack == b"7"

    @pytest.mark.parametrize("name", [b"ack", b"subscription"])
    def test_what_an_ack_needs_has_no_nul(self, name: bytes) -> None:
        bad = bad_one(b"MESSAGE\n%b:a\0b\ncontent-length:0\n\n\0" % name)
        assert (bad.ack, bad.subscription) == (b"", None)

    def test_what_an_ack_needs_stays_as_it_is_on_the_wire(self) -> None:
        block = block_of(b"MESSAGE\nack:\xff\nsubscription:\xfe\ncontent-length:0\n\n\0")
        assert (block.acks, block.subscriptions) == ([b"\xff"], [b"\xfe"])

    def test_no_other_command_may_have_them(self) -> None:
        for command in (b"ERROR", b"RECEIPT", b"CONNECTED"):
            with pytest.raises(FrameSyntaxError):
                scanned(b"%b\nx:\xff\n\n\0" % command)
