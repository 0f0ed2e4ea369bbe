"""Real brokers that are killed: what the tests with faults rely on."""

from __future__ import annotations

import json

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, publish

pytestmark = [pytest.mark.soak, on_real_brokers]


def test_a_queue_made_just_before_keeps_what_was_confirmed_and_takes_more(broker: Broker) -> None:
    queue, headers = broker.new_queue(), tuple(broker.crash_safe.items())
    for body in (b"before the first crash", b"before the second", b"at last"):
        publish(broker.options(), queue, [body], *headers)
        broker.crash()
    broker.wait_for(queue, ready=3)
    with Run(broker.options(destination=queue), subscribeHeaders=json.dumps(broker.crash_safe)) as query:
        assert len(query.gather(3)) == 3
        query.commit()
        broker.wait_for(queue, ready=0)
