"""notebooks/rail.py, SimulatedFeed: its time, a reader, and what expires."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from rail import LIFE, OPERATORS, SimulatedFeed, calls, movements
from support.driven import Run

SIX = datetime(2026, 3, 2, 6, 0, tzinfo=timezone.utc)
TOPICS = [operator.topic for operator in OPERATORS]
MESSAGES = list(movements(calls(SIX, 30, failure=(5, 20))))


@pytest.fixture
def feed() -> Iterator[SimulatedFeed]:
    feed = SimulatedFeed(MESSAGES)
    yield feed
    feed.broker.stop()


def reader(feed: SimulatedFeed) -> Run:
    named = {"clientId": "ada", "durableName": "movements"}
    return Run({"url": feed.broker.url, "destination": json.dumps(TOPICS), **named}, ("body", "timestamp"))


def test_a_reader_misses_nothing_however_fast_the_time_runs(feed: SimulatedFeed) -> None:
    with reader(feed) as run:
        run.idle()
        assert feed.play(SIX + timedelta(hours=1)) == len(MESSAGES)
        rows = run.gather(len(MESSAGES))
    assert sorted(row["body"] for row in rows) == sorted(message.body for message in MESSAGES)
    assert {row["timestamp"] for row in rows} == {message.sent for message in MESSAGES}
    assert sum(view.expired for view in feed.subscriptions()) == 0


def test_who_was_away_for_longer_than_five_minutes_has_a_gap(feed: SimulatedFeed) -> None:
    with reader(feed) as run:
        run.idle()
    back = SIX + timedelta(minutes=20)
    sent = feed.play(back)
    assert (feed.now, sent) == (back, sum(message.sent < back for message in MESSAGES))
    living = [message.body for message in MESSAGES if back - LIFE < message.sent < back]
    with reader(feed) as run:
        rows = run.gather(len(living))
    assert sorted(row["body"] for row in rows) == sorted(living)
    assert sum(view.expired for view in feed.subscriptions()) == sent - len(living) > 0
