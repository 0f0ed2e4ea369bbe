"""An ERROR in the same read as what was awaited: the answer counts, as if it had come before."""

from __future__ import annotations

import json

import pytest
from support.commands import Command, command
from support.driven import Run
from support.options import connected, sink_options, source_options
from support.receivers import receiving
from support.scripted import CLOSE, NO_STREAM, ScriptedBroker, Stream, header_of, message, receipt_for
from support.tcp import stomp_server
from support.waiting import PATIENCE, wait_until

from spark_stomp.errors import BrokerError, ConnectionLost, MessageUndeliverable, StompError
from spark_stomp.receiver.stream_offsets import ask_first_offset
from spark_stomp.sink.write import ProvedRuns

__all__ = ["command"]

QUEUE, OTHER = "/queue/a", "/queue/b"
DIED = b"ERROR\nmessage:AMQP channel died\n\n\0"
RABBITMQ = b"RabbitMQ/4.3.6"

apart = pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three attempts take longer than connectTimeout here, the limit of what was never subscribed."""
    monkeypatch.setattr("spark_stomp.receiver.turns._PAUSE", 0.3)
    monkeypatch.setattr("spark_stomp.receiver.turns._AT_ONCE", PATIENCE)
    monkeypatch.setattr("spark_stomp.receiver.turn_state._EMPTY", 0.3)


class Bad(ScriptedBroker):
    """The next message of QUEUE cannot be delivered. Others have one message, until it is ACKed."""

    def __init__(self, server: bytes, apart: bool) -> None:
        super().__init__(server, self._ask)
        self.apart, self.acks = apart, list[bytes]()

    def _ask(self, _: int, frame: bytes) -> bytes:
        if frame.startswith(b"ACK"):
            self.acks.append(header_of(frame, b"id"))
        if not frame.startswith(b"SUBSCRIBE"):
            return b""
        if header_of(frame, b"x-stream-offset"):
            return b"ERROR\nmessage:no\n\n%b\0" % NO_STREAM.format("rabbit_classic_queue").encode()
        if header_of(frame, b"destination").decode() == QUEUE:
            return receipt_for(frame) + DIED + CLOSE
        return b"" if self.acks else message(1, b"good", header_of(frame, b"id"))


def failure_of(run: Run) -> StompError:
    """The error that ends the query, in which every batch is committed."""
    with pytest.raises(StompError) as error:
        while True:
            run.batch()
            run.commit()
    return error.value


@apart
@pytest.mark.rule("4.8", "4.12")
@pytest.mark.parametrize("others", [(), (OTHER,)], ids=["alone", "with another"])
@pytest.mark.parametrize("server", [RABBITMQ, b"x"])
def test_behind_the_receipt_of_subscribe_it_may_be_about_a_message(
    server: bytes, others: tuple[str, ...], apart: bool
) -> None:
    broker = Bad(server, apart)
    # What the words of others mean is not known, so it may pass.
    short = {} if server == RABBITMQ else {"reconnectTimeout": "2s"}
    with stomp_server(broker.serve) as url:
        options = {"url": url, "destination": json.dumps([*others, QUEUE]), "connections": "1"}
        with Run({**options, "connectTimeout": "200ms", "reconnectDelay": "10ms", **short}) as run:
            if others:
                # Without a stable id it may come again.
                assert {row["body"] for row in run.batch()} == {b"good"}
                run.commit()
            error = failure_of(run)
    if short:
        assert isinstance(error, ConnectionLost | MessageUndeliverable), error
    else:
        assert isinstance(error, MessageUndeliverable) and f"{QUEUE}: 3 times" in str(error)


@apart
def test_and_of_a_batch_read_it_is_the_error(command: Command, apart: bool) -> None:
    with stomp_server(Bad(b"x", apart).serve) as url:
        code, _, told = command("peek", url, QUEUE, "--yes")
    assert code == 1
    assert "ended the connection: AMQP channel died" in told


@apart
def test_behind_the_receipt_of_acks_they_are_confirmed(apart: bool) -> None:
    def asked(number: int, frame: bytes) -> bytes:
        if frame.startswith(b"ACK"):
            return receipt_for(frame) + DIED + CLOSE
        return message(number) if frame.startswith(b"SUBSCRIBE") and number < 3 else b""

    broker = ScriptedBroker(b"x", asked)
    broker.apart = apart
    with stomp_server(broker.serve) as url, receiving(url, reconnectDelay="10ms") as receiver:
        for number in (1, 2):
            receiver.wait_received(number)
            receiver.acknowledge(number)
        wait_until(lambda: receiver.status().connection.reconnects == 2, what="the third connection")
        assert receiver.status().acked == 2
        assert receiver.status().counts.redelivered == 0


@apart
@pytest.mark.rule("4.8")
def test_behind_connected_the_login_was_accepted(apart: bool) -> None:
    """So it is tried again."""
    broker = ScriptedBroker(b"x", lambda _, frame: b"")
    whole = broker._connected

    def answer(number: int, frame: bytes) -> bytes:
        if number < 3 and frame.startswith(b"CONNECT"):
            return whole + DIED + CLOSE
        return ScriptedBroker._answer(broker, number, frame)

    broker.apart, broker._answer = apart, answer  # type: ignore[method-assign]
    with stomp_server(broker.serve) as url, receiving(url, reconnectDelay="10ms") as receiver:
        receiver.wait_subscribed()
    assert broker.connections == 3


@apart
def test_behind_connected_who_asks_for_nothing_else_is_told(command: Command, apart: bool) -> None:
    broker = ScriptedBroker(b"x", lambda _, frame: b"")
    broker._connected += DIED
    broker.apart = apart
    with stomp_server(broker.serve) as url:
        if not apart:
            assert "AMQP channel died" in str(command("probe", url))
            with pytest.raises(BrokerError, match="AMQP channel died"):
                ProvedRuns().prove(sink_options(url), None, connected=False, in_stream=False)
        with connected(url) as connection, pytest.raises(BrokerError, match="AMQP channel died"):
            connection.disconnect()


@apart
def test_behind_the_receipt_of_disconnect_it_is_nothing(apart: bool) -> None:
    def asked(_: int, frame: bytes) -> bytes:
        return receipt_for(frame) + DIED + CLOSE if frame.startswith(b"DISCONNECT") else b""

    broker = ScriptedBroker(b"x", asked)
    broker.apart = apart
    with stomp_server(broker.serve) as url, connected(url) as connection:
        connection.disconnect()


@apart
def test_behind_a_message_of_a_stream_it_is_said(apart: bool) -> None:
    """And not that nothing may be sent any more."""

    class Dying(Stream):
        def _asked(self, number: int, frame: bytes) -> bytes:
            answer = super()._asked(number, frame)
            return receipt_for(frame) + answer + DIED + CLOSE if frame.startswith(b"SUBSCRIBE") else answer

    stream = Dying(0, 1)
    stream.broker.apart = apart
    with stomp_server(stream.broker.serve) as url:
        options = source_options(url, "/amq/queue/a", startingOffsets="earliest")
        assert ask_first_offset(options, "/amq/queue/a", url.removeprefix("stomp://")) == 0


@apart
@pytest.mark.parametrize("ends", [DIED, b""], ids=["ERROR", "closed"])
def test_between_two_requests_the_next_one_says_it(ends: bytes, apart: bool) -> None:
    def asked(_: int, frame: bytes) -> bytes:
        return receipt_for(frame) + ends + CLOSE

    broker = ScriptedBroker(b"x", asked)
    broker.apart = apart
    with stomp_server(broker.serve) as url, connected(url) as connection:
        for _ in range(2):
            receipt = connection.session.new_receipt()
            request = [("id", "0"), ("destination", QUEUE)]
            try:
                connection.request("SUBSCRIBE", request, receipt=receipt)
                connection.await_receipts({receipt: "it"}, PATIENCE)
            except (BrokerError, ConnectionLost) as error:
                assert "AMQP channel died" in str(error) or not ends
                return
    raise AssertionError("nothing was said")
