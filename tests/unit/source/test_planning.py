"""Planning without Spark: limits, shares, ranges, tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.source.offsets import Range, split, task_bytes
from spark_stomp.source.planning import Available, BatchLimits, is_ready, rotated, shares_of

SIZE = 10


class EqualSizes:
    """All messages of a receiver or log have the same size."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size

    def bytes_between(self, low: int, high: int) -> int:
        return (high - low) * self._size

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        return min(high, low + max_bytes // self._size)


def seen(name: str, low: int, high: int, size: int = SIZE, **more: Any) -> Available:
    return Available(name, EqualSizes(size), low, high, **more)


class TestSharesOf:
    def test_receivers_share_a_limit_and_leave_what_they_do_not_need(self) -> None:
        available = [seen("a", 0, 100), seen("b", 0, 2), seen("c", 0, 100)]
        assert shares_of(available, BatchLimits(max_messages=20)) == {"a": 9, "b": 2, "c": 9}

    @pytest.mark.rule("5.4")
    def test_a_message_larger_than_the_limit_is_taken_alone(self) -> None:
        assert shares_of([seen("a", 0, 0), seen("b", 5, 9)], BatchLimits(max_bytes=3)) == {"a": 0, "b": 1}
        assert shares_of([seen("a", 0, 0)], BatchLimits(max_bytes=3)) == {"a": 0}

    @pytest.mark.rule("5.4", "6.1")
    @given(
        st.lists(st.integers(0, 50), min_size=1, max_size=5),
        st.none() | st.integers(1, 120),
        st.none() | st.integers(1, 900),
    )
    def test_progress_within_limits(
        self, new: list[int], max_messages: int | None, max_bytes: int | None
    ) -> None:
        available = [seen(str(index), 0, count) for index, count in enumerate(new)]
        chosen = shares_of(available, BatchLimits(max_messages, max_bytes))
        total = sum(chosen.values())
        assert all(0 <= chosen[receiver.name] <= receiver.new for receiver in available)
        assert (total > 0) == (sum(new) > 0)
        if max_messages is not None:
            assert total <= max_messages
        if max_bytes is not None:
            assert total * SIZE <= max(max_bytes, SIZE)
        if max_bytes is None:
            assert total == min(sum(new), max_messages if max_messages is not None else sum(new))


MANY = {"window": 40_000}


@pytest.mark.parametrize(
    ("limits", "window", "taken"),
    [
        ({}, MANY, 40_000),
        ({"halves": True}, MANY, 20_000),
        ({"halves": True}, MANY | {"window_bytes": 30_000_000}, 15_000),
        # A small window is not halved.
        ({"halves": True}, {"window": 100}, 1_000),
        ({"halves": True}, {"window_bytes": 1}, (1 << 20) // 1_000),
        # Limits that the user sets hold instead, and a minimum is met.
        ({"halves": True, "max_messages": 30_000}, MANY, 30_000),
        ({"halves": True, "max_bytes": 18_000_000}, MANY | {"window_bytes": 30_000_000}, 18_000),
        ({"halves": True, "min_messages": 30_000}, MANY | {"window_bytes": 30_000_000}, 30_000),
    ],
)
def test_a_streaming_batch_leaves_room_for_the_next(
    limits: dict[str, Any], window: dict[str, int], taken: int
) -> None:
    """Of 40,000 messages of 1,000 bytes."""
    assert shares_of([seen("a", 0, 40_000, 1_000, **window)], BatchLimits(**limits)) == {"a": taken}


def test_it_has_one_message_however_large() -> None:
    large = seen("a", 0, 3, 5 << 20, window_bytes=3 << 20)
    assert shares_of([large], BatchLimits(halves=True)) == {"a": 1}


@pytest.mark.rule("5.4")
@pytest.mark.parametrize(
    ("new", "limits", "sizes"),
    [
        # A message larger than its share; more receivers than messages in a batch; quiet ones and a busy one.
        ({"a": 10_000, "b": 1}, BatchLimits(max_bytes=10 << 20), {"a": 1 << 10, "b": 6 << 20}),
        ({"a": 9, "b": 9, "c": 9}, BatchLimits(max_messages=2), dict.fromkeys("abc", 1)),
        ({"a": 9_000, "b": 1, "c": 1}, BatchLimits(max_messages=2), dict.fromkeys("abc", 1)),
    ],
)
def test_no_receiver_is_passed_over_without_end(
    new: dict[str, int], limits: BatchLimits, sizes: dict[str, int]
) -> None:
    """All are read within as many batches as there are receivers, with a backlog that never ends."""
    found: set[str] = set()
    for turn in range(len(new)):
        available = [seen(name, 0, count, sizes[name]) for name, count in new.items()]
        shares = shares_of(rotated(available, turn), limits)
        found |= {name for name, count in shares.items() if count}
    assert found == new.keys()


class TestIsReady:
    limits = BatchLimits(min_messages=10, max_delay=60)

    def test_the_minimum_counts_over_all_receivers(self) -> None:
        assert not is_ready([seen("a", 0, 9)], self.limits, waited=0)
        assert is_ready([seen("a", 0, 5), seen("b", 0, 5)], self.limits, waited=0)

    @pytest.mark.rule("5.2")
    def test_a_full_window_ends_the_wait_since_no_more_can_come(self) -> None:
        assert is_ready([seen("a", 0, 4, full=True)], self.limits, waited=0)

    def test_a_full_window_without_new_messages_does_not(self) -> None:
        full_and_told = seen("a", 4, 4, full=True)
        assert not is_ready([full_and_told, seen("b", 0, 1)], self.limits, waited=0)


def tasks_of(ranges: Sequence[Range], about: int) -> list[list[Range]]:
    return split([(one, EqualSizes()) for one in ranges], about)


@pytest.mark.rule("6.1")
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1), st.integers(1, 500))
def test_split_covers_the_ranges_once(counts: list[tuple[int, int]], about: int) -> None:
    ranges = [Range(f"r{n}", "e", low, low + count) for n, (low, count) in enumerate(counts)]
    tasks = tasks_of(ranges, about)
    read = [(part.name, number) for task in tasks for part in task for number in range(part.low, part.high)]
    assert read == [(one.name, number) for one in ranges for number in range(one.low, one.high)]
    messages = [sum(part.high - part.low for part in task) for task in tasks]
    assert min(messages) > 0
    if len(ranges) == 1:
        assert max(messages) - min(messages) <= 1
    assert max(messages) * SIZE <= max(1.5 * about, SIZE) + SIZE * len(ranges)


MIB = 1 << 20


@pytest.mark.parametrize(
    ("volume", "cores", "tasks"),
    [
        (1, 8, 1),
        (4 * MIB, 2, 1),  # 10,000 small messages: a second task would cost more than it gains
        (20 * MIB, 2, 2),  # 50,000 of them
        (20 * MIB, 1, 1),
        (20 * MIB, 64, 2),
        (60 * MIB, 2, 2),
        (640 * MIB, 2, 20),
        (640 * MIB, 64, 64),
        (640 * MIB, 200, 80),
    ],
)
def test_tasks_by_volume_and_cores(volume: int, cores: int, tasks: int) -> None:
    whole = Range("a", "e", 0, max(1, volume * 4 // MIB))
    assert len(split([(whole, EqualSizes(MIB // 4))], task_bytes(volume, cores))) == tasks


def test_small_ranges_of_several_logs_are_one_task() -> None:
    ranges = [Range(name, name, 0, 3) for name in "abcd"]
    assert tasks_of(ranges, 200) == [ranges]
    assert tasks_of(ranges, 60) == [ranges[:2], ranges[2:]]
