"""Planning without Spark: limits, shares, ranges, epochs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.source.offsets import INITIAL, JOURNAL, Offset, Position, Range, plan, split, task_bytes
from spark_stomp.source.planning import (
    Available,
    BatchLimits,
    choose_end,
    is_ready,
    rotated,
)

SIZE = 10


class EqualSizes:
    """All messages of one receiver have the same size."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def bytes_between(self, name: str, low: int, high: int) -> int:
        return (high - low) * self._sizes[name]

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int:
        return min(high, low + max_bytes // self._sizes[name])


SIZES = EqualSizes(defaultdict(lambda: SIZE))


def end(start: Offset, available: Sequence[Available], limits: BatchLimits) -> Offset:
    return choose_end(start, available, limits, SIZES)


def taken(available: Sequence[Available], chosen: Offset) -> dict[str, int]:
    found = {}
    for receiver in available:
        position = chosen.get(receiver.name)
        found[receiver.name] = (position.sequence - receiver.offered) if position else 0
    return found


class TestChooseEnd:
    def test_without_limits_everything(self) -> None:
        available = [Available("a", "ea", 3, 10), Available("b", "eb", 0, 4)]
        start = Offset({"a": Position("ea", 3)})
        assert end(start, available, BatchLimits()) == Offset(
            {"a": Position("ea", 10), "b": Position("eb", 4)}
        )

    def test_receivers_of_an_earlier_run_are_left_out(self) -> None:
        start = Offset({"a#0": Position("e0", 7), "a and 2 more#0": Position("e1", 9)})
        available = [Available("a#0", "ea", 0, 2), Available("b#1", "eb", 0, 0)]
        assert end(start, available, BatchLimits()) == Offset({"a#0": Position("ea", 2)})

    @pytest.mark.rule("J.13")
    def test_a_journal_of_an_earlier_run_is_not(self) -> None:
        """Otherwise a later run would not learn that its messages are missing."""
        start = Offset({JOURNAL: Position("j", 7)})
        assert end(start, [Available("a#0", "ea", 0, 2)], BatchLimits()).get(JOURNAL) == Position("j", 7)

    def test_receivers_share_a_limit_and_leave_what_they_do_not_need(self) -> None:
        available = [Available("a", "ea", 0, 100), Available("b", "eb", 0, 2), Available("c", "ec", 0, 100)]
        assert taken(available, end(INITIAL, available, BatchLimits(max_messages=20))) == {
            "a": 9,
            "b": 2,
            "c": 9,
        }

    @pytest.mark.rule("5.4")
    def test_a_message_larger_than_the_limit_is_taken_alone(self) -> None:
        available = [Available("a", "ea", 0, 0), Available("b", "eb", 5, 9)]
        assert taken(available, end(INITIAL, available, BatchLimits(max_bytes=3))) == {"a": 0, "b": 1}

    @pytest.mark.rule("5.4", "6.1")
    @given(
        st.lists(st.integers(0, 50), min_size=1, max_size=5),
        st.none() | st.integers(1, 120),
        st.none() | st.integers(1, 900),
    )
    def test_progress_within_limits(
        self, new: list[int], max_messages: int | None, max_bytes: int | None
    ) -> None:
        available = [Available(str(index), f"e{index}", 0, count) for index, count in enumerate(new)]
        chosen = taken(available, end(INITIAL, available, BatchLimits(max_messages, max_bytes)))
        total = sum(chosen.values())
        assert all(0 <= chosen[receiver.name] <= receiver.new for receiver in available)
        assert (total > 0) == (sum(new) > 0)
        if max_messages is not None:
            assert total <= max_messages
        if max_bytes is not None:
            assert total * SIZE <= max(max_bytes, SIZE)
        if max_bytes is None:
            assert total == min(sum(new), max_messages if max_messages is not None else sum(new))


class TestHalfWindow:
    """Without a limit a streaming batch leaves room for the next one."""

    halves = BatchLimits(halves=True)

    def taken(self, limits: BatchLimits = halves, **window: int) -> int:
        """Of 40,000 messages of 1,000 bytes."""
        available = [Available("a", "e", 0, 40_000, **window)]
        return taken(available, choose_end(INITIAL, available, limits, EqualSizes({"a": 1_000})))["a"]

    def test_half_of_the_messages(self) -> None:
        assert self.taken(window=40_000) == 20_000
        assert self.taken(BatchLimits(), window=40_000) == 40_000

    def test_half_of_the_bytes(self) -> None:
        assert self.taken(window=40_000, window_bytes=30_000_000) == 15_000

    def test_a_small_window_is_not_halved(self) -> None:
        assert self.taken(window=100) == 1_000
        assert self.taken(window_bytes=1) == (1 << 20) // 1_000

    def test_one_message_however_large(self) -> None:
        available = [Available("a", "e", 0, 3, window_bytes=3 << 20)]
        chosen = choose_end(INITIAL, available, self.halves, EqualSizes({"a": 5 << 20}))
        assert taken(available, chosen) == {"a": 1}

    def test_limits_that_the_user_sets_hold_instead(self) -> None:
        assert self.taken(BatchLimits(max_messages=30_000, halves=True), window=40_000) == 30_000
        largest = BatchLimits(max_bytes=18_000_000, halves=True)
        assert self.taken(largest, window=40_000, window_bytes=30_000_000) == 18_000

    def test_a_minimum_is_met(self) -> None:
        least = BatchLimits(min_messages=30_000, halves=True)
        assert self.taken(least, window=40_000, window_bytes=30_000_000) == 30_000


class TestFairness:
    """What stays behind is un-acked and waits: no receiver may be passed over without end."""

    def served(self, new: dict[str, int], limits: BatchLimits, sizes: dict[str, int]) -> set[str]:
        """Who was read within as many batches as there are receivers, with a backlog that never ends."""
        found: set[str] = set()
        for turn in range(len(new)):
            available = [Available(name, "e", 0, count) for name, count in new.items()]
            chosen = choose_end(
                INITIAL,
                rotated(available, turn),
                limits,
                EqualSizes(sizes),
            )
            found |= {name for name, _ in chosen}
        return found

    def test_a_message_larger_than_its_share(self) -> None:
        limits = BatchLimits(max_bytes=10 << 20)
        assert self.served({"a": 10_000, "b": 1}, limits, {"a": 1 << 10, "b": 6 << 20}) == {"a", "b"}

    @pytest.mark.rule("5.4")
    def test_more_receivers_than_messages_in_a_batch(self) -> None:
        limits = BatchLimits(max_messages=2)
        assert self.served({"a": 9, "b": 9, "c": 9}, limits, dict.fromkeys("abc", 1)) == {"a", "b", "c"}

    @pytest.mark.rule("5.4")
    def test_the_quiet_ones_do_not_starve_the_busy_one(self) -> None:
        limits = BatchLimits(max_messages=2)
        assert self.served({"a": 9_000, "b": 1, "c": 1}, limits, dict.fromkeys("abc", 1)) == {"a", "b", "c"}


class TestIsReady:
    limits = BatchLimits(min_messages=10, max_delay=60)

    def test_the_minimum_counts_over_all_receivers(self) -> None:
        assert not is_ready([Available("a", "e", 0, 9)], self.limits, waited=0)
        assert is_ready([Available("a", "e", 0, 5), Available("b", "e", 0, 5)], self.limits, waited=0)

    @pytest.mark.rule("5.2")
    def test_a_full_window_ends_the_wait_since_no_more_can_come(self) -> None:
        assert is_ready([Available("a", "e", 0, 4, full=True)], self.limits, waited=0)

    def test_a_full_window_without_new_messages_does_not(self) -> None:
        full_and_offered = Available("a", "e", 4, 4, full=True)
        assert not is_ready([full_and_offered, Available("b", "e", 0, 1)], self.limits, waited=0)


class TestPlan:
    @pytest.mark.rule("6.1")
    def test_ranges_go_on_within_an_epoch(self) -> None:
        start, stop = Offset({"a": Position("e", 3)}), Offset({"a": Position("e", 9)})
        assert plan(start, stop) == [Range("a", "e", 3, 9)]

    @pytest.mark.rule("3.2")
    def test_another_epoch_starts_at_zero(self) -> None:
        start, stop = Offset({"a": Position("old", 300)}), Offset({"a": Position("new", 9)})
        assert plan(start, stop) == [Range("a", "new", 0, 9)]

    def test_unmoved_and_removed_receivers_give_no_range(self) -> None:
        start = Offset({"a": Position("e", 3), "b": Position("f", 1)})
        assert plan(start, Offset({"a": Position("e", 3)})) == []

    @pytest.mark.rule("6.1")
    def test_from_the_beginning(self) -> None:
        assert plan(INITIAL, Offset({"b": Position("f", 2), "a": Position("e", 1)})) == [
            Range("a", "e", 0, 1),
            Range("b", "f", 0, 2),
        ]


@pytest.mark.rule("6.1")
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1), st.integers(1, 500))
def test_split_covers_the_ranges_once(counts: list[tuple[int, int]], about: int) -> None:
    ranges = [Range(f"r{n}", "e", low, low + count) for n, (low, count) in enumerate(counts)]
    tasks = split(ranges, SIZES, about)
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
    sizes = EqualSizes({"a": MIB // 4})
    whole = Range("a", "e", 0, max(1, volume * 4 // MIB))
    assert len(split([whole], sizes, task_bytes(volume, cores))) == tasks


def test_small_ranges_of_several_receivers_are_one_task() -> None:
    ranges = [Range(name, name, 0, 3) for name in "abcd"]
    assert split(ranges, SIZES, 200) == [ranges]
    assert split(ranges, SIZES, 60) == [ranges[:2], ranges[2:]]


@pytest.mark.parametrize(("budget", "expected"), [(1, {"a": 1, "b": 0}), (3, {"a": 2, "b": 1})])
def test_a_limit_smaller_than_the_receivers_still_moves(budget: int, expected: dict[str, int]) -> None:
    available = [Available("a", "ea", 0, 9), Available("b", "eb", 0, 9)]
    assert taken(available, end(INITIAL, available, BatchLimits(max_messages=budget))) == expected
