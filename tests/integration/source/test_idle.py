"""While nothing comes, Spark's calls cost next to nothing, and what comes is seen at the next call."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.columns import projection_of
from support.options import source_options
from support.release import spark_release
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectionLost, MalformedMessageError, StompError
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
        self.reader = reader(given, projection_of("body"))
        self.end: dict[str, Any] = self.reader.initialOffset()
        wait_until(self._looks_at_nothing, what="an idle query")

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

    def _looks_at_nothing(self) -> bool:
        before = self.snapshots
        self.ask()
        return self.snapshots == before

    def ask(self) -> bool:
        """Whether a call of Spark finds messages."""
        before, self.end = self.end, self.reader.latestOffset(self.end, None)
        return self.end is not before


@pytest.mark.rule("5.4", "6.3")
@pytest.mark.parametrize("journaled", [False, True])
def test_calls_look_at_no_receiver_until_a_message_comes(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, journaled: bool
) -> None:
    """With a journal, until it is durable."""
    options = {"journal": tmp_path / "journal"} if journaled else {}
    with Idle(devbroker.url, monkeypatch, **options) as idle:
        before = idle.snapshots
        assert not any(idle.ask() for _ in range(CALLS))
        assert idle.snapshots == before
        for number, queue in enumerate(QUEUES * 5):
            devbroker.publish_many(queue, [b"%d" % number])
            wait_until(idle.ask, what=f"message {number}")
        assert not idle.ask()


@pytest.mark.skipif(spark_release() < (4, 2), reason="Spark asks for no progress before 4.2")
def test_calls_for_the_progress_make_no_status(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark asks for it as often as for the next offset."""
    from spark_stomp.spark.readers import AdmissionStreamReader

    with Idle(devbroker.url, monkeypatch, AdmissionStreamReader) as idle:
        report = idle.reader.reportLatestOffset  # type: ignore[attr-defined]
        begun, reports = time.monotonic(), [report() for _ in range(CALLS + 1)]
        assert sum(one is not before for before, one in pairwise(reports)) <= time.monotonic() - begun
        devbroker.publish_many(QUEUES[0], [b"0"])
        wait_until(idle.ask, what="the message")
        assert report()["status"]["totals"]["delivered"] == 1


@pytest.mark.rule("5.2")
def test_messages_below_the_minimum_come_when_their_time_is_over(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing happens meanwhile."""
    with Idle(devbroker.url, monkeypatch, minMessagesPerTrigger=1_000, maxTriggerDelay="1s") as idle:
        devbroker.publish_many(QUEUES[0], [b"0"])
        begun = time.monotonic()
        wait_until(idle.ask, what="the batch")
        assert time.monotonic() - begun >= 0.9


@pytest.mark.rule("7.1", "7.6")
@pytest.mark.parametrize("error", [ConnectionLost, MalformedMessageError])
def test_a_failure_is_seen(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, error: type[StompError]
) -> None:
    """A malformed message fails the query some time after it came, when nothing else happens."""
    with Idle(devbroker.url, monkeypatch, reconnectTimeout="300ms", maxHeaders=50) as idle:
        if error is ConnectionLost:
            devbroker.stop()
        else:
            devbroker.publish(QUEUES[0], b"0", headers=tuple((f"h{number}", "x") for number in range(60)))
        with pytest.raises(error):
            wait_until(idle.ask, what="the failure")
