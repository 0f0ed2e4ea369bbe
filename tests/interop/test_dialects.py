"""What the dialects declare, proved on the real brokers below the connector."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from support.brokers import ActiveMQ, Artemis, Broker
from support.brokers.fixtures import BrokerPool, on_real_brokers
from support.brokers.rabbitmq import RabbitMQ
from support.driven import Run, publish
from support.session import ack, subscribe
from support.waiting import PATIENCE, wait_until

from spark_stomp.brokers import Dialect, dialect_for, dialect_named
from spark_stomp.errors import DestinationRefused, TooManyMessages, UnsupportedError
from spark_stomp.options import parse_batch_options, parse_source_options
from spark_stomp.protocol import Frame, encode_frame
from spark_stomp.source.reads import browse
from spark_stomp.transport import Connection, open_connection


class Consumer:
    """One connection with one subscription, and the frames that came."""

    def __init__(
        self, connection: Connection, destination: str, headers: tuple[tuple[str, str], ...]
    ) -> None:
        self.connection, self.session = connection, connection.session
        self.frames: list[Frame] = []
        receipt = self.session.new_receipt()
        subscribe(self.session, "0", destination, headers=headers, receipt=receipt)
        connection.await_receipts({receipt: "SUBSCRIBE"}, PATIENCE, self._keep)

    def _keep(self, events: Sequence[object]) -> None:
        self.frames += [event for event in events if isinstance(event, Frame)]

    def take(self, count: int) -> list[Frame]:
        """The first ``count`` frames; fails where they do not come."""

        def came() -> bool:
            if len(self.frames) < count:
                self._keep([*self.connection.poll(0.2)])
            return len(self.frames) >= count

        wait_until(came, what=f"message {count}")
        return self.frames[:count]

    def confirm(self, receipt: str) -> None:
        """Wait until the broker has handled all that was sent up to ``receipt``."""
        self.connection.await_receipts({receipt: "the request"}, PATIENCE, self._keep)


@contextmanager
def consumer(
    broker: Broker, destination: str, *further: tuple[str, str], prefetch: int = 1_000, goodbye: bool = True
) -> Iterator[Consumer]:
    options = parse_source_options(broker.options(destination=destination)).connection
    with open_connection(options) as connection:
        dialect = dialect_for(connection.session.server)
        headers = dialect.subscribe_headers(destination, prefetch, frame_bytes=300) + further
        yield Consumer(connection, destination, headers)
        if goodbye:
            connection.disconnect(5)


def consume(broker: Broker, destination: str, count: int) -> list[Frame]:
    """Take and ACK ``count`` messages."""
    with consumer(broker, destination) as taker:
        frames = taker.take(count)
        for frame in frames:
            ack(taker.session, "0", frame.get("ack") or "", receipt="acked" if frame is frames[-1] else None)
        taker.confirm("acked")
    broker.wait_for(destination, ready=0, unacked=0)
    return frames


@on_real_brokers
def test_the_prefetch_bounds_what_is_unacked(broker: Broker, dialect: Dialect) -> None:
    queue = broker.new_queue()
    publish(broker.options(), queue, [b"x" * 100] * 60)
    with consumer(broker, queue, prefetch=20) as taker:
        if dialect.window_header is None:
            taker.take(20)
            broker.wait_for(queue, ready=40, unacked=20)
        else:
            # The broker charges a message with its frame and sends as long as any of the window is left.
            size = len(encode_frame(taker.take(1)[0], taker.session.version or ""))
            window = dialect.window_bytes(20, frame_bytes=300) or 0
            fit = -(-window // size)
            taker.take(fit)
            wait_until(lambda: abs(broker.unacked(queue) - fit) <= 1, what=f"{fit} un-acked messages")
        held = broker.unacked(queue)
        for frame in taker.take(5):
            ack(taker.session, "0", frame.get("ack") or "")
        taker.take(held + 5)
    consume(broker, queue, 55)


@pytest.mark.parametrize("broker", ["artemis"], indirect=True)
@pytest.mark.broker
class TestAnAddressOfArtemisWithoutPrefix:
    @pytest.mark.parametrize(
        ("said", "address", "refused"),
        [
            (None, Artemis.multicast, False),
            (None, Artemis.anycast, True),
            ("ANYCAST", Artemis.anycast, False),
            ("ANYCAST", Artemis.multicast, True),
            ("MULTICAST", Artemis.multicast, False),
            ("MULTICAST", Artemis.anycast, True),
        ],
    )
    def test_the_broker_refuses_the_other_kind_and_a_queue_without_a_kind(
        self, broker: Broker, said: str | None, address: str, refused: bool
    ) -> None:
        headers = () if said is None else ((dialect_named("artemis").subscribe_kind_header or "", said),)
        with contextlib.ExitStack() as stack:
            if refused:
                stack.enter_context(pytest.raises(DestinationRefused, match="AMQ339001 Destination does not"))
            with consumer(broker, address, *headers):
                pass

    def test_one_that_is_said_to_be_a_queue_keeps_what_is_sent_before_it_is_read(
        self, broker: Broker
    ) -> None:
        queue, bodies = broker.new_queue(), [b"%d" % number for number in range(20)]
        options = broker.options(destination=queue.removeprefix("/queue/"), destinationType="queue")
        # Confirmed and dropped: by itself Artemis makes a topic of the address.
        assert publish(broker.options(), options["destination"], [b"dropped"]) == 1
        publish(options, options["destination"], bodies)
        broker.wait_for(queue, ready=20)
        with Run(options, connections=2) as query:
            assert sorted(row["body"] for row in query.gather(20)) == sorted(bodies)
            query.commit()
            broker.wait_for(queue, ready=0)

    def test_one_that_is_said_to_be_a_topic_has_durable_subscriptions(self, broker: Broker) -> None:
        address = broker.new_queue().removeprefix("/queue/")
        options = broker.options(destination=address, destinationType="topic")
        durable = {"durableName": "prices", "clientId": address}
        with Run(options, **durable) as query:
            query.idle()
        publish(broker.options(), address, [b"while away"])
        with Run(options, **durable) as query:
            assert [row["body"] for row in query.gather(1)] == [b"while away"]
            query.commit()

    def test_a_queue_named_with_its_address_keeps_its_messages(self, broker: Broker) -> None:
        """Also if it does not exist yet, and its address is a topic for all others."""
        address = broker.new_queue().removeprefix("/queue/")
        queue = f"{address}::mine"
        assert dialect_named("artemis").kind(queue) == "queue"
        with consumer(broker, queue):
            pass
        publish(broker.options(), f"/topic/{address}", [b"while away"])
        for redelivered in ("false", "true"):
            with consumer(broker, queue, goodbye=False) as taker:
                (frame,) = taker.take(1)
                assert (frame.body, frame.get("redelivered")) == (b"while away", redelivered)


@pytest.mark.parametrize("broker", [pytest.param("artemis", marks=pytest.mark.broker)], indirect=True)
@pytest.mark.parametrize(("name", "other"), dialect_named("artemis").not_in_selectors.items())
def test_names_of_jms_match_nothing_on_artemis(broker: Broker, name: str, other: str) -> None:
    queue, headers = broker.new_queue(), [("JMSXGroupID", "g"), ("priority", "7")]
    publish(broker.options(), queue, [b"first"], *headers)
    publish(broker.options(), queue, [b"last"], ("kind", "last"))
    for one, wanted in ((name, b"last"), (other.partition(",")[0], b"first")):
        selector = f"{one} IS NOT NULL OR kind = 'last'"
        with consumer(broker, queue, ("selector", selector)) as reader:
            assert reader.take(1)[0].body == wanted


@pytest.mark.broker
def test_activemq_ends_a_browse_early_and_a_batch_read_notices(broker_pool: BrokerPool) -> None:
    """By default after 400 messages, with the mark that also follows the last message."""
    broker = broker_pool.get("activemq")
    assert isinstance(broker, ActiveMQ)
    limit = dialect_named("activemq").browse_limit
    assert limit is not None
    # Its policy leaves maxBrowsePageSize to the broker.
    queue = broker.new_paged_queue(200)
    publish(broker.options(), queue, [b"%d" % number for number in range(limit + 100)])
    with consumer(broker, queue, ("browser", "true")) as browser:
        assert browser.take(limit + 1)[limit].get("browser") == "end"
    options = parse_batch_options(broker.options(destination=queue))
    with pytest.raises(TooManyMessages, match="maxBrowsePageSize"):
        list(browse(options))


@pytest.mark.broker
@pytest.mark.rule("5.3")
@pytest.mark.parametrize(
    ("size", "connections"),
    [(200, 1), (370, 2), *(pytest.param(*one, marks=pytest.mark.soak) for one in ((200, 2), (230, 1)))],
)
def test_pages_of_activemq_hold_no_batch_up(broker_pool: BrokerPool, size: int, connections: int) -> None:
    broker = broker_pool.get("activemq")
    assert isinstance(broker, ActiveMQ)
    queue, bodies = broker.new_paged_queue(size), [b"%d" % number for number in range(4_000)]
    assert publish(broker.options(), queue, bodies) == 4_000
    options = broker.options(destination=queue, connections=connections)
    with Run(options, minMessagesPerTrigger=3_900, maxTriggerDelay="1h") as query:
        rows = query.batch()
        assert len(rows) < 3_900
        query.commit()
        begun = time.monotonic()
        rows += query.batch()
        assert time.monotonic() - begun < PATIENCE / 2
        query.commit()
        rows += query.take(4_000 - len(rows))
        query.commit()
        broker.wait_for(queue, ready=0, unacked=0)
    assert sorted(row["body"] for row in rows) == sorted(bodies)


@pytest.mark.broker
def test_a_queue_of_a_broker_that_hides_its_name(rabbitmq: RabbitMQ) -> None:
    """Only the option says what it is; several connections may then share it, and nothing comes twice."""
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"%d" % number for number in range(20)], ("number", "1"))
    options = rabbitmq.options(destination=queue.replace("/queue/", "/amq/queue/"), broker="generic")
    with (
        Run(options, connections=2) as query,
        pytest.raises(UnsupportedError, match="not known to be a queue"),
    ):
        query.batch()
    with Run(options, connections=2, destinationType="queue") as query:
        assert len(query.take(20)) == 20
        query.commit()
        rabbitmq.wait_for(queue, ready=0)
