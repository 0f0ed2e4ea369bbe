"""What docs/brokers.md says of Amazon MQ, on its release: a standby, and STOMP over WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.brokers import ActiveMQ, HostedActiveMQ
from support.brokers.fixtures import BrokerPool
from support.driven import Run, publish
from support.waiting import wait_until

from spark_stomp.errors import FrameSyntaxError, StompError

pytestmark = pytest.mark.broker

BODIES = [b"message %d" % number for number in range(200)]
NOT_UTF8 = b"caf\xe9"


@pytest.fixture
def hosted(broker_pool: BrokerPool) -> HostedActiveMQ:
    broker = broker_pool.get("activemq-hosted")
    assert isinstance(broker, HostedActiveMQ)
    return broker


@pytest.fixture
def active(hosted: HostedActiveMQ, tmp_path: Path) -> Iterator[HostedActiveMQ]:
    """The test's own, after ``hosted`` has shown that it is available."""
    (tmp_path / "active").mkdir()
    active = HostedActiveMQ(tmp_path / "active")
    active.start()
    yield active
    active.stop()


@pytest.fixture
def standby(active: HostedActiveMQ, tmp_path: Path) -> Iterator[ActiveMQ]:
    """The broker that waits for the store of ``active``."""
    (tmp_path / "standby").mkdir()
    standby = active.standby(tmp_path / "standby")
    standby.start()
    yield standby
    standby.stop()


def test_the_standby_redelivers_what_was_not_acknowledged(active: HostedActiveMQ, standby: ActiveMQ) -> None:
    assert standby.waits
    queue = active.new_queue()
    # Over TLS alone, and the one that answers is not the first of them.
    options = active.over("tls", url=f"{standby.tls_url},{active.tls_url}")
    publish(options, queue, BODIES[:100])
    with Run(options, destination=queue) as query:
        rows = query.gather(100)
        active.wait_for(queue, ready=0, unacked=100)
        active.kill()
        wait_until(lambda: not standby.waits, what="the standby has the store")
        standby.wait_for(queue, ready=0, unacked=100)
        query.commit()
        standby.wait_for(queue, ready=0, unacked=0)
        publish(options, queue, BODIES[100:])
        rows += query.take(100)
        query.commit()
        standby.wait_for(queue, ready=0, unacked=0)
    assert [row["body"] for row in rows] == BODIES


class TestWebSocket:
    def test_text_arrives_both_ways(self, hosted: HostedActiveMQ) -> None:
        queue, bodies = hosted.new_queue(), [*BODIES, b"", b"\0\1\n\n", "Grüße, 漢字, 😀".encode() * 500]
        publish(hosted.over("ws"), queue, bodies)
        with Run(hosted.over("ws"), destination=queue) as query:
            assert [row["body"] for row in query.gather(len(bodies))] == bodies
            query.commit()
            hosted.wait_for(queue, ready=0, unacked=0)

    @pytest.mark.parametrize(
        ("body", "said"),
        [(NOT_UTF8, "confirmed nothing"), (b"x" * 65_536, "the broker refuses it")],
        ids=["not UTF-8", "64 KiB"],
    )
    def test_a_message_that_it_does_not_take_fails_the_sink(
        self, hosted: HostedActiveMQ, body: bytes, said: str
    ) -> None:
        queue = hosted.new_queue()
        short = {"reconnectTimeout": "3s", "reconnectDelayMax": "500ms"}
        options = hosted.over("ws", receiptTimeout="1s", blockedTimeout="1s", **short)
        with pytest.raises(StompError, match=said):
            publish(options, queue, [body])
        assert hosted.depth(queue) == 0

    def test_a_body_that_is_not_utf8_fails_the_query(self, hosted: HostedActiveMQ) -> None:
        """It comes with U+FFFD in place of what is no UTF-8, so it is longer than its content-length."""
        queue = hosted.new_queue()
        publish(hosted.over("tls"), queue, [NOT_UTF8])
        with (
            Run(hosted.over("ws"), destination=queue) as query,
            pytest.raises(FrameSyntaxError, match="no NUL follows the body"),
        ):
            query.batch()
        hosted.wait_for(queue, ready=1, unacked=0)
