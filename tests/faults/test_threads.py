"""A thread that meets what nobody expected: its owner learns it by an error with a code (contract 7.1)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from support.driven import Run
from support.options import sink_options
from support.slices import encoded
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import DeliveryError, FrameServerError, JournalError, StompError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import FrameServer, FrameServerAddress, RangeTicket, fetch
from spark_stomp.frameserver.wire import new_token
from spark_stomp.options import parse_batch_options
from spark_stomp.sink.sender import Sender
from spark_stomp.source.reads import browse

pytestmark = pytest.mark.rule("7.1")

QUEUE = "/queue/a"
UNEXPECTED = "no such thing was expected"


def fails(*_: object, **__: object) -> NoReturn:
    raise RuntimeError(UNEXPECTED)


def threads(of: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(of)]


RECEIVE = "spark_stomp.receiver.deliveries.Deliveries.receive"
STEP = "spark_stomp.source.journal_writer.JournalWriter.step"


@pytest.mark.parametrize(("work", "error"), [(RECEIVE, DeliveryError), (STEP, JournalError)])
def test_a_thread_of_the_reader(
    devbroker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, error: type[StompError]
) -> None:
    monkeypatch.setattr(work, fails)
    devbroker.publish_many(QUEUE, [b"0"])
    options = {"url": devbroker.url, "destination": QUEUE, "journal": str(tmp_path / "journal")}
    with Run(options) as run, pytest.raises(error, match=UNEXPECTED):
        run.batch()


def test_the_pump_of_a_task_that_sends(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sender, "_keep_alive", fails)
    with Sender(sink_options(devbroker.url)) as sender:
        sender.open()
        wait_until(lambda: threads("stomp-sender") == [], what="the end of the pump")
        with pytest.raises(DeliveryError, match=UNEXPECTED):
            sender.send(encoded([b"0"]))


def test_the_receiver_of_a_batch_read(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    devbroker.publish_many(QUEUE, [b"0"])
    monkeypatch.setattr(RECEIVE, fails)
    given = {"url": devbroker.url, "destination": QUEUE, "idleTimeout": "300ms"}
    with pytest.raises(DeliveryError, match=UNEXPECTED):
        list(browse(parse_batch_options(given)))
    assert threads("stomp-receiver") == []


def begun(work: Callable[[], NoReturn]) -> Iterator[FrameBatch]:
    """Fails after its first batch."""
    yield FrameBatch(b"MESSAGE\n\n\0", [10], 0, 0, "1.2", "generic")
    work()


@pytest.mark.parametrize("kind", [RuntimeError, OSError, KeyError, NotImplementedError, MemoryError])
@pytest.mark.parametrize("early", [True, False])
def test_a_thread_of_the_frame_server(kind: type[Exception], early: bool) -> None:
    def work(*_: object) -> NoReturn:
        raise kind(UNEXPECTED)

    def read(_: RangeTicket) -> Iterator[FrameBatch]:
        return work() if early else begun(work)

    server = FrameServer(FrameServerAddress("127.0.0.1", 0, new_token()), read)
    try:
        with pytest.raises(FrameServerError, match=UNEXPECTED):
            list(fetch(server.address, RangeTicket("e", 0, 2)))
    finally:
        server.close()
