"""Keys of frames: they name what the decoder reads."""

from __future__ import annotations

import hashlib

import pytest
from support.keys import key

from spark_stomp.framebatch import FrameBatch
from spark_stomp.protocol import HEARTBEAT, Frame, FrameDecoder
from spark_stomp.receiver.dedup import frame_keys


def batch(data: bytes, ends: list[int], version: str = "1.2") -> FrameBatch:
    return FrameBatch(data, ends, 0, 0, version)


class TestFrameKeys:
    @pytest.mark.rule("4.2")
    def test_destination_id_and_body_make_the_key(self) -> None:
        assert key(b"1") == key(b"1")
        assert len({key(b"1"), key(b"2"), key(b"1", b"other"), key(b"1", destination="/other")}) == 4

    @pytest.mark.rule("4.2")
    def test_headers_and_line_ends_are_not_part_of_it(self) -> None:
        data = b"\n\nMESSAGE\r\nredelivered:true\r\ndestination:/q\r\n\r\nbody\0\n"
        assert frame_keys(batch(data[:-1], [len(data) - 1]), [b"1"]) == [key(b"1")]

    @pytest.mark.rule("7.7")
    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "lenient"])
    @pytest.mark.parametrize("line", [b"x:\0", b"x:\xff", b"x:\\t\0", b"x:a\rb\0", b"x:" + b"y" * 70_000])
    def test_a_malformed_message_has_the_same_on_each_delivery(self, version: str, line: bytes) -> None:
        """Alone or among others."""
        frame = b"MESSAGE\ndestination:/q\n%bredelivered:%b\n" + line + b"\ncontent-length:4\n\nbo\0y\0"
        first, again = frame % (b"", b"false"), frame % (b"ack:7\n", b"true")
        other = b"MESSAGE\ndestination:/q\nx:\xc3\xa4\n\nother\0"
        alone = frame_keys(batch(first, [len(first)], version), [b"1"])
        among = frame_keys(batch(other + again, [len(other), len(other) + len(again)], version), [b"0", b"1"])
        assert alone == [key(b"1", b"bo\0y", "/q")] == among[1:]

    def test_without_an_id_there_is_none(self) -> None:
        assert frame_keys(batch(b"MESSAGE\n\n\0" * 3, [10, 20, 30]), [None, b"", b"1"])[:2] == [None, None]

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "lenient"])
    @pytest.mark.parametrize(
        "head",
        [
            b"destination:/q",
            b"destination:/q\ndestination:/other",
            b"a:b\ndestination:/queue/\xc3\xa4",
            b"destination:/a\\cb",
            b"message-id:ID\\ca\\\\1\ndestination:/q",
            b"x:\xc3\xa4\ndestination:/q",
            b"destination: /q ",
            b"no-destination:/q",
            b"x:y\ndestination:/q\ncontent-length:%d",
        ],
    )
    @pytest.mark.parametrize("body", [b"b\n\nd\nody\n", b"\\c \xc3\xa4\xff\r\n\r\n", b""])
    @pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
    def test_it_has_what_the_decoder_reads(
        self, version: str, head: bytes, body: bytes, line_end: bytes
    ) -> None:
        # Before 1.2 a CR is a part of its line.
        end = line_end if version == "1.2" else b"\n"
        lines = [b"MESSAGE", *(head % len(body) if b"%" in head else head).split(b"\n"), b"", body]
        frame = b"\n\n" + end.join(lines) + b"\0"
        decoder = FrameDecoder(version)
        decoder.receive_data(frame)
        while not isinstance(decoded := decoder.next_event(), Frame):
            assert decoded is HEARTBEAT
        (made,) = frame_keys(batch(frame, [len(frame)], version), [b"1"])
        assert made is not None
        assert made.destination == (decoded.get("destination") or "")
        assert made.body == hashlib.blake2b(decoded.body, digest_size=16).digest()
