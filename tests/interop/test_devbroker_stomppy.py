"""stomp.py, an independent client, against the dev broker."""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import stomp
from stomp.utils import Frame
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker

CONNECTIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Puts what arrives into one queue per kind."""

    def __init__(self) -> None:
        self.arrived: dict[str, queue.Queue[Frame]] = defaultdict(queue.Queue)

    def on_message(self, frame: Frame) -> None:
        self.arrived["message"].put(frame)

    def on_receipt(self, frame: Frame) -> None:
        self.arrived["receipt"].put(frame.headers["receipt-id"])

    def on_heartbeat_timeout(self) -> None:
        self.arrived["lost"].put(Frame("HEARTBEAT"))

    def take(self, kind: str) -> Any:
        return self.arrived[kind].get(timeout=PATIENCE)


@contextmanager
def connected(
    broker: DevBroker, version: str = "1.2", **settings: Any
) -> Iterator[tuple[stomp.Connection12, Listener]]:
    """A connection and what it heard."""
    connection, heard = CONNECTIONS[version]([("127.0.0.1", broker.port)], **settings), Listener()
    connection.set_listener("test", heard)
    connection.connect(wait=True)
    yield connection, heard
    connection.disconnect()


@pytest.mark.parametrize("version", CONNECTIONS)
def test_send_subscribe_nack_ack_and_receipts(devbroker: DevBroker, version: str) -> None:
    with (
        connected(devbroker, version) as (consumer, heard),
        connected(devbroker, version) as (producer, said),
    ):
        ack = "client" if version == "1.0" else "client-individual"
        consumer.subscribe("/queue/a", id="1", ack=ack, headers={"receipt": "subscribed"})
        assert heard.take("receipt") == "subscribed"
        producer.send("/queue/a", "größe: 1\n", headers={"kind": "a test", "receipt": "sent"})
        assert said.take("receipt") == "sent"
        message = heard.take("message")
        assert message.body == "größe: 1\n"
        shown = {"kind": "a test", "subscription": "1", "destination": "/queue/a", "redelivered": "false"}
        assert shown.items() <= message.headers.items()

        def names(frame: Frame) -> list[str]:
            headers = ("message-id", "subscription") if version == "1.1" else ("message-id",)
            return [frame.headers[name] for name in (("ack",) if version == "1.2" else headers)]

        if version != "1.0":  # which has no NACK
            consumer.nack(*names(message))
            again = heard.take("message")
            assert again.headers["redelivered"] == "true"
            assert again.headers["message-id"] == message.headers["message-id"]
            message = again
        consumer.ack(*names(message), receipt="acked")
        assert heard.take("receipt") == "acked"
        assert devbroker.queue("/queue/a").acked == 1


def test_heartbeats_keep_both_sides_content() -> None:
    with (
        DevBroker(heartbeat=(1000, 1000)) as broker,
        connected(broker, heartbeats=(1000, 1000), heart_beat_receive_scale=2.5) as (client, heard),
    ):
        with pytest.raises(AssertionError, match="did not hold"):
            # Several intervals, and nothing but beats in them.
            wait_until(lambda: not heard.arrived["lost"].empty() or broker.connections == 0, 4)
        assert client.is_connected()
