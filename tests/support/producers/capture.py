"""Catches the frames that a broker makes of a producer's messages."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from spark_stomp.protocol import Frame, FrameScanner, MessageBlock, encode_frame, unescape
from support.brokers import Broker
from support.brokers.base import HOST
from support.frames import next_event
from support.producers.base import Producer, Target
from support.waiting import PATIENCE


class Consumer:
    """A connection that reads MESSAGE frames as they are on the wire."""

    def __init__(self, broker: Broker, destination: str) -> None:
        self._socket = socket.create_connection((HOST, broker.port), PATIENCE)
        self._scanner = FrameScanner("1.2", tolerant=True)
        login = (("login", broker.login or ""), ("passcode", broker.password or ""))
        self._send("CONNECT", ("accept-version", "1.2"), ("host", "/"), *login)
        subscription = (("id", "0"), ("destination", destination), ("ack", "client-individual"))
        self._send("SUBSCRIBE", *subscription, ("receipt", "subscribed"))
        for answer in ("CONNECTED", "RECEIPT"):
            event = self._event()
            assert isinstance(event, Frame) and event.command == answer, event

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def take(self) -> bytes:
        """The next frame; its ACK is confirmed."""
        block = self._event()
        assert isinstance(block, MessageBlock) and len(block.ends) == 1, block
        self._send("ACK", ("id", unescape(block.acks[0].decode(), "1.2")), ("receipt", "acked"))
        confirmed = self._event()
        assert isinstance(confirmed, Frame) and confirmed.command == "RECEIPT", confirmed
        return block.data.strip(b"\n")

    def _event(self) -> MessageBlock | Frame:
        while (event := next_event(self._scanner)) is None:
            data = self._socket.recv(1 << 16)
            assert data, "the broker has closed the connection"
            self._scanner.receive_data(data)
        return event

    def _send(self, command: str, *headers: tuple[str, str]) -> None:
        self._socket.sendall(encode_frame(Frame(command, headers, b""), "1.2"))


# What differs from run to run, in the head of a frame.
_OF_A_RUN = {
    # Ids of messages, connections and producers.
    rb"session-[\w-]{22}@@\d+": b"session-0@@1",
    rb"ID\\c[\w.-]+-\d+-\d{13}(-\d+)(\\c-?\d+)*": rb"ID\\chost-1-1796000000000",
    rb"(?m)^(message-id|ack):\d+,\d+$": rb"\1:1,2",
    rb"ID\\c[0-9a-f-]{36}(\\c\d+)+-\d+": b"ID\\\\c00000000-0000-0000-0000-000000000000\\\\c1\\\\c1\\\\c1-1",
    rb"(?m)^__AMQ_CID:[0-9a-f-]{36}$": b"__AMQ_CID:00000000-0000-0000-0000-000000000000",
    rb"(?m)^__HDR_COMMAND_ID:\d+$": b"__HDR_COMMAND_ID:1",
    # Java's name of an array, which Artemis writes in place of octets.
    rb"\[B@[0-9a-f]+": b"[B@0",
}
_TIME = re.compile(rb"\b(\d{10})(\d{3})?\b")
# Seconds: one day is the time to live of some messages.
_RECENT = 2 * 86_400


def steady(frame: bytes) -> bytes:
    """The frame as it is in every run."""
    # Of the same length, since a body may have it too.
    frame = re.sub(rb"\bt[0-9a-f]{12}\b", b"t000000000000", frame)
    head, blank, body = frame.partition(b"\n\n")
    for pattern, fixed in _OF_A_RUN.items():
        head = re.sub(pattern, fixed, head)
    now = time.time()

    def same(seen: re.Match[bytes]) -> bytes:
        recent = abs(int(seen[1]) - now) < _RECENT
        return b"1796000000" + b"0" * len(seen[2] or b"") if recent else seen[0]

    return _TIME.sub(same, head) + blank + body


def captured(broker: Broker, producer: Producer, names: Sequence[str]) -> list[bytes]:
    """The frames of these messages of the producer, as they are in every run."""
    broker.listen(producer.listener)
    queue, frames = broker.new_queue(), list[bytes]()
    destination = queue.replace("/queue/", "/topic/") if producer.topic else queue
    with Consumer(broker, destination) as consumer:

        def one_by_one() -> Iterator[Any]:
            for name in names:
                yield producer.messages[name]
                frames.append(steady(consumer.take()))

        target = Target(broker, broker.listeners[producer.listener], queue.removeprefix("/queue/"))
        producer.send(target, one_by_one())
    return frames
