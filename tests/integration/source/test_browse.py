"""A batch read takes nothing away: it browses if the broker can, and else gives everything back."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import pytest
from support.columns import projection_of
from support.scripted import CLOSE, OURS, RabbitMQ, ScriptedBroker, header_of, message, opened
from support.tcp import stomp_server
from support.waiting import wait_until

from spark_stomp.arrow import decode_frames
from spark_stomp.brokers import subscription_id
from spark_stomp.devbroker import DevBroker
from spark_stomp.devbroker.core import Broker
from spark_stomp.errors import (
    BrokerError,
    ConnectionLost,
    DestinationRefused,
    MalformedMessageError,
    TooManyMessages,
    UnsupportedError,
)
from spark_stomp.options import Endpoint, SourceOptions, parse_batch_options
from spark_stomp.receiver import Deliveries
from spark_stomp.source.reads import RowSettings, batch_read, browse
from spark_stomp.spark.readers import StompBatchReader

QUEUE = "/queue/a"
BODIES = [b"m%d" % number for number in range(25)]


def parsed(url: str, **options: Any) -> SourceOptions:
    given = {"url": url, "destination": QUEUE, "idleTimeout": "300ms", **options}
    return parse_batch_options({key: str(value) for key, value in given.items()})


def looks(where: str | Callable[[socket.socket], None], **options: Any) -> Iterator[list[bytes]]:
    """The bodies of each record batch of a batch read, as they are asked for.

    From the broker at this URL, or from one that a test scripts.
    """
    rows = RowSettings(projection_of("body"), None, "error")
    with ExitStack() as stack:
        url = where if isinstance(where, str) else stack.enter_context(stomp_server(where))
        for block, dialect in browse(parsed(url, **options)):
            rules = rows.rules(dialect)
            yield decode_frames(block, rows.projection, rules).column("body").to_pylist()


def seen(devbroker: DevBroker, **options: Any) -> list[bytes]:
    return [body for bodies in looks(devbroker.url, **options) for body in bodies]


def given_back(broker: DevBroker, bodies: list[bytes] = BODIES) -> None:
    """All of them are in the queue again, and none was ACKed."""
    wait_until(lambda: broker.queue(QUEUE).unacked == 0, what="the messages given back")
    assert (broker.bodies(QUEUE), broker.queue(QUEUE).acked) == (bodies, 0)


@pytest.mark.rule("7.9")
@pytest.mark.parametrize("destination", ["/queue/a", "/amq/queue/a"])
def test_a_stream_is_refused(destination: str) -> None:
    """At its first message; at the start if the queue is only named."""
    header = b"x-stream-offset:7" if destination == "/queue/a" else b"own:header"
    rabbit = RabbitMQ("a", header=header)
    with pytest.raises(UnsupportedError, match="is a stream"):
        list(looks(rabbit.broker.serve, destination=destination))
    assert rabbit.questions == ["a"]


@pytest.mark.rule("7.13")
def test_looking_at_rabbitmq_declares_nothing() -> None:
    class Asked(RabbitMQ):
        def _asked(self, number: int, frame: bytes) -> bytes:
            if frame.startswith(b"SUBSCRIBE"):
                named.add(header_of(frame, b"destination"))
            return super()._asked(number, frame)

    named: set[bytes] = set()
    assert sum(map(len, looks(Asked("nobody").broker.serve))) == 3
    gone = Asked("nobody", silent="NOT_FOUND - no queue 'a' in vhost '/'")
    with pytest.raises(DestinationRefused, match="/queue/a is not there, and a look makes no queue"):
        list(looks(gone.broker.serve))
    assert named == {b"/amq/queue/a"}


@pytest.mark.rule("7.13")
@pytest.mark.parametrize(
    ("count", "options", "refused"),
    [
        (9, {}, False),
        (10, {}, False),
        (14, {}, False),
        (15, {}, True),
        (20, {}, True),
        # Its limit is another one.
        (21, {}, False),
        (20, {"allowLoss": "true"}, False),
    ],
)
def test_a_look_is_refused_before_a_quorum_queue_drops_what_it_shows(
    count: int, options: dict[str, str], refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    header = b"redelivered:true\nx-delivery-count:%d" % count
    broker = RabbitMQ(header=header).broker
    if refused:
        with pytest.raises(UnsupportedError, match=rf"were delivered {count} times before .* \.cache\(\)"):
            list(looks(broker.serve, **options))
        return
    assert sum(map(len, looks(broker.serve, **options))) == 3
    assert (f", the {count + 1}th time (x-delivery-count)" in caplog.text) == (count >= 10)


@pytest.mark.parametrize("broker", ["auto", "generic"])
@pytest.mark.parametrize("most", [1, 24, 25, 26])
def test_up_to_max_messages_and_nothing_consumed(
    devbroker: DevBroker, broker: str, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    assert seen(devbroker, broker=broker, maxMessages=most) == BODIES[:most]
    given_back(devbroker)
    # Who does not browse does not see that these are all.
    is_cut = most < 25 or (most == 25 and broker == "generic")
    assert (f"cut off after maxMessages ({most})" in caplog.text) == is_cut
    assert ("counts each of them as delivered once more" in caplog.text) == (broker == "generic")


@pytest.mark.parametrize("versions", ["1.0", "1.1", "1.2"])
def test_nothing_is_consumed_where_the_broker_passes_over_what_asks_to_browse(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, versions: str, caplog: pytest.LogCaptureFixture
) -> None:
    subscribe = Broker.subscribe

    def consuming(broker: Broker, *given: Any, browse: bool, **named: Any) -> None:
        subscribe(broker, *given, **named)

    monkeypatch.setattr(Broker, "subscribe", consuming)
    devbroker.publish_many(QUEUE, BODIES)
    assert seen(devbroker, acceptVersions=versions, maxMessages=24) == BODIES[:24]
    given_back(devbroker)
    assert devbroker.queue(QUEUE).delivered == 25
    assert "did not say that the browse has ended" not in caplog.text
    assert seen(devbroker, acceptVersions=versions) == BODIES
    assert "did not say that the browse has ended" in caplog.text


def test_a_message_that_only_looks_like_the_end_of_a_browse(devbroker: DevBroker) -> None:
    devbroker.publish(QUEUE, b"browser:end")
    devbroker.publish(QUEUE, b"after")
    assert seen(devbroker) == [b"browser:end", b"after"]


def test_a_batch_read_that_takes_long_logs_how_far_it_is(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spark_stomp.source.reads._LOG_EVERY", 0.0)
    devbroker.publish_many(QUEUE, BODIES)
    with caplog.at_level("INFO", "spark_stomp"):
        assert sum(len(batch.ends) for batch, _ in batch_read(parsed(devbroker.url), None)) == len(BODIES)
    assert f"the batch read of {QUEUE} has 25 messages so far, " in caplog.text


def test_producers_that_never_pause_do_not_keep_a_batch_read_open(
    devbroker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    over = threading.Event()

    def produce() -> None:
        while not over.wait(0.05):
            devbroker.publish(QUEUE, b"more")

    producer = threading.Thread(target=produce)
    producer.start()
    begun = time.monotonic()
    try:
        seen(devbroker, broker="generic", maxDrainTime="3s", maxMessages=1_000_000, idleTimeout="3s")
    finally:
        over.set()
        producer.join()
    assert time.monotonic() - begun < 10
    assert "cut off after maxDrainTime (3s): there may be more" in caplog.text


# --- more messages than maxMessages


@pytest.mark.parametrize("broker", ["auto", "generic"])
def test_more_than_the_default_is_an_error_and_not_a_part_of_the_rows(
    devbroker: DevBroker, broker: str
) -> None:
    devbroker.publish_many(QUEUE, [b"x"] * 1001)
    with pytest.raises(TooManyMessages, match=rf"{QUEUE}.*more than 1000 messages.*maxMessages"):
        seen(devbroker, broker=broker)
    assert len(seen(devbroker, broker=broker, maxMessages=1001)) == 1001
    given_back(devbroker, [b"x"] * 1001)


class TestWhereABrowseEndsEarly:
    """ActiveMQ ends a browse after ``maxBrowsePageSize`` messages, with its end mark, and says nothing."""

    def test_as_many_as_that_may_not_be_all(self, devbroker: DevBroker) -> None:
        devbroker.publish_many(QUEUE, [b"x"] * 400)
        with pytest.raises(TooManyMessages, match=rf"{QUEUE}.*400.*maxBrowsePageSize"):
            seen(devbroker, broker="activemq")
        with pytest.raises(TooManyMessages, match="maxBrowsePageSize"):
            seen(devbroker, broker="activemq", maxMessages=401)
        assert len(seen(devbroker, broker="activemq", maxMessages=400)) == 400

    @pytest.mark.parametrize("there", [399, 401])
    def test_any_other_number_is_all(self, devbroker: DevBroker, there: int) -> None:
        devbroker.publish_many(QUEUE, [b"x"] * there)
        assert len(seen(devbroker, broker="activemq")) == there

    def test_a_selector_is_said_to_hide_that(
        self, devbroker: DevBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.devbroker.peer._UNSUPPORTED", ())
        seen(devbroker, broker="activemq", selector="a = 1")
        assert "may miss messages" in caplog.text


class TestSeveralDestinations:
    THREE = '["/queue/a", "/queue/b", "/queue/c"]'

    @pytest.fixture
    def filled(self, devbroker: DevBroker) -> DevBroker:
        for name in "abc":
            devbroker.publish_many(f"/queue/{name}", [name.encode()] * 600)
        return devbroker

    @pytest.mark.parametrize("broker", ["auto", "generic"])
    @pytest.mark.parametrize("most", [599, 600, 700, 1300, 1800])
    def test_max_messages_counts_those_of_all(self, filled: DevBroker, broker: str, most: int) -> None:
        bodies = seen(filled, destination=self.THREE, broker=broker, maxMessages=most)
        assert len(bodies) == most
        assert max(Counter(bodies).values()) <= 600
        assert filled.connects == 1
        with pytest.raises(TooManyMessages, match=r"/queue/a, /queue/b.*more than 1000"):
            seen(filled, destination=self.THREE, broker=broker)

    @pytest.mark.parametrize("versions", ["1.0", "1.1", "1.2"])
    def test_one_silence_ends_the_read_of_all(self, devbroker: DevBroker, versions: str) -> None:
        queues = [f"/queue/{number}" for number in range(10)]
        for queue in queues:
            devbroker.publish(queue, queue.encode())
        begun = time.monotonic()
        given = {"destination": json.dumps(queues), "broker": "generic", "acceptVersions": versions}
        bodies = seen(devbroker, idleTimeout="800ms", **given)
        assert 0.8 < time.monotonic() - begun < 8  # the silences of all, one after another
        assert sorted(bodies) == [queue.encode() for queue in queues]
        assert devbroker.connects == 1
        wait_until(
            lambda: not any(view.unacked for view in devbroker.queues().values()), what="all given back"
        )

    FOUR = MappingProxyType({name: subscription_id(f"/queue/{name}").encode() for name in "abcd"})

    def marked(self, *answers: str, **options: Any) -> list[list[bytes]]:
        """The rows of four queues, from a broker that answers each SUBSCRIBE with these messages and marks.

        "a" is a message of /queue/a, and "A" the mark that ends its browse.
        """
        given = iter(answers)

        def frame_of(one: str) -> bytes:
            head = [] if one.islower() else [b"browser:end"]
            return message(ord(one) if one.islower() else 0, one.encode(), self.FOUR[one.lower()], head)

        def asked(number: int, frame: bytes) -> bytes:
            return b"".join(map(frame_of, next(given))) if frame.startswith(b"SUBSCRIBE") else b""

        broker = ScriptedBroker(b"ActiveMQ/6", asked)
        four = json.dumps([f"/queue/{name}" for name in self.FOUR])
        rows = list(looks(broker.serve, destination=four, idleTimeout="1h", maxDrainTime="1h", **options))
        assert broker.connections == 1
        return rows

    def test_marks_of_several_browses_may_be_in_one_block(self, caplog: pytest.LogCaptureFixture) -> None:
        assert self.marked("", "", "", "BadAdcDC") == [[b"a", b"d", b"d", b"c"]]
        assert not caplog.records

    def test_marks_that_come_before_all_receipts_take_no_room(self, caplog: pytest.LogCaptureFixture) -> None:
        assert self.marked("A", "B", "CdD", "", maxMessages=1) == [[b"d"]]
        assert not caplog.records

    def test_max_messages_counts_over_all_blocks(self, caplog: pytest.LogCaptureFixture) -> None:
        rows = self.marked("aaA", "bbB", "ccC", "ddD", maxMessages=5)
        assert [body for bodies in rows for body in bodies] == [b"a", b"a", b"b", b"b", b"c"]
        assert "cut off after maxMessages (5)" in caplog.text


# --- what is there to be read


@pytest.mark.parametrize("broker", ["auto", "generic"])
@pytest.mark.parametrize("topic", ["/topic/a", "/topic/never-used"])
def test_a_topic_is_refused_as_in_a_stream(devbroker: DevBroker, broker: str, topic: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"{topic} is a topic.*allowLoss = true"):
        seen(devbroker, destination=topic, broker=broker)
    assert seen(devbroker, destination=topic, broker=broker, allowLoss="true") == []
    # While Spark plans.
    with pytest.raises(UnsupportedError, match=f"{topic} is a topic"):
        StompBatchReader(parsed("stomp://127.0.0.1:1", destination=topic), projection_of("body"))
    loss = parsed("stomp://127.0.0.1:1", destination=topic, allowLoss="true")
    assert StompBatchReader(loss, projection_of("body"))


# --- a slow broker, and a slow consumer


def receivers() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("stomp-receiver")]


@pytest.mark.parametrize(
    ("then", "end"),
    [
        (b"ERROR\nmessage:gone\n\n\0", BrokerError),
        (CLOSE, ConnectionLost),
        # All has come.
        (message(0, b"", OURS, [b"browser:end"]) + CLOSE, StopIteration),
    ],
)
def test_what_came_before_the_end_is_seen_before_it(then: bytes, end: type[Exception]) -> None:
    def serve(connection: socket.socket) -> None:
        opened(connection, b"0,0")
        connection.sendall(message(1, b"one") + then.removesuffix(CLOSE))
        if not then.endswith(CLOSE):
            connection.recv(4096)

    rows = looks(serve, broker="activemq", idleTimeout="1h")
    assert next(rows) == [b"one"]
    with pytest.raises(end):
        next(rows)
    assert receivers() == []


def test_a_login_in_clear_is_said_once(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Endpoint, "loopback", False)
    given = {"destination": '["/queue/a","/queue/b"]', "login": "ada", "password": "a secret"}
    assert seen(devbroker, **given) == []
    assert caplog.text.count("plain text") == 1
    assert "a secret" not in caplog.text


def test_beats_go_on_while_the_consumer_pauses() -> None:
    with DevBroker(heartbeat=(300, 300)) as broker:
        broker.publish(QUEUE, b"one")
        options = {"heartbeat": "300ms,300ms", "broker": "generic"}
        rows = looks(broker.url, **options)
        assert next(rows) == [b"one"]
        # As Spark does that does not ask for the next batch: the broker gives up after twice the interval.
        threading.Event().wait(2.0)
        assert broker.connections == 1
        broker.publish(QUEUE, b"two")
        assert list(rows) == [[b"two"]]
        wait_until(lambda: broker.disconnects == 1, what="the orderly end")


def test_nothing_runs_on_after_a_read_that_was_given_up(devbroker: DevBroker) -> None:
    devbroker.publish(QUEUE, b"one")
    rows = looks(devbroker.url, broker="generic")
    assert next(rows) == [b"one"]
    assert receivers()
    rows.close()  # type: ignore[attr-defined]
    assert receivers() == []
    given_back(devbroker, [b"one"])


def test_memory_is_bounded_while_the_consumer_is_slow(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Deliveries] = []

    def kept(*given: Any) -> Deliveries:
        made.append(Deliveries(*given))
        return made[-1]

    monkeypatch.setattr("spark_stomp.source.reads.Deliveries", kept)
    bodies = [b"%d" % number * 2_000 for number in range(1_000)]
    devbroker.publish_many(QUEUE, bodies)
    most = 512 << 10
    rows, held = [], []
    for batch in looks(devbroker.url, broker="generic", maxMessages=2_000, maxBufferedBytes=most):
        rows += batch
        if len(rows) < len(bodies):
            wait_until(lambda: made[0].inbox.room <= 0 or made[0].inbox.received == len(bodies), what="pause")
        held.append(made[0].inbox.memory_bytes)
    assert rows == bodies
    # A read may take all the room there is, and one more message.
    assert most <= max(held) <= 2 * most + 10_000


def test_a_pause_is_no_silence(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"x" * 10_000] * 300)
    count = 0
    options = {"maxMessages": 1_000, "maxBufferedBytes": "64k", "idleTimeout": "200ms"}
    for batch in looks(devbroker.url, broker="generic", **options):
        count += len(batch)
        if count < 100:
            threading.Event().wait(0.5)
    assert count == 300


class TestMalformed:
    BAD = b"no colon\n"

    @pytest.mark.rule("7.6")
    @pytest.mark.parametrize("broker", ["auto", "generic"])
    def test_fails_the_read_and_is_named(self, devbroker: DevBroker, broker: str) -> None:
        devbroker.publish(QUEUE, b"good")
        devbroker.publish(QUEUE, b"bad", raw=self.BAD)
        with pytest.raises(MalformedMessageError, match=rf"'ID:.*' from {QUEUE} is malformed: .*no colon"):
            seen(devbroker, broker=broker)
        given_back(devbroker, [b"good", b"bad"])

    @pytest.mark.rule("7.7")
    @pytest.mark.parametrize("broker", ["auto", "generic"])
    def test_is_a_row_where_that_is_asked_for(
        self, devbroker: DevBroker, broker: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        devbroker.publish(QUEUE, b"first")
        devbroker.publish(QUEUE, b"bad", raw=self.BAD)
        devbroker.publish(QUEUE, b"last")
        options = parsed(devbroker.url, broker=broker, onMalformed="column")
        reader = StompBatchReader(options, projection_of("body", "malformed", "sequence"))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert [bool(row["malformed"]) for row in rows] == [False, True, False]
        assert [row["sequence"] for row in rows] == [0, 1, 2]
        assert rows[1]["body"].endswith(b"\n\nbad\0")
        given_back(devbroker, [b"first", b"bad", b"last"])
        # Each line says of which query it is.
        assert all(line.startswith(f"query={QUEUE}") for line in caplog.messages)
        assert caplog.messages or broker == "auto"
