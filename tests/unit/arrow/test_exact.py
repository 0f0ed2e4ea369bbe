"""The exact path: frames decoded one by one, and malformed ones as far as they can be read."""

from __future__ import annotations

import numpy as np
import pytest

from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.arrow.headers import area_of, exact_frames
from spark_stomp.columns import Projection
from spark_stomp.errors import FrameSyntaxError, MalformedMessageError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import Frame

NUL = b"MESSAGE\ndestination:/q\nmessage-id:m\nid:s\nx:a\0b\ntimestamp:7\ncontent-length:4\n\nbo\0y\0"
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
    projection = Projection.of(*columns, body_as_string=text)
    return list(decode_frames(of, projection, RULES).to_pylist())


@pytest.mark.rule("7.7")
class TestMalformed:
    def test_what_is_readable_and_the_frame_as_body(self) -> None:
        names = ("destination", "message_id", "stable_id", "headers", "body", "malformed", "sequence")
        (row,) = rows(batch(NUL), *names)
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
            "body": NUL,
            "malformed": "[CODE] why",
            "sequence": 5,
        }

    def test_what_cannot_be_read_is_null(self) -> None:
        (row,) = rows(
            batch(b"MESSAGE\ndestination:\xff\n\n\0"), "destination", "message_id", "timestamp", "malformed"
        )
        assert row == {"destination": None, "message_id": None, "timestamp": None, "malformed": "[CODE] why"}

    def test_the_frame_as_text_where_the_body_is_a_string(self) -> None:
        (row,) = rows(batch(LATIN), "body", "malformed", text=True)
        assert row["body"] == LATIN.decode(errors="replace")

    def test_without_a_column_for_the_reason_it_is_an_error_that_names_it(self) -> None:
        with pytest.raises(MalformedMessageError, match=r"\[CODE\] why.*`malformed`"):
            rows(batch(NUL), "body")

    def test_a_body_that_is_no_text_has_its_reason_in_the_same_column(self) -> None:
        rules = RowRules(id_header=None, timestamp_unit="ms", body_decode_errors="column")
        of = batch(b"MESSAGE\n\n\xff\0", b"MESSAGE\n\ngood\0", reason=None)
        projection = Projection.of("malformed", "body", body_as_string=True)
        found = decode_frames(of, projection, rules).to_pylist()
        assert [row["body"] for row in found] == [None, "good"]
        assert found[0]["malformed"].startswith("[STOMP_BODY_UNDECODABLE] ") and found[1]["malformed"] is None
