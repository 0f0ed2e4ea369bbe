"""The wire-speed broker of the benchmarks."""

from __future__ import annotations

from benchmarks.wire_broker import Frames, Session, WireBroker

from spark_stomp.protocol import NEED_DATA, Frame, FrameDecoder


def decoded(data: bytes) -> list[Frame]:
    decoder = FrameDecoder("1.2")
    decoder.receive_data(data)
    frames = []
    while (event := decoder.next_event()) is not NEED_DATA:
        assert isinstance(event, Frame)
        frames.append(event)
    return frames


def everything(session: Session) -> list[Frame]:
    """What it sends until it waits for the client."""
    return decoded(b"".join(iter(session.next_data, b"")))


def subscribed(messages: int, window: int, frames: Frames | None = None) -> Session:
    session = Session(WireBroker(messages, window, frames or Frames()))
    session.receive(b"CONNECT\naccept-version:1.2\n\n\0SUBSCRIBE\nid:0\nreceipt:r-1\n\n\0")
    return session


def test_a_window_of_messages_comes_after_the_answers() -> None:
    first, second, *messages = everything(subscribed(messages=10, window=4))
    assert (first.command, second.command) == ("CONNECTED", "RECEIPT")
    assert dict(second.headers)["receipt-id"] == "r-1"
    assert [dict(message.headers)["ack"] for message in messages] == [f"{number:010}" for number in range(4)]


def test_each_ack_makes_room_for_one_however_it_is_cut() -> None:
    session = subscribed(messages=10, window=4)
    everything(session)
    session.receive(b"ACK\nid:0000000000\n\n\0ACK\nid:00000")
    assert [dict(message.headers)["message-id"] for message in everything(session)] == [
        "ID:bench-1-0000000004"
    ]
    session.receive(b"00001\nreceipt:r-2\n\n\0")
    receipt, message = everything(session)
    assert dict(receipt.headers)["receipt-id"] == "r-2"
    assert dict(message.headers)["ack"] == "0000000005"


def test_the_end_of_a_connection_is_no_beginning() -> None:
    session = subscribed(messages=10, window=4)
    everything(session)
    session.receive(b"UNSUBSCRIBE\nid:0\n\n\0DISCONNECT\nreceipt:bye\n\n\0")
    assert [frame.command for frame in everything(session)] == ["RECEIPT"]


def test_it_ends_with_the_last_message() -> None:
    assert len(everything(subscribed(messages=3, window=100))) == 2 + 3


def test_frames_have_the_headers_and_the_body_asked_for() -> None:
    for headers, body in ((10, 235), (40, 0), (12, 3 << 20)):
        session = subscribed(messages=2, window=2, frames=Frames(body=body, headers=headers))
        for message in everything(session)[2:]:
            assert len(message.headers) == headers
            assert len(message.body) == body
