"""A peer that sends EOLs as fast as it can: no deadline is put off, and nothing grows (contract 5.5).

A heart-beat shows that the connection works. It is no answer, and no message.
"""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from support.driven import Run
from support.options import sink_options, source_options
from support.receivers import LoneReceiver
from support.tcp import tcp_server
from support.waiting import wait_until

from spark_stomp.errors import ConnectTimeout, ReceiptTimeout, StompError
from spark_stomp.schema import SinkColumns
from spark_stomp.sink.task import send_batches
from spark_stomp.source import browse as browsing
from spark_stomp.source.browse import browse
from spark_stomp.source.planning import Mode
from spark_stomp.transport import open_connection

FLOOD = b"\n" * (1 << 20)
BODY = SinkColumns(("body",), False)
# Deadlines are a second; a loaded machine may take its time to notice.
SOON = 8.0


def message(number: int) -> bytes:
    head = b"subscription:0\nmessage-id:%d\nack:%d\ndestination:/queue/a" % (number, number)
    return b"MESSAGE\n%b\n\nx\0" % head


@contextmanager
def flooding(*answers: bytes | None) -> Iterator[str]:
    """A peer that answers each read with the next of ``answers`` (None: with the receipt that is asked for),
    and then floods; yields its URL."""
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        for given in (b"CONNECTED\nversion:1.2\n\n\0", *answers):
            asked = connection.recv(1 << 16)
            while given is None and b"receipt:" not in asked:
                asked += connection.recv(1 << 16)
            receipt = asked.rpartition(b"receipt:")[2].partition(b"\n")[0]
            connection.sendall(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt if given is None else given)
        while not over.is_set():
            connection.sendall(FLOOD)

    with tcp_server(serve) as port:
        yield f"stomp://127.0.0.1:{port}"
        over.set()


def raised_soon(call: Callable[[], object], error: type[StompError]) -> None:
    tracemalloc.start()
    begun = time.monotonic()
    try:
        with pytest.raises(error):
            call()
        assert time.monotonic() - begun < SOON
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_connect_timeout() -> None:
    def serve(connection: socket.socket) -> None:
        while True:
            connection.sendall(FLOOD)

    with tcp_server(serve) as port:
        options = source_options(f"stomp://127.0.0.1:{port}", connectTimeout="1s")
        raised_soon(lambda: open_connection(options.connection), ConnectTimeout)


def test_the_receipt_of_a_subscription() -> None:
    with flooding() as url:
        options = source_options(url, connectTimeout="1s")
        raised_soon(lambda: list(browse(options)), ReceiptTimeout)


def test_the_receipt_of_disconnect() -> None:
    with flooding() as url, open_connection(source_options(url).connection) as connection:
        raised_soon(lambda: connection.disconnect(1.0), ReceiptTimeout)


@pytest.mark.rule("5.5")
def test_receipts_of_the_sink() -> None:
    with flooding() as url:
        options = sink_options(url, destination="/queue/a", receiptTimeout="1s", blockedTimeout="1s")
        rows = pa.RecordBatch.from_pylist([{"body": b"x"}], schema=BODY.arrow_schema)
        raised_soon(lambda: send_batches([rows], BODY, options), ReceiptTimeout)


def test_the_end_of_a_batch_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes instead of the receipt of DISCONNECT is not read without end."""
    monkeypatch.setattr(browsing, "_DISCONNECT_TIMEOUT", 60.0)
    with flooding(None) as url:
        begun = time.monotonic()
        assert list(browse(source_options(url, idleTimeout="1s"))) == []
        assert time.monotonic() - begun < SOON


@pytest.mark.rule("4.7")
def test_receipts_of_acks() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"CONNECTED\nversion:1.2\n\n\0")
        asked = connection.recv(1 << 16)
        receipt = asked.rpartition(b"receipt:")[2].partition(b"\n")[0]
        connection.sendall(b"RECEIPT\nreceipt-id:%b\n\n\0%b" % (receipt, message(1)))
        while True:
            connection.sendall(FLOOD)

    with tcp_server(serve) as port:
        receiver = LoneReceiver(source_options(f"stomp://127.0.0.1:{port}", ackReceiptTimeout="1s"))
        receiver.start()
        try:
            wait_until(lambda: receiver.status().received == 1, what="the message")
            receiver.offer(1)
            receiver.acknowledge(1)
            begun = time.monotonic()
            wait_until(lambda: "ackReceiptTimeout" in (receiver.status().connection.last_error or ""))
            assert time.monotonic() - begun < SOON
        finally:
            receiver.stop(1)


@pytest.mark.rule("5.5", "5.6")
@pytest.mark.parametrize(("bound", "idle"), [("1s", "1s"), ("1m", "1s")], ids=["maxDrainTime", "idleTimeout"])
def test_the_end_of_a_drain(bound: str, idle: str) -> None:
    limits = {"maxDrainTime": bound, "idleTimeout": idle}
    with flooding(None) as url, Run({"url": url, "destination": "/queue/a"} | limits) as run:
        run.reader._mode = Mode.DRAIN
        begun = time.monotonic()
        assert run.reader.latestOffset(run.start, None) == run.start
        assert time.monotonic() - begun < SOON
