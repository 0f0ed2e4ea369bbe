"""What a query says it waits for: the sentence, and when it is logged; and what ends a wait."""

from __future__ import annotations

import errno
import logging
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from support.waiting import PATIENCE, wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.brokers.standing import QueueAnswer, Standing
from spark_stomp.errors import ConnectionLost, LoginRefused
from spark_stomp.receiver import DedupIndex, Log, ReceiverStatus
from spark_stomp.receiver.status import ConnectionStatus
from spark_stomp.source import waiting
from spark_stomp.source.planning import Available, BatchLimits, Decision, LastBatch, Mode, Situation
from spark_stomp.source.receivers import News
from spark_stomp.source.waiting import Monitor, OffsetCall, QuerySnapshot, waiting_for
from spark_stomp.status.receivers import Observed, Waiting

RECEIVER = ReceiverStatus(
    "/queue/a#1", True, 0, 0, 0, 0, 60.0, window_full=False, failure=None, destinations=("/queue/a",)
)
LOST = ConnectionStatus(connected=True).after_failure(ConnectionLost("it is gone"), 90.0)
REFUSED = ConnectionStatus().after_failure(LoginRefused("the login of guest is refused"), 90.0)


def call(new: int = 0, mode: Mode = Mode.STREAMING, *, answered: bool = True, **more: Any) -> OffsetCall:
    """Seen at 100 s."""
    limits = BatchLimits(min_messages=more.pop("least", None), max_delay=900.0)
    decision = more.pop("decision", Decision.NOTHING_NEW)
    available = [Available("a", Log(DedupIndex()), 0, new, full_because=more.pop("full_because", None))]
    situation = Situation(
        [RECEIVER], available, 100.0, more.pop("pending", None), more.pop("until", float("inf")), 5.0, **more
    )
    return OffsetCall(mode, limits, situation, decision, answered)


IDLE = QuerySnapshot(
    100.0, [RECEIVER], call(), batch=None, number=None, proved=True, rows_waiting=0, rate=0.0
)
SILENT = "the broker: nothing un-acked and nothing new"


def answers(*figures: int, asked_at: float = 70.0, alarm: str | None = None) -> dict[str, QueueAnswer]:
    """The query has one of the consumers."""
    standing = Standing(True, *figures, alarm)
    return {"/queue/a": QueueAnswer(standing, 1e9, asked_at, 1, dialect_named("activemq").asks)}


IN_BATCH = replace(IDLE, batch=LastBatch(4_600, cut=80.0), proved=False, rows_waiting=4_600)


@pytest.mark.parametrize(
    ("known", "on", "text"),
    [
        (
            IDLE,
            "broker",
            f"{SILENT} (it is empty, or another consumer has them)",
        ),
        (
            replace(IDLE, answers=answers(12_400, 3, 4)),
            "withheld",
            f"{SILENT} (12,400 wait there, 3 other consumers)",
        ),
        (
            replace(IDLE, answers=answers(5, 3, 1)),
            "withheld",
            f"{SILENT} (5 wait there, and 3 that it gave to this query have not come)",
        ),
        (
            replace(IDLE, answers=answers(0, 0, 1, alarm="the disk is full")),
            "broker",
            f"{SILENT} (0 wait there, 0 other consumers; the disk is full)",
        ),
        (
            # It may have been told before the last message came.
            replace(IDLE, answers=answers(5, 3, 1, asked_at=64.0)),
            "broker",
            f"{SILENT} (it is empty, or another consumer has them)",
        ),
        (
            replace(
                IDLE, answers=answers(0, 3, 4), statuses=[RECEIVER, replace(RECEIVER, destinations=("/b",))]
            ),
            "broker",
            f"{SILENT} (it is empty, or another consumer has them)",
        ),
        (
            replace(
                IDLE, answers=answers(5, 3, 4), statuses=[RECEIVER, replace(RECEIVER, destinations=("/b",))]
            ),
            "withheld",
            f"{SILENT} (5 wait there, 3 other consumers)",
        ),
        (
            replace(IDLE, answers=answers(5, 3, 5), statuses=[RECEIVER, RECEIVER]),
            "withheld",
            f"{SILENT} (5 wait there, 4 other consumers)",
        ),
        (
            replace(IDLE, statuses=[RECEIVER, replace(RECEIVER, missing={"/queue/b": None})]),
            "queue",
            "the broker: a first message in /queue/b, which was not there before this query: check the name",
        ),
        (
            replace(IDLE, statuses=[replace(RECEIVER, unacked=50)]),
            "broker",
            "the broker: nothing new, 50 messages un-acked",
        ),
        (
            replace(IDLE, statuses=[replace(RECEIVER, unacked=50, acks_pending=True)]),
            "acks",
            "the broker: receipts of ACKs",
        ),
        (replace(IDLE, call=None), "spark", "Spark, which has asked for no batch yet"),
        (
            replace(IDLE, in_empty_batch=True, rows_waiting=70),
            "spark",
            "Spark, in its first batch, which is empty; 70 messages wait for the next one",
        ),
        (replace(IDLE, in_empty_batch=True), "spark", "Spark, in its first batch, which is empty"),
        (replace(IN_BATCH, number=12), "spark", "Spark, in batch 12 of 4,600 messages"),
        (IN_BATCH, "spark", "Spark, in a batch of 4,600 messages or before its next trigger"),
        (
            replace(IN_BATCH, number=12, statuses=[replace(RECEIVER, paused_since=70.0)]),
            "spark",
            "Spark, in batch 12 of 4,600 messages; memory is full (maxBufferedBytes), so nothing more is "
            "read before its commit",
        ),
        (
            replace(IN_BATCH, batch=LastBatch(4_600, cut=80.0, done=90.0)),
            "commit",
            "the commit of the last batch: there is no evidence of it yet",
        ),
        (
            replace(IN_BATCH, proved=True, rows_waiting=70),
            "trigger",
            "Spark's next trigger: 70 messages wait for it",
        ),
        (replace(IDLE, now=109.0, rows_waiting=70), "spark", "Spark, which starts its first batch"),
        (
            replace(IDLE, now=110.0, rows_waiting=70),
            "trigger",
            "Spark's next trigger: 70 messages wait for it",
        ),
        (
            replace(IDLE, now=102.0, rows_waiting=10, call=call(10, least=1_000, pending=92.0)),
            "messages",
            "990 more messages (minMessagesPerTrigger), 14 min 50 s at most (maxTriggerDelay)",
        ),
        (
            replace(IDLE, rows_waiting=10, call=call(has_unwritten=True)),
            "journal",
            "the journal: 10 messages to become durable",
        ),
        (
            replace(IDLE, rows_waiting=10, call=call(has_unwritten=True, full_because="journalMaxBytes")),
            "journal",
            "the journal: 10 messages to become durable; it is full (journalMaxBytes)",
        ),
        (
            replace(IDLE, statuses=[replace(RECEIVER, subscribed=False, connection=REFUSED)]),
            "connection",
            "the broker: no connection for /queue/a#1, 1 attempt failed: [STOMP_LOGIN_REFUSED] the login of "
            "guest is refused",
        ),
        (
            replace(IDLE, statuses=[replace(RECEIVER, subscribed=False, connection=LOST)]),
            "connection",
            "the broker: no connection for /queue/a#1: [STOMP_CONNECTION_LOST] it is gone",
        ),
        (
            replace(IDLE, statuses=[replace(RECEIVER, subscribed=False)] * 3),
            "connection",
            "the broker: no connection for /queue/a#1 and 2 more",
        ),
        (
            replace(
                IDLE,
                now=103.0,
                rows_waiting=56_249,
                rate=4_600.2,
                call=call(56_249, Mode.WHOLE, answered=False, decision=Decision.WAIT, until=400.0),
            ),
            "drain",
            "the end of the drain: 56,249 messages so far, 4,600 a second; it ends after 5.0 s without a "
            "message (idleTimeout), in 4 min 57 s at most (maxDrainTime)",
        ),
        (
            replace(IDLE, call=call(0, Mode.DRAIN, answered=False, decision=Decision.WAIT)),
            "drain",
            "the broker: a first message; the run ends after 5.0 s without a message (idleTimeout)",
        ),
        (
            replace(
                IDLE,
                now=121.0,
                call=call(0, Mode.DRAIN, answered=False, decision=Decision.WAIT, withheld=201, until=400.0),
            ),
            "withheld",
            "the broker: 201 messages that wait there, that nobody has and that do not come; the run ends in "
            "0.0 s at most",
        ),
        (
            replace(IDLE, statuses=[replace(RECEIVER, missing={"/queue/b": 1.8e9, "/queue/c": None})]),
            "deleted",
            "the broker: a first message in /queue/b, which was deleted (noticed at "
            "2027-01-15T08:00:00+00:00) and which this query has made anew, empty and without bindings",
        ),
        (
            replace(IDLE, call=call(0, Mode.DRAIN, answered=False)),
            "receipts",
            "the broker: receipts of the last ACKs of this run",
        ),
    ],
)
def test_the_sentence(known: QuerySnapshot, on: str, text: str) -> None:
    assert waiting_for(known) == Waiting(on, text)


def test_messages_of_one_receiver_matter_more_than_the_connection_of_another() -> None:
    away = replace(RECEIVER, subscribed=False, connection=REFUSED)
    assert waiting_for(replace(IDLE, statuses=[RECEIVER, away], rows_waiting=7)).on == "spark"


class TestMonitor:
    def test_a_wait_is_logged_after_ten_seconds_then_less_often(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "spark_stomp")
        logged = self._logged(caplog, Waiting("broker", "the broker"), 100)
        assert logged == [10, 20, 40, 80]
        assert caplog.messages[1].endswith("waiting for the broker: 20 s so far")

    def test_a_drain_is_logged_every_ten_seconds(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "spark_stomp")
        assert self._logged(caplog, Waiting("drain", "the end of the drain"), 45) == [10, 20, 30, 40]

    @staticmethod
    def _logged(caplog: pytest.LogCaptureFixture, waiting: Waiting, seconds: int) -> list[int]:
        """The seconds at which ``waiting`` was logged."""
        monitor, logged = Monitor(lambda rate: waiting, lambda: (0, 0)), []
        for now in range(seconds):
            before = len(caplog.messages)
            monitor.observe(float(now))
            if len(caplog.messages) > before:
                logged.append(now)
        return logged

    def test_what_changes_begins_again(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "spark_stomp")
        now = 0.0
        monitor = Monitor(lambda rate: Waiting("spark" if now % 9 == 0 else "broker", "-"), lambda: (0, 0))
        for second in range(60):
            now = float(second)
            monitor.observe(now)
        assert not caplog.messages

    def test_rates_are_of_the_last_ten_seconds(self) -> None:
        counts = (0, 0)
        rates: list[float] = []

        def look(rate: float) -> None:
            rates.append(rate)

        monitor = Monitor(look, lambda: counts)
        for now in range(30):
            counts = (100 * min(now, 20), 50 * min(now, 20))
            monitor.observe(float(now))
        assert rates[15] == 100.0
        assert monitor.observed.received_per_second == 10.0
        assert monitor.observed.committed_per_second == 5.0

    def test_an_error_ends_nothing(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.source.waiting._PERIOD", 0.001)
        looks, fails = [], True

        def look(_: float) -> Waiting:
            looks.append(1)
            if fails:
                raise OSError(errno.EMFILE, "too many open files")
            return Waiting("broker", "the broker")

        monitor = Monitor(look, lambda: (0, 0))
        monitor.observed = Observed(Waiting("spark", "Spark"))
        monitor.start()
        wait_until(lambda: len(looks) > 3, what="looks")
        assert monitor.observed.waiting is None
        assert [one.endswith("what the query waits for is not known") for one in caplog.messages] == [True]
        fails = False
        wait_until(lambda: monitor.observed.waiting is not None, what="a look that does not fail")
        monitor.stop()

    def test_the_same_wait_has_one_beginning(self) -> None:
        texts = iter(["1 message", "2 messages"])
        monitor = Monitor(lambda rate: Waiting("drain", next(texts)), lambda: (0, 0))
        monitor.observe(1.0)
        since = monitor.observed.since
        monitor.observe(2.0)
        assert monitor.observed.since == pytest.approx(since, abs=1.0)
        assert monitor.observed.waiting == Waiting("drain", "2 messages")


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_news_end_the_wait(delay: float) -> None:
    """Also those that came between the look and the wait."""
    news = News()
    seen, begun = news.latest, time.monotonic()
    timer = threading.Timer(delay, news.tell)
    timer.start()
    if not delay:
        timer.join()
    news.wait(seen, float("inf"))
    assert news.latest is not seen
    assert time.monotonic() - begun < PATIENCE
    timer.join()


def test_without_news_the_wait_ends_in_time() -> None:
    news, begun = News(), time.monotonic()
    for until in (begun + 0.05, begun):
        news.wait(news.latest, until)
    assert 0.05 <= time.monotonic() - begun < PATIENCE

    def test_memory_is_given_back_when_it_has_become_slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counts, times = (0, 0), list[float]()
        monkeypatch.setattr(waiting, "give_back_memory", lambda: times.append(now))
        monitor = Monitor(lambda rate: None, lambda: counts)
        for now in map(float, range(60)):
            # A flood until 10 s, of which the rest is committed at 30 s.
            counts = (min(int(now), 10) * 1_000, 9_000 if now < 30 else 10_000)
            monitor.observe(now)
        assert times == [20.0, 40.0]
