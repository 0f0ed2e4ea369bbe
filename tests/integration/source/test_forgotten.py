"""A broker that forgets a subscription and says nothing: the dev broker, made to do what ActiveMQ does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.driven import MODES, Run, bodies
from support.waiting import wait_until

from spark_stomp.brokers.devbroker import DEVBROKER
from spark_stomp.brokers.standing import Standing
from spark_stomp.devbroker import DevBroker
from spark_stomp.devbroker.queues import Queue

pytestmark = pytest.mark.rule("4.13")
QUEUE, OTHER = "/queue/a", "/queue/b"


class Forgetful:
    """A dev broker that tells how many consumers a queue has, and takes them away without a frame.

    It goes on confirming their ACKs, and does nothing with them.
    """

    def __init__(self, broker: DevBroker) -> None:
        self.broker = broker
        self.asked = 0

    def queue(self, name: str) -> Queue:
        return self.broker._broker._queue(name)

    def standing(self, _options: object, _dialect: object, queue: str, *_: object) -> Standing:
        self.asked += 1
        view, consumers = self.broker.queue(queue), len(self.queue(queue).consumers)
        return Standing(True, view.depth - view.unacked, view.unacked, consumers)

    def forget(self, name: str) -> None:
        with self.broker._changing():
            queue, elsewhere = self.queue(name), Queue()
            for one in [*queue.consumers]:
                queue.consumers.remove(one)
                queue.put_back(one.unacked.values())
                elsewhere.consumers.append(one)
                elsewhere.unacked += len(one.unacked)
                one.queue = elsewhere

    def counted(self) -> None:
        """Wait until it has told of all that stand now."""
        before = self.asked
        wait_until(lambda: self.asked > before + 4, what="questions")


@pytest.fixture
def forgetful(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forgetful]:
    forgetful = Forgetful(devbroker)
    monkeypatch.setattr("spark_stomp.source.standings.ask_standing", forgetful.standing)
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 0.02)
    monkeypatch.setitem(vars(DEVBROKER.asks), "settling", 0.1)
    return forgetful


def options(forgetful: Forgetful, *queues: str, **further: str) -> dict[str, str]:
    return {
        "url": forgetful.broker.url,
        "destination": json.dumps(queues),
        "reconnectDelay": "10ms",
        **further,
    }


def totals(run: Run) -> dict[str, int]:
    shown = run.status.document["totals"]
    return {key: shown[key] for key in ("forgotten", "reconnects", "dropped", "reattached", "unacked")}


@pytest.mark.parametrize("mode", MODES)
def test_what_it_confirmed_since_gives_no_second_row(
    forgetful: Forgetful, mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """ACKs that did nothing: the messages come again, are ACKed again, and new ones come."""
    broker = forgetful.broker
    broker.publish_many(QUEUE, [b"%d" % number for number in range(20)])
    with Run(options(forgetful, QUEUE, **MODES[mode](tmp_path))) as run:
        first = run.gather(20)
        if mode == "ackAfter=journal":
            wait_until(lambda: not broker.queue(QUEUE).depth, what="ACKs")
            broker.publish_many(QUEUE, [b"%d" % number for number in range(20, 40)])
        forgetful.counted()
        forgetful.forget(QUEUE)
        run.commit()
        wait_until(lambda: totals(run)["forgotten"] == 1, what="a connection that is made anew")
        broker.publish_many(QUEUE, [b"new"])
        rest = run.gather(21 if mode == "ackAfter=journal" else 1)
        run.commit()
        wait_until(lambda: not broker.queue(QUEUE).depth, what="all ACKs")
        assert sorted(bodies([*first, *rest])) == sorted({*bodies(first), *bodies(rest)})
        assert totals(run)["reconnects"] == 1
    assert "the broker counts 0 consumers of /queue/a" in caplog.text


def test_of_what_is_not_committed(forgetful: Forgetful) -> None:
    """It comes again to the messages that are held."""
    forgetful.broker.publish_many(QUEUE, [b"%d" % number for number in range(20)])
    with Run(options(forgetful, QUEUE)) as run:
        run.gather(20)
        forgetful.counted()
        forgetful.forget(QUEUE)
        wait_until(lambda: totals(run)["reattached"] == 20, what="all of them again")
        run.commit()
        wait_until(lambda: not totals(run)["unacked"], what="the receipts of all ACKs")
        assert not forgetful.broker.queue(QUEUE).depth
        assert totals(run) == {
            "forgotten": 1,
            "reconnects": 1,
            "dropped": 0,
            "reattached": 20,
            "unacked": 0,
        }


def test_messages_of_another_queue_prove_nothing(forgetful: Forgetful) -> None:
    """One connection reads two queues; only what came by the same subscription proves its ACKs."""
    broker = forgetful.broker
    with Run(options(forgetful, QUEUE, OTHER)) as run:
        run.idle()
        broker.publish_many(QUEUE, [b"%d" % number for number in range(20)])
        run.gather(20)
        forgetful.counted()
        forgetful.forget(QUEUE)
        run.commit()
        rows = []
        for number in range(5):
            broker.publish_many(OTHER, [b"other %d" % number])
            rows += run.batch()
            run.commit()
            wait_until(lambda: not broker.queue(OTHER).depth, what="its ACK")
        wait_until(lambda: totals(run)["dropped"] == 20, what="all of them again")
        wait_until(lambda: not broker.queue(QUEUE).depth, what="all ACKs")
        broker.publish_many(QUEUE, [b"new"])
        assert bodies([*rows, *run.gather(1)])[-1] == b"new" and len(rows) == 5


def test_a_connection_whose_consumers_are_counted_is_kept(forgetful: Forgetful) -> None:
    with Run(options(forgetful, QUEUE, OTHER, connections="2")) as run:
        run.idle()
        for _ in range(5):
            forgetful.counted()
        assert totals(run)["reconnects"] == 0
