"""Queues that do not deliver again all that comes back: what a query that lives has received is a row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from support.brokers.fixtures import BrokerPool
from support.driven import Run, bodies, send_rows
from support.waiting import wait_until

from spark_stomp.options import parse_batch_options
from spark_stomp.source.planning import Mode
from spark_stomp.source.reads import browse

pytestmark = [pytest.mark.broker, pytest.mark.rule("2.4")]
RING, LAST = "a ring queue (ring-size 5)", "a last-value queue"
PURGED = "a queue that is purged when nobody reads it (purge-on-no-consumers)"
FULL = "a queue that drops its oldest messages when it is full (max-length 5)"
PASSING = "a queue that goes with its messages when nobody reads it (auto-delete)"


def by_management(**settings: object) -> Callable[[Any], str]:
    def make(artemis: Any) -> str:
        queue: str = artemis.new_queue()
        artemis.declare(queue, **settings)
        return queue

    return make


def by_setting(folder: str) -> Callable[[Any], str]:
    """Artemis makes the queue when it is first named."""
    return lambda artemis: str(artemis.new_queue().replace("/queue/", f"/queue/{folder}."))


@dataclass(frozen=True)
class Kept:
    """A queue of Artemis, which is ``kind`` and delivers ``again`` so many of 20 messages."""

    make: Callable[[Any], str]
    kind: str
    again: int


KINDS = {
    "ring": Kept(by_management(**{"ring-size": 5}), RING, 5),
    "ring by address": Kept(by_setting("ring"), RING, 5),
    "last value": Kept(by_management(**{"last-value": True, "last-value-key": "k"}), LAST, 4),
    "last value by address": Kept(by_setting("last"), LAST, 4),
    "purged": Kept(by_management(**{"purge-on-no-consumers": True}), PURGED, 0),
    "passing": Kept(by_setting("passing"), PASSING, 0),
    "ordinary": Kept(by_management(), "", 20),
}


def standing_of(run: Run, queue: str) -> dict[str, Any]:
    """What the broker has told of the queue; empty before."""
    answer: dict[str, Any] = run.status.document["queues"].get(queue, {})
    return answer


def has_more(run: Run, before: int) -> bool:
    return run.waiting > before


@pytest.fixture
def artemis(telling_pool: BrokerPool) -> Any:
    return telling_pool.get("artemis")


@pytest.mark.parametrize("kept", KINDS.values(), ids=KINDS)
def test_what_was_received_is_a_row_though_it_does_not_come_again(
    artemis: Any, kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection breaks in a batch, and newer messages had come. The kind is known within seconds."""
    queue = kept.make(artemis)
    rows = [(b"%d" % number, [("k", str(number % 4))]) for number in range(21)]
    with Run(artemis.options(destination=queue, reconnectDelay="100ms")) as run:
        run.begin()
        wait_until(lambda: run.counters()[0]["connected"], what="a subscription")
        send_rows(artemis.options(), queue, rows[:1])
        got = run.gather(1)
        for row in rows[1:]:
            # Of those that are not delivered yet, such a queue keeps few.
            before = run.waiting
            send_rows(artemis.options(), queue, [row])
            wait_until(partial(has_more, run, before), what="the next message")
        wait_until(
            lambda: run.status.document["queues"].get(queue), timeout=10.0, what="what the broker tells"
        )
        assert run.status.document["queues"][queue]["forgetful"] == (kept.kind or None)
        artemis.close_sessions(queue)
        wait_until(lambda: run.counters()[0]["delivered"] >= 21 + kept.again, what="what comes again")
        wait_until(
            lambda: run.counters()[0]["reconnects"] and run.counters()[0]["connected"], what="a new one"
        )
        run.commit()
        got += run.take(20)
        run.commit()
        assert sorted(bodies(got)) == sorted(body for body, _ in rows)
        artemis.wait_for(queue, 0)
    warned = f"{queue} is {kept.kind}: what this query has received and not committed when it ends"
    assert (warned in caplog.text) == bool(kept.kind)


@pytest.mark.parametrize(
    ("arguments", "policy", "kind"),
    [
        ({"x-max-length": 5}, "", FULL),
        ({"x-queue-type": "quorum"}, '{<<"max-length">>, 5}', FULL),
        ({"x-max-length": 5, "x-overflow": "reject-publish"}, "", ""),
    ],
    ids=["by an argument", "by a policy", "refuses"],
)
def test_what_comes_back_to_a_full_queue_of_rabbitmq(
    telling_pool: BrokerPool,
    arguments: dict[str, str | int],
    policy: str,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five messages are received, and five newer ones fill the queue before the connection breaks."""
    # The management tells of the policy of a new queue after some seconds.
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 1.0)
    broker: Any = telling_pool.get("rabbitmq")
    queue = broker.new_queue()
    name = queue.removeprefix("/queue/")
    if policy:
        owner = f'<<"/">>, <<"{name}">>, <<"^{name}$">>'
        broker.evaluate(f'rabbit_policy:set({owner}, [{policy}], 0, <<"queues">>, <<"test">>).')
    broker.declare(queue, arguments)
    declared = queue.replace("/queue/", "/amq/queue/")
    old, new = ([(b"%d" % number, ()) for number in range(first, first + 5)] for first in (0, 5))
    send_rows(broker.options(), declared, old)
    with Run(broker.options(destination=declared, prefetch=5, reconnectDelay="100ms")) as run:
        got = run.gather(5)
        send_rows(broker.options(), declared, new)
        wait_until(lambda: broker.standing(queue) == (5, 5), what="a full queue")
        wait_until(lambda: standing_of(run, declared).get("forgetful", "") == (kind or None), what="its kind")
        broker.close_connections("test")
        wait_until(lambda: run.counters()[0]["reconnects"], what="a new connection")
        if kind:
            run.commit()
            got += run.take(5)
            run.commit()
            assert sorted(bodies(got)) == sorted(body for body, _ in old + new)
    broker.wait_for(queue, 0 if kind else 10)


@pytest.mark.rule("7.1")
def test_a_run_that_ends_says_it_too(artemis: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked at its start."""
    queue = KINDS["ring"].make(artemis)
    with Run(artemis.options(destination=queue, idleTimeout="1s")) as run:
        run.reader._mode = Mode.DRAIN
        send_rows(artemis.options(), queue, [(b"a", ())])
        run.batch()
        run.commit()
        wait_until(lambda: f"{queue} is {RING}: " in caplog.text, timeout=10.0, what="the warning")


def test_a_look_leaves_a_ring_as_it_would_be_without_it(artemis: Any) -> None:
    """What it gives back while newer messages come is gone, as those that the queue had waiting would be."""
    queue = KINDS["ring"].make(artemis)
    rows = [(b"%d" % number, ()) for number in range(8)]
    send_rows(artemis.options(), queue, rows[:5])
    options = artemis.options(destination=queue, maxMessages=1_000, idleTimeout="2s")
    with closing(browse(parse_batch_options(options))) as batches:
        shown = [next(batches)[0]]
        for row in rows[5:]:
            send_rows(artemis.options(), queue, [row])
        shown += [batch for batch, _ in batches]
    assert sum(len(batch.ends) for batch in shown) == 8
    artemis.wait_for(queue, 5)
    with Run(artemis.options(destination=queue)) as run:
        assert bodies(run.gather(5)) == [body for body, _ in rows[3:]]
        run.commit()
        artemis.wait_for(queue, 0)
