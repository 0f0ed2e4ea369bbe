"""Heads and bodies of frames: where they begin and end, and the exact path, also of malformed frames."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from support.columns import projection_of

from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.arrow.headers import (
    Area,
    area_of,
    beginnings,
    exact_frames,
    first_feeds,
    line_feeds,
    uniform_headers,
)
from spark_stomp.errors import FrameSyntaxError, MalformedMessageError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import Frame

BAD = b"MESSAGE\ndestination:/q\nmessage-id:m\nid:s\nno colon\ntimestamp:7\ncontent-length:4\n\nbo\0y\0"
LATIN = b"MESSAGE\ndestination:/q\ndestination:/r\nx:\xe9\n\nbody\0"
RULES = RowRules(id_header="id", timestamp_unit="ms")


def decode(data: bytes, *ends: int) -> list[Frame]:
    return exact_frames(area_of(FrameBatch(data, np.array(ends), 0, 0, "1.2", receiver="r")), "1.2")


def test_an_incomplete_frame_is_an_error_rather_than_a_wait() -> None:
    data = b"MESSAGE\na:1\n\0"
    with pytest.raises(FrameSyntaxError):
        decode(data, len(data))
    with pytest.raises(FrameSyntaxError, match="incomplete"):
        decode(b"MESSAGE\na:1\n\n", 13)


def batch(*frames: bytes, reason: str | None = "[CODE] why") -> FrameBatch:
    ends = [sum(map(len, frames[: count + 1])) for count in range(len(frames))]
    return FrameBatch(b"".join(frames), ends, 5, 1_000_000, "1.2", "devbroker", "r", reason)


def rows(of: FrameBatch, *columns: str, text: bool = False) -> list[dict[str, object]]:
    projection = projection_of(*columns, body_as_string=text)
    return list(decode_frames(of, projection, RULES).to_pylist())


@pytest.mark.rule("7.7")
class TestMalformed:
    def test_what_is_readable_and_the_frame_as_body(self) -> None:
        names = ("destination", "message_id", "stable_id", "headers", "body", "malformed", "sequence")
        (row,) = rows(batch(BAD), *names)
        assert row == {
            "destination": "/q",
            "message_id": "m",
            "stable_id": "s",
            "headers": [
                ("destination", "/q"),
                ("message-id", "m"),
                ("id", "s"),
                ("timestamp", "7"),
                ("content-length", "4"),
            ],
            "body": BAD,
            "malformed": "[CODE] why",
            "sequence": 5,
        }

    def test_what_cannot_be_read_is_null(self) -> None:
        (row,) = rows(
            batch(b"MESSAGE\ndestination:\\t\n\n\0"), "destination", "message_id", "timestamp", "malformed"
        )
        assert row == {"destination": None, "message_id": None, "timestamp": None, "malformed": "[CODE] why"}

    def test_the_frame_as_text_where_the_body_is_a_string(self) -> None:
        (row,) = rows(batch(LATIN), "body", "malformed", text=True)
        assert row["body"] == LATIN.decode(errors="replace")

    def test_without_a_column_for_the_reason_it_is_an_error_that_names_it(self) -> None:
        with pytest.raises(MalformedMessageError, match=r"\[CODE\] why.*`malformed`"):
            rows(batch(BAD), "body")

    def test_a_body_that_is_no_text_has_its_reason_in_the_same_column(self) -> None:
        rules = RowRules(id_header=None, timestamp_unit="ms", body_decode_errors="column")
        of = batch(b"MESSAGE\n\n\xff\0", b"MESSAGE\n\ngood\0", reason=None)
        projection = projection_of("malformed", "body", body_as_string=True)
        found = decode_frames(of, projection, rules).to_pylist()
        assert [row["body"] for row in found] == [None, "good"]
        assert found[0]["malformed"].startswith("[STOMP_BODY_UNDECODABLE] ") and found[1]["malformed"] is None


def stretches(area: Area) -> list[bytes]:
    octets = area.array.tobytes()
    return [octets[start:stop] for start, stop in zip(area.starts, area.stops, strict=True)]


def test_a_memoryview_is_not_copied() -> None:
    data = bytearray(b"xxMESSAGE\n\n\0")
    view = memoryview(data)[2:]
    area = area_of(FrameBatch(view, np.array([len(view)]), 0, 0, "1.2", receiver="r"))
    assert stretches(area) == [b"MESSAGE\n\n"]
    assert np.shares_memory(area.array, np.frombuffer(data, np.uint8))


def test_of_long_bodies_little_is_copied() -> None:
    short, frame = b"MESSAGE\nshort:1\n\n", b"MESSAGE\na:b\n\n" + b"\n" * 10_000 + b"\0"
    found = stretches(beginnings(area_of(batch(*[frame] * 3, short + b"\0"))))
    assert found == [frame[: 2 * len(short) + 1024]] * 3 + [short]


def test_line_feeds_are_found_wherever_a_stretch_that_is_searched_at_a_time_ends() -> None:
    octets = np.full(700_000, ord("x"), np.uint8)
    places = [0, 1, 262_143, 262_144, 262_145, 524_287, 524_288, 699_999]
    octets[places] = ord("\n")
    found = line_feeds(octets)
    assert (found.tolist(), found.dtype) == (places, np.int32)


def test_a_short_line_at_the_end_of_2_gib() -> None:
    """Its name would end beyond 32 bits. The bytes are not made: only the positions of their LFs are read."""
    name, end = b"n" * 30, 2**31 - 1
    octets = b"MESSAGE\n" + name + b":1\n\n\0"
    starts, stops = np.array([0, end - 24]), np.array([len(octets) - 1, end - 1])
    area = Area(np.frombuffer(octets, np.uint8), pa.py_buffer(octets), starts, stops)
    lf = np.array([7, 40, 41, end - 16, end - 6, end - 5], np.int32)
    found = uniform_headers(area, lf, first_feeds(area, lf), "1.2")
    assert found is not None
    assert found.rows.tolist() == [0]
    assert found.headers.column(name.decode()).to_pylist() == ["1"]
