"""Servers that people speak STOMP to and that are no brokers of their own: Spring's and Vert.x'."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interop.test_trial import results
from support.brokers import RabbitMQ, Unavailable
from support.brokers.base import HOST
from support.brokers.fixtures import missing
from support.brokers.servers import JavaServer, spring, vertx, websocket_url
from support.driven import Run, publish
from support.proxy import FaultProxy
from support.waiting import wait_until

from spark_stomp.commands import trial
from spark_stomp.commands.main import main
from spark_stomp.errors import ConnectionLost, ReceiptTimeout, StompError

pytestmark = pytest.mark.broker

BODIES = [b"message %d" % number for number in range(20)]
PROBE = "spark-stomp probe URL --scratch QUEUE"


def running(name: str, start: Callable[[], JavaServer]) -> Iterator[JavaServer]:
    try:
        server = start()
    except Unavailable as error:
        missing(name, error)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def vertx_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaServer]:
    yield from running("vertx", lambda: vertx(tmp_path_factory.mktemp("vertx")))


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaServer]:
    """Spring's simple broker."""
    yield from running("spring", lambda: spring(tmp_path_factory.mktemp("spring")))


@pytest.fixture
def relay(rabbitmq: RabbitMQ, tmp_path: Path) -> Iterator[JavaServer]:
    """Spring's relay to RabbitMQ."""
    yield from running("spring", lambda: spring(tmp_path, rabbitmq))


class TestVertx:
    def url(self, server: JavaServer) -> str:
        return f"stomp://{HOST}:{server.ports[0]}"

    def test_it_drops_what_nobody_subscribes_to(
        self, vertx_server: JavaServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["probe", self.url(vertx_server), "--scratch", "/queue/probe"]) == 1
        out = capsys.readouterr().out
        found = results(out)
        assert found["kept while nobody subscribes"] == "no, 0 of 8 messages"
        assert found["redelivered after a cut"] == "no, 0 of 6 un-acked messages"
        assert "Writing: do not rely on it. Missing, or not seen: kept while nobody subscribes." in out

    def test_a_write_warns_of_it(
        self, vertx_server: JavaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("spark_stomp.sink.encoder._once._said", set())
        assert publish({"url": self.url(vertx_server)}, "/queue/nobody", BODIES) == len(BODIES)
        assert caplog.text.count(PROBE) == 1

    def test_what_was_received_stays_when_the_connection_breaks(
        self, vertx_server: JavaServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        with (
            FaultProxy(vertx_server.ports[0]) as proxy,
            Run({"url": proxy.url, "destination": "/queue/kept"}) as run,
        ):
            run.idle()
            publish({"url": self.url(vertx_server)}, "/queue/kept", BODIES)
            wait_until(lambda: run.counters()[0]["received"] == len(BODIES), what="the messages")
            proxy.cut()
            wait_until(lambda: run.counters()[0]["reconnects"] == 1, what="the next connection")
            assert [row["body"] for row in run.gather(len(BODIES))] == BODIES
        assert PROBE in caplog.text


class TestSimpleBroker:
    def test_it_confirms_nothing(
        self, simple: JavaServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trial, "PATIENCE", 1.0)
        monkeypatch.setattr(trial, "_SILENCE", 0.25)
        assert main(["probe", websocket_url(simple), "--scratch", "/queue/probe"]) == 1
        found = results(capsys.readouterr().out)
        assert found["receipt of SEND"].startswith("no") and found["receipt of SUBSCRIBE"].startswith("no")
        # It was not only slow: it has done both.
        assert found["prefetch"] == "no, 8 of 8 came; no header for it is known"

    def test_a_query_says_so_when_it_starts(self, simple: JavaServer) -> None:
        options = {"url": websocket_url(simple), "connectTimeout": "2s", "destination": "/queue/a"}
        with pytest.raises(ReceiptTimeout, match="did not confirm SUBSCRIBE"), Run(options) as run:
            run.idle()

    def test_the_reason_of_the_end_is_quoted(self, simple: JavaServer) -> None:
        options = {"url": websocket_url(simple), "reconnectTimeout": "2s", "reconnectDelayMax": "500ms"}
        with pytest.raises(ConnectionLost, match=r"said: 1009 \(message too big\)"):
            publish(options, "/queue/a", [b"x" * 20_000])


class TestRelay:
    def test_rows_go_both_ways_also_long_ones(self, relay: JavaServer, rabbitmq: RabbitMQ) -> None:
        # It makes text of a body that is not said to be binary.
        binary = json.dumps({"content-type": "application/octet-stream"})
        options = rabbitmq.options(url=websocket_url(relay))
        queue, bodies = (
            rabbitmq.new_queue(),
            [*BODIES, b"x" * 60_000, b"\xe9" * 60_000, "é".encode() * 30_000],
        )
        wait_until(lambda: self.serves(options), what="the relay's own connection")
        assert publish({**options, "sendHeaders": binary}, queue, bodies) == len(bodies)
        with Run({**options, "destination": queue}) as run:
            # In any order, unless the application asks Spring to keep it.
            assert sorted(row["body"] for row in run.gather(len(bodies))) == sorted(bodies)
            run.commit()
            rabbitmq.wait_for(queue, ready=0)

    def test_it_is_tried_again_while_its_broker_is_away(
        self, relay: JavaServer, rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
    ) -> None:
        options = rabbitmq.options(url=websocket_url(relay))
        queue = rabbitmq.new_queue()
        wait_until(lambda: self.serves(options), what="the relay's own connection")
        with Run({**options, "destination": queue}) as run:
            run.idle()
            rabbitmq.stop()
            try:
                wait_until(lambda: run.counters()[0]["last_error"], what="the loss")
            finally:
                rabbitmq.start()
            publish(rabbitmq.options(), queue, BODIES)
            assert sorted(row["body"] for row in run.gather(len(BODIES))) == sorted(BODIES)
        assert "STOMP_LOGIN_REFUSED" not in caplog.text

    @staticmethod
    def serves(options: dict[str, str]) -> bool:
        try:
            return publish(options, "/queue/spring", [b""]) == 1
        except StompError:
            return False
