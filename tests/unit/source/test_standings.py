"""How much waits at the broker: who is asked, how often, and that no answer disturbs a query."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.options import source_options
from support.waiting import PATIENCE, wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.brokers.standing import LoginNotAccepted, Standing, TellsNothing
from spark_stomp.errors import ConnectFailed, StompError, UnsupportedError
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.receiver.status import ConnectionStatus
from spark_stomp.source.standings import StandingWatch
from spark_stomp.threads import Worker

FIGURES = Standing(True, 5, 3, 2)
NOT_ANSWERED = UnsupportedError("it may not ask")
AWAY = ConnectFailed("nobody listens")
BROKER = {"dialect": dialect_named("activemq"), "peer": "b:61613"}
UP = ConnectionStatus().after_subscribe(1.0, **BROKER)


def receiver(*queues: str, connection: ConnectionStatus = UP) -> ReceiverStatus:
    return ReceiverStatus(
        "r", True, 0, 0, 0, 0, 0.0, False, None, connection=connection, destinations=tuple(queues)
    )


class Broker:
    """Answers for each queue with one of ``errors``, or with its figures."""

    def __init__(self) -> None:
        self.errors: dict[str, StompError] = {}
        self.asked: list[str] = []
        self.selectors: list[str | None] = []
        self.figures = FIGURES

    def __call__(
        self, _options: object, _dialect: object, queue: str, peer: str, selector: str | None
    ) -> Standing:
        assert peer == "b:61613"
        self.asked.append(queue)
        self.selectors.append(selector)
        if queue in self.errors:
            raise self.errors[queue]
        return self.figures


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr("spark_stomp.source.standings.ask_standing", broker)
    return broker


def standings(
    *receivers: ReceiverStatus, on_answers: Callable[[], None] = lambda: None, **options: str
) -> StandingWatch:
    read = [*dict.fromkeys(name for one in receivers for name in one.destinations)]
    return StandingWatch(
        source_options("stomp://b:61613", json.dumps(read), **options), lambda: receivers, on_answers
    )


def test_each_queue_is_asked_for_once(broker: Broker) -> None:
    asking = standings(receiver("/queue/a", "/queue/b"), receiver("/queue/a"))
    asking.ask()
    assert broker.asked == ["/queue/a", "/queue/b"]
    assert {queue: (one.standing, one.own) for queue, one in asking.answers.items()} == {
        "/queue/a": (FIGURES, 2),
        "/queue/b": (FIGURES, 1),
    }


@pytest.mark.rule("4.8")
class TestALoginThatIsRefused:
    """The query goes on over its old connection after the password has changed."""

    def asking(self, monkeypatch: pytest.MonkeyPatch, broker: Broker, **options: str) -> StandingWatch:
        self.now = 1_000.0
        monkeypatch.setattr("spark_stomp.source.standings.time.monotonic", lambda: self.now)
        broker.errors = dict.fromkeys(["/queue/a", "/queue/b"], LoginNotAccepted("no"))
        return standings(receiver("/queue/a", "/queue/b"), login="ada", **options)

    @pytest.mark.parametrize("options", [{}, {"managementUrl": "http://b:15672"}])
    def test_is_sent_once_and_much_later_again(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
    ) -> None:
        asking = self.asking(monkeypatch, broker, password="old", **options)
        for _ in range(10):
            asking.ask()
            self.now += 30.0
        assert broker.asked == ["/queue/a"] and asking.answers == {}
        self.now += 600.0
        broker.errors.clear()
        asking.ask()
        assert broker.asked == ["/queue/a", "/queue/a", "/queue/b"] and len(asking.answers) == 2

    def test_another_password_is_sent_at_once(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        file = tmp_path / "password"
        file.write_text("old")
        asking = self.asking(monkeypatch, broker, passwordFile=str(file))
        asking.ask()
        file.unlink()
        asking.ask()
        file.write_text("new")
        asking.ask()
        assert broker.asked == ["/queue/a"] * 3


def test_streams_are_not_asked_for(broker: Broker) -> None:
    """All that a stream keeps counts as ready."""
    asking = standings(receiver("/queue/a", "/amq/queue/s"), startingOffsets='{"s": -2}')
    asking.ask()
    assert broker.asked == ["/queue/a"]


@pytest.mark.parametrize(
    "connection", [ConnectionStatus(), UP.after_failure(AWAY, 2.0)], ids=["not yet subscribed", "lost"]
)
def test_nothing_is_asked_without_a_connection(broker: Broker, connection: ConnectionStatus) -> None:
    standings(receiver("/queue/a", connection=connection)).ask()
    assert broker.asked == []


def test_most_queues_that_are_asked_for(broker: Broker) -> None:
    standings(receiver(*(f"/queue/{number}" for number in range(500)))).ask()
    assert len(broker.asked) == 5


@pytest.mark.parametrize(
    ("error", "management", "times"),
    [(NOT_ANSWERED, {}, 1), (NOT_ANSWERED, {"managementUrl": "http://b:15672"}, 3), (AWAY, {}, 3)],
    ids=["not allowed", "the management is away", "the broker is away"],
)
def test_an_error_is_no_figure(
    broker: Broker, error: StompError, management: dict[str, str], times: int
) -> None:
    asking = standings(receiver("/queue/a", "/queue/b"), **management)
    asking.ask()
    assert asking.answers.keys() == {"/queue/a", "/queue/b"}
    broker.errors["/queue/a"] = error
    for _ in range(3):
        asking.ask()
        assert asking.answers.keys() == {"/queue/b"}
    assert broker.asked.count("/queue/a") == 1 + times


def test_a_queue_that_loses_what_is_held_is_warned_of_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    asking = standings(receiver("/queue/a"))
    asking.ask()
    assert not caplog.text
    broker.figures = replace(FIGURES, forgetful="a ring queue (ring-size 5)")
    asking.ask()
    asking.ask()
    assert (
        caplog.text.count("/queue/a is a ring queue (ring-size 5): what this query has received and not") == 1
    )


@pytest.mark.rule("5.16")
class TestTheEndOfARun:
    """What waits that nobody has, and that the query does not get."""

    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr("spark_stomp.source.standings.time.monotonic", lambda: self.now)

    def ending(self, *receivers: ReceiverStatus, **options: str) -> StandingWatch:
        asking = standings(*(receivers or (receiver("/queue/a"),)), **options)
        asking.begin_run_that_ends()
        asking.ask()
        return asking

    def test_is_asked_for_again_until_the_figures_are_those_of_now(self, broker: Broker) -> None:
        asking = self.ending()
        assert asking.withheld(1_000.0) is None
        for self.now, withheld in ((1_000.5, None), (1_001.0, 5)):
            asking.ask()
            assert asking.withheld(1_000.0) == withheld
        # Something came since.
        assert asking.withheld(1_001.5) is None
        broker.figures = Standing(True, 0, 3, 2)
        self.now = 1_001.5
        asking.ask()
        assert asking.withheld(1_001.5) == 0

    def test_rabbitmq_is_asked_for_longer(self, broker: Broker) -> None:
        up = ConnectionStatus().after_subscribe(1.0, dialect_named("rabbitmq"), "b:61613")
        asking = self.ending(receiver("/queue/a", connection=up))
        for self.now, withheld in ((1_004.9, None), (1_005.0, 5)):
            asking.ask()
            assert asking.withheld(1_000.0) == withheld

    def test_a_queue_whose_figures_are_not_known_yet(self, broker: Broker) -> None:
        broker.figures = Standing(True)
        asking = self.ending()
        asking.ask()
        assert asking.withheld(1_000.0) is None

    def test_some_queues_are_asked_for_at_first_and_all_at_the_end(self, broker: Broker) -> None:
        names = [f"/queue/{number}" for number in range(30)]
        asking = self.ending(receiver(*names))
        assert broker.asked == names[:5]
        asking.ask()
        assert broker.asked == [*names[:5], *names]
        self.now = 1_001.0
        asking.ask()
        assert asking.withheld(1_000.0) == 30 * 5
        assert asking.why_withheld().startswith("in /queue/0 and 29 more: the queue is paused")

    def test_what_is_not_due_is_named(self, broker: Broker) -> None:
        asking = self.ending()
        assert not asking.scheduled
        broker.figures = replace(FIGURES, scheduled=10)
        asking.ask()
        assert asking.scheduled == "10 messages in /queue/a"

    def test_what_a_selector_does_not_want_is_not_missing(self, broker: Broker) -> None:
        broker.figures = Standing(True, 5, 0, 1, wanted=0)
        asking = self.ending(selector="a = 1")
        asking.ask()
        assert asking.withheld(1_000.0) == 0
        assert broker.selectors == ["a = 1", "a = 1"]

    @pytest.mark.parametrize(
        "error", [TellsNothing("without a plugin"), LoginNotAccepted("no"), UnsupportedError("a wildcard")]
    )
    def test_a_broker_that_does_not_tell_is_not_waited_for(self, broker: Broker, error: StompError) -> None:
        broker.errors["/queue/a"] = error
        asking = self.ending()
        assert asking.withheld(1_000.0) == 0

    def test_no_queue_is_asked_for_where_the_broker_tells_nothing(self, broker: Broker) -> None:
        broker.errors["/queue/a"] = TellsNothing("without a plugin")
        asking = self.ending(receiver("/queue/a", "/queue/b"))
        asking.ask()
        assert broker.asked == ["/queue/a"] and asking.withheld(1_000.0) == 0


@pytest.mark.parametrize(
    ("addresses", "warns"),
    [
        (["10.0.0.1"], False),
        (["10.0.0.1", "10.0.0.1"], False),
        (["10.0.0.1", "::1"], False),
        (["10.0.0.1", "10.0.0.2"], True),
        (["::1", "::2", "::3"], True),
        ([], False),
    ],
)
def test_a_name_that_stands_for_several_machines(
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    addresses: list[str],
    warns: bool,
) -> None:
    def look_up(host: str, *_: object) -> list[tuple[Any, ...]]:
        if not addresses:
            raise socket.gaierror(-2, "Name or service not known")
        families = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(families[":" in one], 1, 6, "", (one, 0)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 0.001)
    asking = standings(receiver("/queue/a"))
    asking.start()
    wait_until(lambda: broker.asked, what="a question")
    asking.stop()
    warning = f"b in url stands for {len(addresses)} addresses, and the first that answers is read"
    assert caplog.text.count(warning) == warns
    assert len(caplog.messages) == warns


def test_a_run_that_ends_does_not_wait_for_an_answer_while_nobody_is_connected(broker: Broker) -> None:
    asking = standings(receiver("/queue/a", connection=ConnectionStatus()))
    asking.begin_run_that_ends()
    for _ in range(2):
        asking.ask()
        assert asking.withheld(0.0) == 0
    assert broker.asked == []


@pytest.mark.rule("4.13")
def test_a_count_of_the_first_seconds_shows_that_the_broker_counts(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue that is deleted soon afterwards has no other one."""
    now = [1_001.0]
    for clock in ("time", "monotonic"):
        monkeypatch.setattr(f"spark_stomp.source.standings.time.{clock}", lambda: now[0])
    connected = receiver("/queue/a", connection=ConnectionStatus().after_subscribe(1_000.0, **BROKER))
    given_up: list[str] = []
    asking = StandingWatch(
        source_options("stomp://b:61613", '["/queue/a"]'),
        lambda: [replace(connected, subscriptions={"s": "/queue/a"})],
        give_up=lambda name, _number, _error: given_up.append(name),
    )
    broker.figures = Standing(True, 0, 0, 1)
    asking.ask()
    broker.figures = Standing(is_there=False)
    for _ in range(3):
        now[0] += 60.0
        asking.ask()
    assert given_up == ["r"]


def test_an_error_that_nobody_expected_is_no_figure(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answered = threading.Event()
    asking = standings(receiver("/queue/a"), on_answers=answered.set)
    broker.errors["/queue/a"] = OSError("too many open files")  # type: ignore[assignment]
    asking.begin_run_that_ends()
    asking.start()
    assert answered.wait(PATIENCE) and asking.withheld(0.0) == 0
    assert "too many open files" in caplog.text
    asking.stop()


def test_the_first_question_comes_in_the_first_seconds(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that, nothing is known of a queue that deletes what comes back. It waits for a connection."""
    waited: list[float] = []
    monkeypatch.setattr(Worker, "goes_on", lambda _, seconds: waited.append(seconds) or len(waited) < 5)
    away = [receiver("/queue/a", connection=ConnectionStatus())]
    asking = StandingWatch(
        source_options("stomp://b:61613", '["/queue/a"]'),
        lambda: [away.pop() if away else receiver("/queue/a")],
    )
    asking._run()
    assert waited == [2.0, 2.0, 30.0, 30.0, 30.0]


def test_a_broker_that_does_not_answer_is_not_asked_more_often(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(Worker, "goes_on", lambda _, seconds: waited.append(seconds) or len(waited) < 4)
    broker.errors["/queue/a"] = AWAY
    standings(receiver("/queue/a"))._run()
    assert waited == [2.0, 30.0, 30.0, 30.0]


def test_the_thread_asks_until_it_is_stopped(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 0.001)
    asking = standings(receiver("/queue/a"))
    broker.errors["/queue/a"] = AWAY
    asking.start()
    wait_until(lambda: len(broker.asked) > 3, what="questions")
    (thread,) = [one for one in threading.enumerate() if one.name == "stomp-standings"]
    asking.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive() and asking.answers == {}


def test_stopping_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def hang(*_: object) -> Standing:
        asked.set()
        answer.wait(PATIENCE)
        return FIGURES

    monkeypatch.setattr("spark_stomp.source.standings.ask_standing", hang)
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 0.001)
    asking = standings(receiver("/queue/a"))
    asking.start()
    assert asked.wait(PATIENCE)
    asking.stop()
    answer.set()
