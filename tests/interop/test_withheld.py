"""Messages that wait, that nobody has, and that the broker does not give: what each kind of reading says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.brokers import ActiveMQ, Artemis, Broker, RabbitMQ
from support.driven import Run, publish
from support.waiting import wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.options import parse_batch_options, parse_sink_options
from spark_stomp.source.planning import Mode
from spark_stomp.source.reads import browse
from spark_stomp.transport.standing import ask_standing

pytestmark = pytest.mark.broker

SELECTOR = {"selector": "colour = 'red'"}
RED, BLUE = (("colour", "red"),), (("colour", "blue"),)


@dataclass
class Scene:
    """A broker with a queue in which messages wait, and what a query has to do with it.

    ``comes`` is how many of them come, ``withheld`` how many wait that should, and ``later`` how many are not
    due; ``reads`` are options.
    """

    broker: Any
    folder: Path
    ends: ExitStack
    queue: str = ""
    comes: int = 0
    withheld: int = 0
    later: int = 0
    reads: dict[str, str] = field(default_factory=dict)

    def send(self, count: int, *headers: tuple[str, str]) -> None:
        publish(self.broker.options(), self.queue, [b"x"] * count, *headers)

    def tells(self) -> tuple[int, int, int]:
        """What the broker tells: how many wait, how many consumers have, and how many are not due."""
        connection = parse_sink_options(self.broker.options()).connection
        peer = connection.endpoints[0].address
        figures = ask_standing(connection, dialect_named(self.broker.dialect), self.queue, peer)
        return figures.ready or 0, figures.unacked or 0, figures.scheduled

    def other(self, **headers: str) -> None:
        """Another consumer, which has one message and no room for more."""
        options = self.broker.options(destination=self.queue, prefetch=1)
        if headers:
            options["subscribeHeaders"] = json.dumps(headers)
        run = self.ends.enter_context(Run(options))
        run.gather(1)


def selector(scene: Scene) -> None:
    """The only message that is wanted stands behind a page of others."""
    if isinstance(scene.broker, ActiveMQ):
        scene.queue = scene.broker.new_paged_queue(200)
        scene.withheld = 251
    scene.comes = 0 if scene.withheld else 1
    scene.reads = SELECTOR
    scene.send(250, *BLUE)
    scene.send(1, *RED)


def paged_selector(scene: Scene) -> None:
    """The same, in a queue that is paged to disk, on the broker that tells how many are wanted."""
    scene.queue = scene.broker.new_paged_queue()
    scene.reads, scene.withheld = SELECTOR, 1
    scene.send(2 * scene.broker.page, *BLUE)
    scene.send(1, *RED)


def left_by_selector(scene: Scene) -> None:
    """Others than those that are wanted are nobody's fault."""
    scene.send(20, *BLUE)
    scene.send(5, *RED)
    scene.reads, scene.comes = SELECTOR, 5


def paused(scene: Scene) -> None:
    scene.send(7)
    scene.broker.pause(scene.queue)
    scene.withheld = 7


def exclusive(scene: Scene) -> None:
    """Another consumer has the queue for itself."""
    headers = {}
    if isinstance(scene.broker, ActiveMQ):
        headers = {"activemq.exclusive": "true"}
    elif isinstance(scene.broker, Artemis):
        scene.broker.declare(scene.queue, exclusive=True)
    else:
        scene.broker.declare(scene.queue, {"x-single-active-consumer": True})
        scene.queue = scene.queue.replace("/queue/", "/amq/queue/")
    scene.send(7)
    scene.other(**headers)
    scene.withheld = 6


def group(scene: Scene) -> None:
    """All messages are of the group that another consumer has."""
    scene.send(7, ("JMSXGroupID", "a"))
    scene.other()
    scene.withheld = 6


def wildcard(scene: Scene) -> None:
    """As ``exclusive``, of the queues that one name stands for."""
    beginning = scene.broker.new_wild_queue()
    scene.queue = f"{beginning}.one"
    scene.send(7)
    scene.other(**{"activemq.exclusive": "true"})
    scene.queue, scene.withheld = f"{beginning}.*", 6


def more_consumers(scene: Scene) -> None:
    scene.broker.declare(scene.queue, **{"consumers-before-dispatch": 2, "delay-before-dispatch": -1})
    scene.send(7)
    scene.withheld = 7


def scheduled(scene: Scene) -> None:
    """What is not due yet is no reason to wait."""
    scene.send(3)
    scene.send(4, ("AMQ_SCHEDULED_DELAY", "600000"))
    scene.comes = 3
    # ActiveMQ has them elsewhere.
    scene.later = 4 if isinstance(scene.broker, Artemis) else 0


def delayed_retry(scene: Scene) -> None:
    """A run has ended without a commit. Until they are due, the queue counts them nowhere else."""
    scene.broker.declare(
        scene.queue, {"x-queue-type": "quorum", "x-delayed-retry-type": "all", "x-delayed-retry-min": 600_000}
    )
    scene.queue = scene.queue.replace("/queue/", "/amq/queue/")
    scene.send(4)
    with Run(scene.broker.options(destination=scene.queue)) as failed:
        failed.gather(4)
    scene.later = 4


def priority(scene: Scene) -> None:
    if isinstance(scene.broker, RabbitMQ):
        scene.broker.declare(scene.queue, {"x-max-priority": 9})
        scene.queue = scene.queue.replace("/queue/", "/amq/queue/")
    for number in "0", "9", "4":
        scene.send(2, ("priority", number))
    scene.comes = 6


def held(scene: Scene) -> None:
    """Another consumer has all of them."""
    scene.send(1)
    scene.other()


SCENES: dict[str, list[Callable[[Scene], None]]] = {
    "rabbitmq": [exclusive, priority, held, delayed_retry],
    "activemq": [
        selector,
        left_by_selector,
        paused,
        exclusive,
        group,
        wildcard,
        scheduled,
        priority,
        held,
    ],
    "artemis": [
        selector,
        paged_selector,
        left_by_selector,
        paused,
        exclusive,
        group,
        more_consumers,
        scheduled,
        priority,
        held,
    ],
}
# Each takes some ten seconds, so `make test` tries these alone.
QUICK = {
    ("rabbitmq", exclusive),
    ("rabbitmq", delayed_retry),
    ("activemq", selector),
    ("activemq", held),
    ("artemis", paused),
}
EVERY = [
    pytest.param(
        broker,
        make,
        marks=() if (broker, make) in QUICK else pytest.mark.soak,
        id=f"{broker}-{make.__name__}",
    )
    for broker, scenes in SCENES.items()
    for make in scenes
]
on_every_scene = pytest.mark.parametrize(("telling", "scene"), EVERY, indirect=True)


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, telling: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    monkeypatch.setattr("spark_stomp.source.planning.WITHHELD_MAX", 6.0)
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 1.0)
    monkeypatch.setattr("spark_stomp.source.waiting._SETTLED", 1.0)
    with ExitStack() as ends:
        made = Scene(telling, tmp_path, ends, telling.new_queue())
        request.param(made)
        # RabbitMQ's figures come later.
        wait_until(
            lambda: sum(made.tells()) >= made.withheld + made.comes and made.tells()[2] == made.later,
            what="the figures",
        )
        yield made


@pytest.mark.rule("5.9", "5.16")
@on_every_scene
@pytest.mark.parametrize("drain", [False, True], ids=["AvailableNow", "drain"])
def test_a_run_does_not_take_silence_for_the_end(
    scene: Scene, caplog: pytest.LogCaptureFixture, drain: bool
) -> None:
    more = {"journal": str(scene.folder / "journal"), "ackAfter": "journal", "drain": "true"} if drain else {}
    options = scene.broker.options(destination=scene.queue, idleTimeout="1s", **scene.reads)
    with Run({**options, **more}) as run:
        run.reader._mode = Mode.DRAIN
        rows = 0
        while (end := run.reader.latestOffset(run.start, None)) != run.start:
            run.end = end
            rows += len(run.read())
            run.commit()
        totals = run.status.document["totals"]
    assert (rows, totals["withheld"]) == (scene.comes, scene.withheld)
    assert totals["more_waiting"] == bool(scene.withheld)
    assert ("that wait there and that nobody has" in caplog.text) == bool(scene.withheld)
    later = f"this ends without {scene.later} messages in {scene.queue} that are not due yet"
    assert (later in caplog.text) == bool(scene.later)


@on_every_scene
def test_a_query_that_runs_says_it(scene: Scene) -> None:
    with Run(scene.broker.options(destination=scene.queue, **scene.reads)) as run:
        if scene.comes:
            run.gather(scene.comes)
            run.commit()
        else:
            run.idle()
        on = "withheld" if scene.withheld else "broker"
        known = "nothing un-acked and nothing new ("
        later = f"{scene.later} are scheduled for later" if scene.later else ""

        def says() -> bool:
            waiting = run.status.document
            text = waiting["waiting_for"] or ""
            return known in text and "wait there" in text and later in text and waiting["waiting_on"] == on

        wait_until(says, what=f"waiting_on={on}")


@on_every_scene
def test_a_look_says_it(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    options = scene.broker.options(destination=scene.queue, maxMessages=1_000, **scene.reads)
    # A batch read does not take it.
    options.pop("managementUrl", None)
    with closing(browse(parse_batch_options(options))) as batches:
        shown = sum(len(batch.ends) for batch, _ in batches)
    if scene.broker.name == "activemq":
        # A browse has what consumers hold, too.
        assert shown >= scene.comes
        return
    assert shown == scene.comes
    tells = scene.broker.name != "rabbitmq"
    assert ("that wait there" in caplog.text) == (tells and bool(scene.withheld))
