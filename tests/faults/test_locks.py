"""No lock that Spark's calls, a receiver's thread or the end of a query takes is held during I/O."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.driven import Run
from support.golden import kind_of_journal
from support.locks import LockWatch
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.journal.objects.cache import ObjectCache
from spark_stomp.receiver import DedupIndex

QUEUE = "/queue/a"
COUNT = 60


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[LockWatch]:
    # The collector would close what other tests left behind, in whatever thread, under whatever lock.
    gc.collect()
    gc.disable()
    yield LockWatch(monkeypatch)
    gc.enable()


@pytest.fixture(params=["memory", "journal", "objects"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    if request.param == "memory":
        yield {"receivers": "2"}
        return
    with (
        kind_of_journal(request.param, tmp_path / request.param),
        mock.patch.multiple(
            "spark_stomp.journal.local.journal", _SMALLEST_SEGMENT=9_000, _LARGEST_SEGMENT=9_000
        ),
        mock.patch.object(ObjectCache.__init__, "__defaults__", (9_000,)),
    ):
        yield {"receivers": "2", "journal": str(tmp_path / request.param)}


def drive(broker: DevBroker, options: dict[str, str]) -> None:
    """Batches, a connection that ends before the commit, one that ends about when ACKs are sent, the end."""
    with Run({"url": broker.url, "destination": QUEUE, **options}) as run:
        run.idle()
        for number in range(4):
            publish(broker, run, b"%d" % number)
            run.gather(COUNT)
            broker.drop_connections()
            wait_until(lambda number=number: known(run) >= (number + 1) * COUNT, what="all once more")
            run.read()
            if number % 2:
                broker.drop_connections()
            run.commit()
            wait_until(lambda: broker.queue(QUEUE).depth == 0, what="all ACKs")
        publish(broker, run, b"left")
        run.gather(COUNT)
    # A journal has these.
    with Run({"url": broker.url, "destination": QUEUE, **options}) as run:
        run.gather(COUNT)
        run.commit()
        wait_until(lambda: broker.queue(QUEUE).depth == 0, what="all ACKs")


def publish(broker: DevBroker, run: Run, text: bytes) -> None:
    """A few at a time, so that a receiver reads them in several blocks."""
    before = received(run)
    for number in range(0, COUNT, COUNT // 6):
        broker.publish_many(QUEUE, [text + b"x" * 500] * (COUNT // 6))
        wait_until(lambda number=number: received(run) >= before + number + COUNT // 6, what="the frames")


def received(run: Run) -> int:
    return sum(one.received for one in run.status.receivers)


def known(run: Run) -> int:
    """How many messages came that were known."""
    return sum(one.counts.reattached + one.counts.dropped for one in run.status.receivers)


def test_no_lock_is_held_during_io(
    devbroker: DevBroker, watch: LockWatch, options: dict[str, str], tmp_path: Path
) -> None:
    drive(devbroker, options)
    assert watch.found == {}
    # It looked: locks were taken, and bytes went to files and sockets.
    assert "receiver.dedup:DedupIndex.lock" in watch.taken
    assert "receiver.frame_store:FrameStore._lock" in watch.taken
    assert "socket.send" in watch.calls
    assert "journal" not in options or watch.calls & {"os.pread", "open"}


def test_the_dedup_index_is_never_used_without_its_lock(
    devbroker: DevBroker, watch: LockWatch, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without: set[str] = set()

    def watched(name: str) -> None:
        method = getattr(DedupIndex, name)

        def called(*args: Any) -> Any:
            if "receiver.dedup:DedupIndex.lock" not in watch.held:
                without.add(name)
            return method(*args)

        monkeypatch.setattr(DedupIndex, name, called)

    for name in (
        *("add_new", "add", "remove", "find", "pin", "committed", "remember_unconfirmed"),
        *("remember_confirmed", "confirm", "expect_doubles", "take_doubles", "count_evicted"),
    ):
        watched(name)
    drive(devbroker, options)
    assert without == set()
