"""The sender: success means that every message was confirmed, and no more are in doubt than allowed."""

from __future__ import annotations

import pytest
from support.options import sink_options

from spark_stomp.arrow import OutgoingMessage
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectionLost, DestinationRefused, ReceiptTimeout
from spark_stomp.sink.sender import Sender

QUEUE = "/queue/out"


def messages(count: int) -> list[OutgoingMessage]:
    return [OutgoingMessage(QUEUE, (("number", str(n)),), b"body %d" % n) for n in range(count)]


@pytest.mark.parametrize("window", [1, 7, 1000])
def test_all_messages_arrive_in_order_and_are_confirmed(devbroker: DevBroker, window: int) -> None:
    with Sender(sink_options(devbroker.url, receiptWindow=window)) as sender:
        for message in messages(100):
            sender.send(message)
        assert sender.finish() == 100
    assert devbroker.bodies(QUEUE) == [message.body for message in messages(100)]
    devbroker.wait_until(lambda: devbroker.disconnects == 1, what="the DISCONNECT")


def test_nothing_to_send_opens_no_connection(devbroker: DevBroker) -> None:
    with Sender(sink_options(devbroker.url)) as sender:
        assert sender.finish() == 0
    assert devbroker.connects == 0


def test_the_window_bounds_what_is_unconfirmed(devbroker: DevBroker) -> None:
    devbroker.faults.withhold_receipts = ("SEND",)
    with Sender(sink_options(devbroker.url, receiptWindow=5, receiptTimeout="300ms")) as sender:
        with pytest.raises(ReceiptTimeout, match=r"5 message\(s\).*/queue/out"):
            for message in messages(10):
                sender.send(message)
        assert sender.confirmed == 0
    assert devbroker.queue(QUEUE).enqueued <= 5


def test_a_refusal_names_the_destination() -> None:
    with DevBroker(refuse=(QUEUE,)) as broker, Sender(sink_options(broker.url)) as sender:
        sender.send(messages(1)[0])
        with pytest.raises(DestinationRefused, match=f"SEND to {QUEUE}"):
            sender.finish()


def test_a_missing_goodbye_does_not_undo_what_was_confirmed(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_stomp.sink.sender._GOODBYE", 0.2)
    devbroker.faults.withhold_receipts = ("DISCONNECT",)
    with Sender(sink_options(devbroker.url)) as sender:
        sender.send(messages(1)[0])
        assert sender.finish() == 1


def test_a_connection_that_breaks_is_no_success(devbroker: DevBroker) -> None:
    devbroker.faults.withhold_receipts = ("SEND",)
    with Sender(sink_options(devbroker.url)) as sender:
        sender.send(messages(1)[0])
        devbroker.drop_connections()
        with pytest.raises(ConnectionLost):
            sender.finish()
