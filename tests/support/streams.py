"""Streams of RabbitMQ: how to declare one, and how to read one without the connector's source."""

from __future__ import annotations

import secrets
import time
from itertools import pairwise

from spark_stomp.options import parse_source_options
from spark_stomp.protocol import Frame
from spark_stomp.transport import open_connection
from support.brokers.rabbitmq import RabbitMQ
from support.session import ack, subscribe
from support.waiting import PATIENCE

_DECLARE = """{{new, _}} = rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"{name}">>), true, false,
    [{{<<"x-queue-type">>, longstr, <<"stream">>}} | [{arguments}]], none, <<"test">>), ok."""
_WINDOW = 10_000


def new_stream(broker: RabbitMQ, name: str = "", **arguments: int) -> str:
    """Declare a stream; returns its destination. Its arguments are numbers: ``x_max_length_bytes=...``."""
    name = name or f"t{secrets.token_hex(6)}"
    pairs = (f'{{<<"{key.replace("_", "-")}">>, long, {value}}}' for key, value in arguments.items())
    broker.evaluate(_DECLARE.format(name=name, arguments=", ".join(pairs)))
    return f"/amq/queue/{name}"


def messages_of(broker: RabbitMQ, stream: str) -> list[tuple[int, str]]:
    """Offset and body of each message from the first one to the last one that is there, by a bare client."""
    options = parse_source_options(broker.options(destination=stream)).connection
    found: list[tuple[int, str]] = []
    with open_connection(options) as connection:
        session = connection.session
        headers = (("prefetch-count", str(_WINDOW)), ("x-stream-offset", "first"))
        subscribe(session, "0", stream, ack="client", headers=headers)
        quiet_from = time.monotonic()
        while time.monotonic() < quiet_from + 2.0:
            frames = [event for event in connection.poll(0.2) if isinstance(event, Frame)]
            found += [(int(frame.get("x-stream-offset") or ""), frame.body.decode()) for frame in frames]
            if frames:
                ack(session, "0", frames[-1].get("ack") or "")  # cumulative
                quiet_from = time.monotonic()
        connection.disconnect(PATIENCE)
    assert all(one < other for (one, _), (other, _) in pairwise(found)), "the offsets do not ascend"
    return found
