"""EOLs as fast as a peer can send them put off no end (contract 5.5); other deadlines: hostile/.

A heart-beat shows that the connection works. It is no answer, and no message.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.driven import Run
from support.options import source_options
from support.tcp import stomp_server

from spark_stomp.errors import ReceiptTimeout
from spark_stomp.source.planning import Mode
from spark_stomp.source.reads import browse
from spark_stomp.transport import open_connection

FLOOD = b"\n" * (1 << 20)
# Deadlines are a second; a loaded machine may take its time to notice.
SOON = 8.0


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

    with stomp_server(serve) as url:
        yield url
        over.set()


def test_the_receipt_of_disconnect() -> None:
    with flooding() as url, open_connection(source_options(url).connection) as connection:
        begun = time.monotonic()
        with pytest.raises(ReceiptTimeout):
            connection.disconnect(1.0)
        assert time.monotonic() - begun < SOON


def test_the_end_of_a_batch_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes instead of the receipt of DISCONNECT is not read without end."""
    monkeypatch.setattr("spark_stomp.source.reads.DISCONNECT_TIMEOUT", 60.0)
    with flooding(None) as url:
        begun = time.monotonic()
        assert list(browse(source_options(url, idleTimeout="1s"))) == []
        assert time.monotonic() - begun < SOON


@pytest.mark.rule("5.5", "5.6")
@pytest.mark.parametrize(("bound", "idle"), [("1s", "1s"), ("1m", "1s")], ids=["maxDrainTime", "idleTimeout"])
def test_the_end_of_a_drain(bound: str, idle: str) -> None:
    limits = {"maxDrainTime": bound, "idleTimeout": idle}
    with flooding(None) as url, Run({"url": url, "destination": "/queue/a"} | limits) as run:
        run.reader._mode = Mode.DRAIN
        begun = time.monotonic()
        assert run.reader.latestOffset(run.start, None) == run.start
        assert time.monotonic() - begun < SOON
