"""Numbered receipts: many at once, and nothing else read or accepted than by the frame decoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.session import events, send, subscribe

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol import (
    ClientConfig,
    ClientConnection,
    ErrorReceived,
    Event,
    ReceiptReceived,
    ReceiptsReceived,
)

PREFIX = "s"


def connected(awaited: range = range(0), **config: object) -> ClientConnection:
    connection = ClientConnection(ClientConfig(receipt_prefix=PREFIX, **config))  # type: ignore[arg-type]
    connection.connect(0.0)
    connection.receive_data(b"CONNECTED\nversion:1.2\n\n\0", 0.0)
    connection.next_event()
    connection.data_to_send()
    if awaited:
        connection.send_raw(memoryview(b"frames"), awaited)
    return connection


def receipt(number: int, end: bytes = b"\n") -> bytes:
    return b"RECEIPT\nreceipt-id:s%d\n\n\0" % number + end


def numbers(found: list[Event]) -> list[int]:
    return [number for event in found if isinstance(event, ReceiptsReceived) for number in event.numbers]


@given(
    st.lists(st.integers(1, 60), max_size=20), st.lists(st.sampled_from([b"", b"\n", b"\n\n"]), max_size=9)
)
def test_however_the_bytes_are_cut(cuts: list[int], ends: list[bytes]) -> None:
    data = b"".join(receipt(n, end) for n, end in enumerate(ends))
    connection = connected(range(len(ends)))
    found = []
    for cut in cuts:
        connection.receive_data(data[:cut], 0.0)
        found += events(connection)
        data = data[cut:]
    connection.receive_data(data, 0.0)
    found += events(connection)
    assert numbers(found) == list(range(len(ends)))


@pytest.mark.parametrize(
    "receipt_frame",
    [
        b"RECEIPT\r\nreceipt-id:s1\r\n\r\n\0",
        b"RECEIPT\nserver:x\nreceipt-id:s1\n\n\0",
        b"RECEIPT\nreceipt-id:s1\ncontent-length:0\n\n\0",
    ],
)
def test_one_that_looks_different_counts_too(receipt_frame: bytes) -> None:
    connection = connected(range(3))
    connection.receive_data(receipt(0) + receipt_frame + receipt(2), 0.0)
    assert numbers(events(connection)) == [0, 1, 2]


def test_a_receipt_that_is_not_numbered() -> None:
    connection = connected(range(1))
    send(connection, "/queue/a", b"", receipt="soon")
    connection.receive_data(b"RECEIPT\nreceipt-id:soon\n\n\0" + receipt(0), 0.0)
    assert events(connection) == [ReceiptReceived("soon"), ReceiptsReceived([0])]


def test_an_error_comes_after_the_receipts_before_it() -> None:
    connection = connected(range(2))
    connection.receive_data(receipt(0) + b"ERROR\nmessage:no\nreceipt-id:s1\n\n\0" + receipt(1), 0.0)
    first, second = events(connection)
    assert first == ReceiptsReceived([0])
    assert isinstance(second, ErrorReceived)
    assert second.receipt_id == "s1"


@pytest.mark.parametrize("wrong", [[3], [0, 0], [0, 1, 2, 3]])
def test_one_that_is_not_awaited_is_the_brokers_fault(wrong: list[int]) -> None:
    connection = connected(range(3))
    connection.receive_data(b"".join(map(receipt, wrong)), 0.0)
    with pytest.raises(RemoteProtocolError, match="not asked for"):
        events(connection)


def test_frames_go_out_in_order_and_are_not_copied() -> None:
    connection = connected()
    frames = memoryview(b"frames")
    subscribe(connection, "0", "/queue/a")
    connection.send_raw(frames, range(1))
    send(connection, "/queue/a", b"b")
    send(connection, "/queue/a", b"c")
    pieces = []
    while piece := connection.data_to_send():
        pieces.append(piece)
    assert [bytes(piece)[:4] for piece in pieces] == [b"SUBS", b"fram", b"SEND"]
    assert pieces[1] is frames
    assert bytes(pieces[2]).count(b"SEND") == 2
