"""A queue that does not deliver again all that comes back to it: the dev broker does as a ring queue does."""

from __future__ import annotations

import pytest
from support.driven import Run, bodies
from support.waiting import wait_until

from spark_stomp.brokers.standing import Standing
from spark_stomp.devbroker import DevBroker, core, server

QUEUE = "/queue/ring"
KEPT = 5


class Ring(core.Broker):
    """Of what a connection leaves un-acked, it deletes all but the newest."""

    def leave(self, member: core.Member) -> None:
        for subscription in member.subscriptions.values():
            for handle in [*subscription.unacked][:-KEPT]:
                self.acknowledge(subscription, handle)
        super().leave(member)


@pytest.mark.rule("2.4")
@pytest.mark.parametrize("known", [True, False])
def test_what_was_received_is_a_row_if_the_kind_is_known(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = Standing(True, 0, 0, 1, forgetful="a ring queue" if known else "")
    monkeypatch.setattr("spark_stomp.source.standings.ask_standing", lambda *_: figures)
    monkeypatch.setattr("spark_stomp.source.standings._FIRST", 0.01)
    monkeypatch.setattr(server, "Broker", Ring)
    every = [b"%d" % number for number in range(21)]
    with (
        DevBroker() as broker,
        Run({"url": broker.url, "destination": QUEUE, "reconnectDelay": "10ms"}) as run,
    ):
        broker.publish_many(QUEUE, every[:1])
        rows = run.gather(1)
        broker.publish_many(QUEUE, every[1:])
        wait_until(lambda: run.waiting == 21, what="all of them, in a batch")
        wait_until(lambda: run.status.document["queues"], what="the broker's answer")
        broker.drop_connections()
        wait_until(lambda: run.counters()[0]["delivered"] == 21 + KEPT, what="what comes again")
        run.commit()
        rows += run.take(20 if known else KEPT)
        run.commit()
        wait_until(lambda: not broker.queue(QUEUE).depth, what="all ACKs")
        # In order, and none twice.
        assert bodies(rows) == (every if known else [every[0], *every[-KEPT:]])
        assert not run.waiting
