"""A login that RabbitMQ accepted, and then refuses for a while."""

from __future__ import annotations

import pytest
from support.brokers.fixtures import BrokerPool
from support.brokers.rabbitmq import RabbitMQ
from support.driven import publish
from support.options import source_options
from support.proxy import FaultProxy
from support.receivers import running
from support.waiting import wait_until


@pytest.mark.broker
@pytest.mark.rule("4.8")
def test_a_password_that_is_changed_for_a_while(
    broker_pool: BrokerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rabbitmq = broker_pool.get("rabbitmq")
    assert isinstance(rabbitmq, RabbitMQ)
    monkeypatch.setattr("spark_stomp.transport.retry.FIRST_LOGIN_DELAY", 0.5)
    queue = rabbitmq.new_queue()
    with FaultProxy(rabbitmq.port) as proxy:
        options = source_options(proxy.url, queue, **rabbitmq.credentials)
        with running(options) as receiver:
            wait_until(lambda: receiver.status().subscribed, what="the subscription")
            rabbitmq.change_password(rabbitmq.login, "another")
            try:
                proxy.cut()
                wait_until(lambda: receiver.status().connection.attempts >= 2, what="two refusals")
                assert "STOMP_LOGIN_REFUSED" in (receiver.status().connection.last_error or "")
            finally:
                rabbitmq.change_password(rabbitmq.login, rabbitmq.password)
            publish(rabbitmq.options(), queue, [b"0", b"1", b"2"])
            wait_until(lambda: receiver.status().received == 3, what="the messages")
            assert receiver.status().failure is None
