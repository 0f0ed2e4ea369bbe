"""A broker that ends the connection before it is asked: its ERROR, or the loss, is said.

The end comes in the same read as CONNECTED, so the session is over before the first frame that asks for
something. That a session may send nothing any more is no mistake of ours, and says nothing of the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pytest
from support.commands import Command, command
from support.driven import Run
from support.options import connected, sink_options, source_options
from support.receivers import receiving
from support.scripted import CLOSE, NO_STREAM, ScriptedBroker, header_of, message, read_late
from support.slices import encoded
from support.tcp import stomp_server
from support.waiting import wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import BrokerError, LocalProtocolError, StompError, TransportError
from spark_stomp.receiver.stream_offsets import ask_first_offset, ask_stream_ends
from spark_stomp.sink.sender import Sender
from spark_stomp.sink.write import ProvedRuns
from spark_stomp.transport.queues import ask_if_queue, ask_if_stream
from spark_stomp.transport.standing import ask_standing, send_trial

__all__ = ["command"]

QUEUE, BY_NAME = "/queue/a", "/amq/queue/a"
DIED = b"ERROR\nmessage:AMQP channel died\n\n\0"
RABBITMQ, ACTIVEMQ, ARTEMIS = b"RabbitMQ/4.3.6", b"ActiveMQ/6.3.1", b"apache-activemq-artemis/2.56.0"
OUR_MISTAKE = LocalProtocolError.code

ends = pytest.mark.parametrize("end", [DIED, CLOSE, DIED + CLOSE], ids=["ERROR", "close", "ERROR and close"])


class Ending(ScriptedBroker):
    """Sends ``end`` behind CONNECTED, on the connections ``which`` (1 is the first), or on all of them.

    There is one message, until it is ACKed. Of a queue that is asked for it says that it is no stream.
    """

    def __init__(self, server: bytes, end: bytes, *which: int) -> None:
        super().__init__(server, self._ask)
        self.sent: list[bytes] = []
        self._end, self._which, self._acked = end, which, False

    def _answer(self, number: int, frame: bytes) -> bytes:
        answer = super()._answer(number, frame)
        ended = frame.startswith(b"CONNECT") and (not self._which or number in self._which)
        return answer + self._end * ended

    def _ask(self, _: int, frame: bytes) -> bytes:
        command = frame.partition(b"\n")[0]
        self.sent += [frame] if command == b"SEND" else []
        self._acked |= command == b"ACK"
        if command != b"SUBSCRIBE":
            return b""
        if header_of(frame, b"x-stream-offset"):
            return b"ERROR\nmessage:no\n\n%b\0" % NO_STREAM.format("rabbit_classic_queue").encode()
        return b"" if self._acked else message(1, b"x", header_of(frame, b"id"))


@pytest.fixture(autouse=True)
def late(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a broker sends and its close are one read; and no log line speaks of our mistake."""
    caplog.set_level(logging.DEBUG, "spark_stomp")
    with read_late():
        yield
    assert OUR_MISTAKE not in caplog.text


# --- who asks once


class Way(NamedTuple):
    """A way to ask, and the broker that is asked."""

    ask: Callable[[str, str], object]
    server: bytes = RABBITMQ


def asked_first(url: str, _: str) -> None:
    with connected(url) as connection:
        receipt = connection.session.new_receipt()
        connection.request("SEND", (("destination", QUEUE),), receipt=receipt)


def left_at_once(url: str, _: str) -> None:
    with connected(url) as connection:
        connection.disconnect()


def asks(name: str, url: str, peer: str) -> None:
    ask_standing(source_options(url).connection, dialect_named(name), QUEUE, peer)


WAYS = {
    "request": Way(asked_first),
    "DISCONNECT": Way(left_at_once),
    "is it a stream": Way(lambda url, peer: ask_if_stream(source_options(url).connection, BY_NAME, peer)),
    "is it a queue": Way(lambda url, peer: ask_if_queue(source_options(url).connection, BY_NAME, peer)),
    "first offset": Way(lambda url, peer: ask_first_offset(source_options(url), BY_NAME, peer)),
    "ends of streams": Way(lambda url, peer: ask_stream_ends(source_options(url), [BY_NAME], peer)),
    "are messages taken": Way(
        lambda url, peer: send_trial(source_options(url).connection, dialect_named("rabbitmq"), peer)
    ),
    "standing in ActiveMQ": Way(partial(asks, "activemq"), ACTIVEMQ),
    "standing in Artemis": Way(partial(asks, "artemis"), ARTEMIS),
    "proof of a sink": Way(
        lambda url, _: ProvedRuns().prove(sink_options(url), None, connected=False, in_stream=False)
    ),
}


@ends
@pytest.mark.parametrize("way", WAYS.values(), ids=[*WAYS])
def test_who_asks_once_is_told(way: Way, end: bytes) -> None:
    with stomp_server(Ending(way.server, end).serve) as url, pytest.raises(StompError) as error:
        way.ask(url, url.removeprefix("stomp://"))
    expect_said(error.value, end)


def expect_said(error: StompError, end: bytes) -> None:
    """What the broker said, or that the connection was lost. Both may be tried again."""
    if DIED in end:
        assert isinstance(error, BrokerError) and "AMQP channel died" in error.message
    else:
        assert isinstance(error, TransportError) and "closed the connection" in error.message


COMMANDS = {
    "probe": ("probe",),
    "trial": ("probe", "--scratch", QUEUE),
    "peek": ("peek", QUEUE, "--yes"),
    "tail": ("tail", "/topic/a", "-f"),
    "send": ("send", QUEUE, __file__, "-o", "reconnectTimeout=300ms"),
    "unsubscribe": ("unsubscribe", "/topic/a", "--durable-name", "d", "--client-id", "c"),
}


@ends
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=[*COMMANDS])
def test_of_a_command_it_is_the_error(command: Command, arguments: tuple[str, ...], end: bytes) -> None:
    first, *rest = arguments
    with stomp_server(Ending(ACTIVEMQ, end).serve) as url:
        done = command(first, url, *rest)
    assert done.code != 0
    words = "AMQP channel died" if DIED in end else "closed the connection"
    assert words in done.out + done.err and OUR_MISTAKE not in done.out + done.err


# --- who connects again


@ends
@pytest.mark.parametrize("destination", [QUEUE, BY_NAME])
@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.rule("S.14")
def test_a_sink_sends_over_the_next_connection(destination: str, which: int, end: bytes) -> None:
    """Its own connection ends, or that over which it asks whether the queue is there."""
    broker = Ending(RABBITMQ, end, which)
    with (
        stomp_server(broker.serve) as url,
        Sender(sink_options(url, reconnectDelay="10ms"), patient=True) as sender,
    ):
        sender.send(encoded([b"a", b"b"], destination))
        assert sender.finish().confirmed == 2
    assert [frame[-1:] for frame in broker.sent] == [b"a", b"b"]


@ends
@pytest.mark.parametrize("server", [RABBITMQ, ACTIVEMQ])
@pytest.mark.parametrize("which", [1, 2])
def test_a_receiver_reads_over_the_next_connection(server: bytes, which: int, end: bytes) -> None:
    """Its own connection ends, or, with RabbitMQ, that over which it asks what the queue is."""
    options = {"reconnectDelay": "10ms", "failOnMissingQueue": server == RABBITMQ}
    with (
        stomp_server(Ending(server, end, which).serve) as url,
        receiving(url, BY_NAME if server == RABBITMQ else QUEUE, **options) as receiver,
    ):
        receiver.wait_received(1)


@ends
def test_a_query_commits_over_the_next_connection(end: bytes) -> None:
    broker = Ending(RABBITMQ, end, 1)
    with stomp_server(broker.serve) as url:
        options = {"url": url, "destination": QUEUE, "connections": "1", "reconnectDelay": "10ms"}
        with Run(options) as run:
            assert [row["body"] for row in run.batch()] == [b"x"]
            run.commit()
            wait_until(lambda: broker._acked, what="the ACK")


# --- who has not looked at the end yet


def test_a_sink_that_has_all_receipts_says_why_there_is_no_disconnect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The ERROR came while nothing was sent."""
    broker = ScriptedBroker(b"x", lambda _, frame: b"")
    with stomp_server(broker.serve) as url, Sender(sink_options(url)) as sender:
        sender.send(encoded([b"a"]))
        wait_until(lambda: sender.figures.confirmed == 1, what="the receipt")
        broker.sockets[0].sendall(DIED)
        wait_until(lambda: sender._pump is not None and sender._pump.failure is not None, what="the ERROR")
        assert sender.finish().confirmed == 1
    assert "orderly DISCONNECT: [STOMP_BROKER_ERROR]" in caplog.text


def test_a_trial_that_leaves_a_queue_of_others_does_so_too(
    command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    """The ERROR came behind a message that is none of the trial."""

    def asked(_: int, frame: bytes) -> bytes:
        if frame.startswith(b"SUBSCRIBE"):
            return message(1, b"theirs", header_of(frame, b"id")) + DIED
        return b""

    with stomp_server(ScriptedBroker(b"x", asked).serve) as url:
        done = command("probe", url, "--scratch", QUEUE, "-o", "logLevel=info")
    assert "messages that this trial did not send" in done.out + done.err
    assert "orderly DISCONNECT: [STOMP_BROKER_ERROR]" in caplog.text


def test_who_polls_again_is_told_again() -> None:
    """Of a broker that leaves the connection open after its ERROR."""
    with stomp_server(Ending(RABBITMQ, DIED).serve) as url, connected(url) as connection:
        assert [type(event).__name__ for event in connection.poll(0)] == ["ErrorReceived"]
        for again in (lambda: connection.poll(60), connection.disconnect):
            with pytest.raises(BrokerError, match="AMQP channel died"):
                again()
