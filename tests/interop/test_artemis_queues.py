"""Several queues of one address of Artemis, each with a copy of every message."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
from support.brokers import Artemis
from support.driven import Run, publish
from support.waiting import wait_until

from spark_stomp.errors import ConnectionLost

on_artemis = pytest.mark.parametrize(
    "broker", [pytest.param("artemis", marks=pytest.mark.broker)], indirect=True
)
BODIES = [b"message %d" % number for number in range(20)]


@pytest.mark.rule("4.2")
@on_artemis
@pytest.mark.parametrize("journaled", [False, True])
def test_two_queues_of_one_address_in_one_query(broker: Artemis, journaled: bool, tmp_path: Path) -> None:
    address = f"t{secrets.token_hex(6)}"
    queues = [f"{address}::{address}.one", f"{address}::{address}.two"]
    for queue in queues:
        broker.create_queue(queue)
    publish(broker.options(), address, BODIES, ("destination-type", "MULTICAST"))
    journal = {"journal": tmp_path / "journal"} if journaled else {}
    options = broker.options(destination=json.dumps(queues), **journal)
    with Run(options, ("body", "receiver", "destination")) as query:
        rows = query.gather(2 * len(BODIES))
        assert {row["destination"] for row in rows} == {address}
        for queue in queues:
            assert [row["body"] for row in rows if row["receiver"].startswith(queue)] == BODIES
        # A redelivered message is known by the queue that it comes from.
        broker.restart()
        wait_until(
            lambda: [one.counts.reattached for one in query.status.receivers] == [len(BODIES)] * 2,
            what="all once more",
        )
        assert [one.received for one in query.status.receivers] == [len(BODIES)] * 2
        query.commit()
        for queue in queues:
            broker.wait_for(queue, ready=0)


@on_artemis
class TestAFullAddress:
    ROWS = tuple(b"x" * 1_000 for _ in range(100))

    @pytest.mark.rule("S.5")
    def test_that_fails_says_that_it_may_be_full(self, broker: Artemis) -> None:
        queue = broker.new_queue().replace("/queue/", "/queue/full.fail.")
        # Artemis says the same to a login that may not send, so the task tries again, and drops nothing.
        options = broker.options(reconnectTimeout="1s", reconnectDelayMax="300ms", onError="drop")
        with pytest.raises(ConnectionLost, match=f"SEND to {queue}: AMQ339011 .* the address is full"):
            publish(options, queue, self.ROWS)

    def test_that_drops_says_nothing(self, broker: Artemis) -> None:
        """As docs/sink.md says."""
        queue = broker.new_queue().replace("/queue/", "/queue/full.drop.")
        assert publish(broker.options(), queue, self.ROWS) == len(self.ROWS)
        assert broker.standing(queue).ready < len(self.ROWS)
