"""What a producer may set on a message, and what the source makes of it, on the real brokers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import session as by_hand
from support.brokers import Artemis, Broker, RabbitMQ
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, publish
from support.proxy import FaultProxy
from support.waiting import PATIENCE, wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import UnsupportedError
from spark_stomp.options import parse_batch_options, parse_source_options
from spark_stomp.source.reads import browse
from spark_stomp.transport import Connection, open_connection

on_rabbitmq = pytest.mark.parametrize(
    "broker", [pytest.param("rabbitmq", marks=pytest.mark.broker)], indirect=True
)
on_artemis = pytest.mark.parametrize(
    "broker", [pytest.param("artemis", marks=pytest.mark.broker)], indirect=True
)

# What a producer may set in vain.
FORGED = (
    ("ack", "EVIL"),
    ("ack", ""),
    ("message-id", ""),
    ("subscription", "EVIL"),
    ("redelivered", "EVIL"),
    ("timestamp", "1"),
)


class TestHandles:
    @pytest.mark.rule("4.10")
    @on_real_brokers
    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    def test_a_producers_header_names_no_ack(self, broker: Broker, version: str) -> None:
        # RabbitMQ takes no SEND with a message-id.
        forged = [one for one in FORGED if broker.dialect != "rabbitmq" or one[0] != "message-id"]
        queue, bodies = broker.new_queue(), [b"%d" % number for number in range(len(forged) + 1)]
        for body, header in zip(bodies, (*forged, ("own", "header")), strict=True):
            send(broker, queue, [body], header)
        options = broker.options(destination=queue, acceptVersions=version)
        if version in dialect_named(broker.dialect).forged_versions:
            # Artemis does not give its name under STOMP 1.0.
            for named in ({}, {"broker": broker.dialect}):
                with Run(options | named) as query, pytest.raises(UnsupportedError, match="acceptVersions"):
                    query.gather(len(bodies))
                with pytest.raises(UnsupportedError, match="acceptVersions"):
                    list(browse(parse_batch_options(options | named)))
            broker.wait_for(queue, ready=len(bodies), unacked=0)
            return
        with Run(options) as query:
            assert [row["body"] for row in query.gather(len(bodies))] == bodies
            query.commit()
            broker.wait_for(queue, ready=0, unacked=0)
            (counts,) = query.counters()
            assert (counts["reconnects"], counts["last_error"]) == (0, None)

    @pytest.mark.rule("1.1", "4.10")
    @on_artemis
    def test_a_producer_cannot_have_another_message_acked(self, broker: Broker) -> None:
        """The second message claims the handle of the third, which is not committed."""
        queue = broker.new_queue()
        send(broker, queue, [b"first"])
        with Run(broker.options(destination=queue, maxMessagesPerTrigger=1), ("body", "message_id")) as query:
            (first,) = query.batch()
            consumer, _, number = first["message_id"].partition(",")
            query.commit()
            # Messages and transactions are numbered in one sequence: one of these names the last message.
            claims = [[("ack", f"{consumer},{int(number) + step}")] for step in range(1, 100)]
            with sender(broker) as connection:
                for headers in claims:
                    confirmed(connection, queue, b"claims", *headers)
                confirmed(connection, queue, b"last")
            for _ in claims:
                assert [row["body"] for row in query.batch()] == [b"claims"]
                query.commit()
            assert [row["body"] for row in query.batch()] == [b"last"]
            broker.wait_for(queue, ready=0, unacked=1)
            (counts,) = query.counters()
            assert counts["reconnects"] == 0
        broker.wait_for(queue, ready=1, unacked=0)


class TestEqualIds:
    """Artemis numbers its messages from the same number on in each of its lives."""

    BODIES = (b"status=ok",) * 300

    @pytest.mark.rule("4.2")
    @on_artemis
    def test_two_nodes_behind_one_address(self, broker: Artemis, tmp_path: Path) -> None:
        queue = broker.new_queue()
        one, other = Artemis(_made(tmp_path / "one")), Artemis(_made(tmp_path / "other"))
        one.start()
        other.start()
        try:
            for node in (one, other):
                publish(node.options(), queue, self.BODIES)
            with (
                FaultProxy(one.port) as proxy,
                Run(broker.options(url=proxy.url, destination=queue)) as query,
            ):
                assert len(query.gather(300)) == 300
                proxy.target = other.port
                proxy.cut()
                wait_until(lambda: query.counters()[0]["received"] == 600, what="the messages of both nodes")
                query.commit()
                assert len(query.gather(300)) == 300
                query.commit()
                other.wait_for(queue, ready=0, unacked=0)
            one.wait_returned(queue, ready=300)
        finally:
            one.stop()
            other.stop()


class TestStreams:
    @pytest.mark.rule("7.9")
    @on_rabbitmq
    def test_a_stream_is_refused_before_anything_comes(self, broker: RabbitMQ) -> None:
        name = f"t{secrets.token_hex(6)}"
        stream = (("x-queue-type", "stream"), ("durable", "true"), ("auto-delete", "false"))
        send(broker, f"/queue/{name}", [b"before"], *stream, ("x-max-length-bytes", "5000000"))
        options = broker.options(destination=f"/amq/queue/{name}")
        with Run(options) as query, pytest.raises(UnsupportedError, match="is a stream"):
            query.idle()
        with pytest.raises(UnsupportedError, match="is a stream"):
            list(browse(parse_batch_options({**options, "idleTimeout": "300ms"})))

    @pytest.mark.rule("7.9")
    @on_rabbitmq
    @pytest.mark.parametrize("kind", ["classic", "quorum"])
    @pytest.mark.parametrize("prefix", ["/queue/", "/amq/queue/"])
    def test_a_producers_own_header_stops_no_query(self, broker: RabbitMQ, prefix: str, kind: str) -> None:
        """Nor is a message delivered to the one who asks."""
        name = f"t{secrets.token_hex(6)}"
        declared = (("x-queue-type", kind), ("durable", "true"), ("auto-delete", "false"))
        send(broker, f"/queue/{name}", [b"zero"], *declared)
        for number in range(3):
            send(broker, f"/amq/queue/{name}", [b"%d" % number], ("x-stream-offset", str(number)))
        declared_so = {"subscribeHeaders": json.dumps(dict(declared))} if prefix == "/queue/" else {}
        with Run(broker.options(destination=prefix + name, **declared_so), ("body", "redelivered")) as query:
            rows = query.gather(4)
            assert [row["body"] for row in rows] == [b"zero", b"0", b"1", b"2"]
            assert not any(row["redelivered"] for row in rows)
            query.commit()
            broker.wait_for(f"/queue/{name}", ready=0, unacked=0)


@contextmanager
def sender(broker: Broker) -> Iterator[Connection]:
    """A connection that sends any header: the sink would leave out those that a row must not set."""
    with open_connection(
        parse_source_options(broker.options(destination="/queue/a")).connection
    ) as connection:
        yield connection
        connection.disconnect(5)


def confirmed(connection: Connection, destination: str, body: bytes, *headers: tuple[str, str]) -> None:
    receipt = connection.session.new_receipt()
    further = (("persistent", "true"), *headers)
    by_hand.send(connection.session, destination, body, headers=further, receipt=receipt)
    connection.await_receipts({receipt: f"SEND to {destination}"}, PATIENCE)


def send(broker: Broker, destination: str, bodies: Iterable[bytes], *headers: tuple[str, str]) -> None:
    """Send messages, all with these headers."""
    with sender(broker) as connection:
        for body in bodies:
            confirmed(connection, destination, body, *headers)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
