"""The thread that looks for commits: when it looks, and who waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from support.waiting import PATIENCE, wait_until

from spark_stomp.errors import CheckpointMismatch, DeliveryError
from spark_stomp.source.commits import CommitWatch


class Looks:
    """When the thread looked; ``do`` is done in each look."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.do: Callable[[], object] = lambda: None

    def __call__(self) -> None:
        self.times.append(time.monotonic())
        self.do()

    @property
    def pauses(self) -> list[float]:
        return [after - before for before, after in pairwise(self.times)]


def taken_over() -> None:
    raise CheckpointMismatch("taken over")


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def watch(looks: Looks) -> Iterator[CommitWatch]:
    watch = CommitWatch(looks, longest_pause=60.0)
    yield watch
    assert watch.stop(PATIENCE)


def test_pauses_grow_up_to_the_longest(looks: Looks) -> None:
    watch = CommitWatch(looks, longest_pause=0.4)
    watch.start()
    wait_until(lambda: len(looks.times) >= 6, what="six looks")
    assert watch.stop(PATIENCE)
    assert all(pause >= 0.39 for pause in looks.pauses[2:5])


def test_without_a_longest_pause_they_stay_short(looks: Looks) -> None:
    watch = CommitWatch(looks)
    watch.start()
    wait_until(lambda: len(looks.times) >= 8, what="eight looks")
    assert watch.stop(PATIENCE)
    assert min(looks.pauses[4:]) < 0.4


def test_who_asks_does_not_wait_for_the_pause_and_makes_it_short_again(
    looks: Looks, watch: CommitWatch
) -> None:
    watch.start()
    wait_until(lambda: len(looks.times) >= 4, what="a pause of 1.6 s")
    before = len(looks.times)
    assert watch.look_now(PATIENCE)
    assert len(looks.times) > before
    again = len(looks.times)
    wait_until(lambda: len(looks.times) > again, what="the next look")
    assert looks.pauses[-1] < 1.0


def test_a_look_that_had_begun_before_the_call_is_not_enough(looks: Looks, watch: CommitWatch) -> None:
    begun, released = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        released.wait(PATIENCE)

    looks.do = first
    watch.start()
    assert begun.wait(PATIENCE)
    assert not watch.look_now(0.05)
    looks.do = lambda: None
    threading.Timer(0.05, released.set).start()
    assert watch.look_now(PATIENCE)
    assert len(looks.times) >= 2


def test_nobody_waits_for_a_watch_that_is_over_or_never_began(looks: Looks, watch: CommitWatch) -> None:
    never = CommitWatch(looks)
    assert never.stop(0.0)
    assert never.look_now(PATIENCE)

    looks.do = taken_over
    watch.start()
    assert watch.look_now(PATIENCE)
    wait_until(lambda: watch.failure, what="the failure")
    assert isinstance(watch.failure, CheckpointMismatch)


@pytest.mark.rule("7.1")
def test_what_was_not_expected_is_a_failure_too(looks: Looks, watch: CommitWatch) -> None:
    def fails() -> None:
        raise RuntimeError("no such thing was expected")

    looks.do = fails
    watch.start()
    wait_until(lambda: watch.failure, what="the failure")
    assert isinstance(watch.failure, DeliveryError)


@pytest.mark.rule("7.1")
def test_a_failure_is_told(looks: Looks) -> None:
    noted: list[object] = []
    looks.do = taken_over
    watch = CommitWatch(looks, on_failure=lambda: noted.append(watch.failure))
    watch.start()
    wait_until(lambda: noted, what="the failure")
    assert isinstance(noted[0], CheckpointMismatch)
