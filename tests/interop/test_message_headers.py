"""Who sets the headers of a MESSAGE: the table of tests/data/message_headers.md, measured.

``SPARK_STOMP_WRITE_HEADER_TABLE=1`` writes the columns of the brokers that were tested.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from support.brokers import Broker
from support.brokers.base import HOST
from support.brokers.fixtures import on_real_brokers
from support.waiting import PATIENCE

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol import HEARTBEAT, NEED_DATA, Frame, FrameDecoder, encode_frame

PAGE = Path(__file__).resolve().parents[1] / "data" / "message_headers.md"
BEGIN, END = "<!-- headers of MESSAGE -->\n", "<!-- end -->"
COLUMNS = ("rabbitmq", "activemq", "artemis")
VERSIONS = ("1.2", "1.1", "1.0")
BODY, AFTER = b"x" * 5, b"after"
# Header and value, as a producer sends them.
SENT = {
    "ack": "EVIL",
    "message-id": "7,7",
    "subscription": "EVIL",
    "destination": "/queue/EVIL",
    "content-length": "1",
    "redelivered": "true",
    "timestamp": "1",
    "x-stream-offset": "5",
    "content-type": "EVIL",
    "expires": "99999999999999",
    "expiration": "99999999",
    "persistent": "true",
    "priority": "7",
    "correlation-id": "EVIL",
    "reply-to": "EVIL",
    "type": "EVIL",
    "transaction": "EVIL",
    "receipt": "EVIL",
    "user-id": "EVIL",
    "amqp-message-id": "EVIL",
}


class Raw:
    """A connection that sends and reads any frame."""

    def __init__(self, broker: Broker, version: str) -> None:
        self._version = version
        self._socket = socket.create_connection((HOST, broker.port), PATIENCE)
        self._decoder = FrameDecoder(version)
        login = (("login", broker.login or ""), ("passcode", broker.password or ""))
        self.send("CONNECT", ("accept-version", version), ("host", "/"), *login)
        connected = self.read()
        assert connected is not None and connected.command == "CONNECTED"

    def send(self, command: str, *headers: tuple[str, str], body: bytes = b"") -> None:
        self._socket.sendall(encode_frame(Frame(command, headers, body), self._version))

    def read(self) -> Frame | None:
        """The next frame; None if the broker has closed the connection."""
        while True:
            try:
                event = self._decoder.next_event()
            except RemoteProtocolError:
                return None
            if isinstance(event, Frame):
                return event
            if event is HEARTBEAT:
                continue
            assert event is NEED_DATA
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self._decoder.receive_data(data)

    def close(self) -> None:
        self._socket.close()


def taken(broker: Broker, version: str, queue: str, name: str, value: str) -> bool:
    """Send a message with this header, and one without it; whether the broker takes them."""
    producer = Raw(broker, version)
    try:
        own = (("destination", queue), ("content-length", str(len(BODY))))
        producer.send("SEND", *own, (name, value), body=BODY)
        # Artemis answers nothing to what it does not take.
        producer.send("SEND", *own, ("receipt", "after"), body=AFTER)
        while (answer := producer.read()) is not None and answer.command != "ERROR":
            if answer.get("receipt-id") == "after":
                return True
        return False
    finally:
        producer.close()


def delivered(broker: Broker, version: str, queue: str) -> Frame | None:
    """The first message of the queue; None if it is the one that was sent after it."""
    consumer = Raw(broker, version)
    try:
        mode = "client" if version == "1.0" else "client-individual"
        consumer.send("SUBSCRIBE", ("destination", queue), ("id", "0"), ("ack", mode))
        frame = consumer.read()
        assert frame is not None and frame.command == "MESSAGE"
        return frame if frame.body.startswith(BODY[:1]) else None
    finally:
        consumer.close()


def fate(broker: Broker, version: str, name: str, value: str) -> str:
    """What becomes of a producer's header."""
    queue = broker.new_queue()
    if not taken(broker, version, queue, name, value):
        return "refused"
    frame = delivered(broker, version, queue)
    if frame is None:
        return "not delivered"
    seen = [found for key, found in frame.headers if key == name]
    # RabbitMQ makes a destination of it.
    seen = [value if name == "reply-to" and found.endswith(value) else found for found in seen]
    if name == "content-length":
        # Artemis takes the last one of SEND, and so much of the body.
        assert seen in ([], [str(len(frame.body))])
        return "broker's"
    if value not in seen:
        return "broker's" if seen else "left out"
    if len(seen) == 1:
        return "producer's"
    return "**producer's**, then broker's" if seen[0] == value else "broker's, then producer's"


def cell(broker: Broker, name: str, value: str) -> str:
    fates = {version: fate(broker, version, name, value) for version in VERSIONS}
    if len(set(fates.values())) == 1:
        return fates["1.2"]
    same: dict[str, list[str]] = {}
    for version, found in fates.items():
        same.setdefault(found, []).append(version)
    return "; ".join(f"{', '.join(versions)}: {found}" for found, versions in same.items())


def table() -> dict[str, list[str]]:
    """What the page has: for each header the cells of the three brokers."""
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in rows}


def write(cells: dict[str, list[str]]) -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    lines = ["| header | RabbitMQ | ActiveMQ Classic | Artemis |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {' | '.join(row)} |" for name, row in cells.items()]
    PAGE.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + rest.partition(END)[2], encoding="utf-8")


@on_real_brokers
def test_the_table_says_who_sets_each_header(broker: Broker) -> None:
    column = COLUMNS.index(broker.dialect)
    seen = {name: cell(broker, name, value) for name, value in SENT.items()}
    if os.environ.get("SPARK_STOMP_WRITE_HEADER_TABLE"):
        known = table()
        cells = {name: known.get(name, ["", "", ""]) for name in SENT}
        for name, found in seen.items():
            cells[name][column] = found
        write(cells)
    assert {name: row[column] for name, row in table().items()} == seen
