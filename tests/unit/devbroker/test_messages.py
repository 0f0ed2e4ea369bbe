from __future__ import annotations

import pytest

from spark_stomp.devbroker.queues import Message, delivered
from spark_stomp.errors import FrameEncodeError
from spark_stomp.protocol import Frame, FrameDecoder


def decoded(data: bytes, version: str) -> Frame:
    decoder = FrameDecoder(version)
    decoder.receive_data(data)
    frame = decoder.next_event()
    assert isinstance(frame, Frame)
    return frame


@pytest.mark.parametrize(("version", "value"), [("1.0", "a\nb"), ("1.1", "a\rb"), ("lenient", "a\nb")])
def test_a_header_that_a_version_cannot_carry_is_left_out(version: str, value: str) -> None:
    message = Message(1, "m", "/q", (("bad", value), ("good", "1")), b"x")
    names = [name for name, _ in decoded(delivered(message, b"", version), version).headers]
    assert names == ["message-id", "destination", "good", "content-length"]
    assert decoded(delivered(message, b"", "1.2"), "1.2").get("bad") == value


def test_a_header_that_no_new_version_can_carry_is_refused() -> None:
    with pytest.raises(FrameEncodeError):
        Message(1, "m", "/q", (("", "nameless"),), b"")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_raw_lines_go_out_as_they_are(version: str) -> None:
    message = Message(1, "m", "/q", (("x", "a\\b"),), b"body", b"bad:\0\n")
    for one in (message, message.copy()):
        assert delivered(one, b"first:1\n", version).startswith(
            b"MESSAGE\nfirst:1\nmessage-id:m\nbad:\0\ndestination:/q\n"
        )
