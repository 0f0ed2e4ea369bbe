"""While nothing comes, Spark's calls cost next to nothing, and what comes is seen at the next call."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.options import source_options
from support.release import spark_release
from support.waiting import wait_until

from spark_stomp.columns import Projection
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectionLost, MalformedMessageError
from spark_stomp.receiver import Receiver, ReceiverStatus
from spark_stomp.spark.readers import StompStreamReader

QUEUES = ["/queue/a", "/queue/b", "/queue/c"]
CALLS = 50


class Idle:
    """A query of three queues whose last call found nothing; ``snapshots`` counts looks at receivers."""

    def __init__(
        self,
        url: str,
        monkeypatch: pytest.MonkeyPatch,
        reader: type[StompStreamReader] = StompStreamReader,
        **options: object,
    ) -> None:
        self.snapshots = 0
        look = Receiver.status

        def counted(receiver: Receiver) -> ReceiverStatus:
            self.snapshots += 1
            return look(receiver)

        monkeypatch.setattr(Receiver, "status", counted)
        given = source_options(url, json.dumps(QUEUES), **options)
        self.reader = reader(given, Projection.of("body"))
        self.end: dict[str, Any] = self.reader.initialOffset()
        wait_until(self._looks_at_nothing, what="an idle query")

    def _looks_at_nothing(self) -> bool:
        before = self.snapshots
        self.ask()
        return self.snapshots == before

    def ask(self) -> bool:
        """Whether a call of Spark finds messages."""
        before, self.end = self.end, self.reader.latestOffset(self.end, None)
        return self.end is not before


@pytest.fixture
def idle(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Idle]:
    query = Idle(devbroker.url, monkeypatch)
    yield query
    query.reader.stop()


@pytest.mark.rule("6.3")
def test_calls_look_at_no_receiver(idle: Idle) -> None:
    before = idle.snapshots
    assert not any(idle.ask() for _ in range(CALLS))
    assert idle.snapshots == before


@pytest.mark.skipif(spark_release() < (4, 2), reason="Spark asks for no progress before 4.2")
def test_calls_for_the_progress_make_no_status(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark asks for it as often as for the next offset."""
    from spark_stomp.spark.readers import AdmissionStreamReader

    query = Idle(devbroker.url, monkeypatch, AdmissionStreamReader)
    report = query.reader.reportLatestOffset  # type: ignore[attr-defined]
    try:
        begun, first = time.monotonic(), report()
        others = sum(
            one is not before for before, one in pairwise([first, *(report() for _ in range(CALLS))])
        )
        assert others <= time.monotonic() - begun
        devbroker.publish_many(QUEUES[0], [b"0"])
        wait_until(query.ask, what="the message")
        assert report()["status"]["totals"]["delivered"] == 1
    finally:
        query.reader.stop()


@pytest.mark.rule("5.4")
def test_a_message_is_seen(idle: Idle, devbroker: DevBroker) -> None:
    for number, queue in enumerate(QUEUES * 5):
        devbroker.publish_many(queue, [b"%d" % number])
        wait_until(idle.ask, what=f"message {number}")
    assert not idle.ask()


@pytest.mark.rule("5.4")
def test_a_message_is_seen_when_it_is_durable(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    query = Idle(devbroker.url, monkeypatch, journal=tmp_path / "journal")
    try:
        for number, queue in enumerate(QUEUES * 5):
            devbroker.publish_many(queue, [b"%d" % number])
            wait_until(query.ask, what=f"message {number}")
    finally:
        query.reader.stop()


@pytest.mark.rule("5.2")
def test_messages_below_the_minimum_come_when_their_time_is_over(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing happens meanwhile."""
    query = Idle(devbroker.url, monkeypatch, minMessagesPerTrigger=1_000, maxTriggerDelay="1s")
    try:
        devbroker.publish_many(QUEUES[0], [b"0"])
        begun = time.monotonic()
        wait_until(query.ask, what="the batch")
        assert time.monotonic() - begun >= 0.9
    finally:
        query.reader.stop()


@pytest.mark.rule("7.1")
def test_a_receiver_that_fails_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with DevBroker() as broker:
        query = Idle(broker.url, monkeypatch, reconnectTimeout="300ms")
    try:
        with pytest.raises(ConnectionLost):
            wait_until(query.ask, what="the failure")
    finally:
        query.reader.stop()


@pytest.mark.rule("7.1", "7.6")
def test_a_malformed_message_is_seen(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails the query some time after it came, when nothing else happens."""
    query = Idle(devbroker.url, monkeypatch, maxHeaders=50)
    try:
        devbroker.publish(QUEUES[0], b"0", headers=tuple((f"h{number}", "x") for number in range(60)))
        with pytest.raises(MalformedMessageError):
            wait_until(query.ask, what="the failure")
    finally:
        query.reader.stop()
