"""Which ranges of frames a batch consists of, and which of them each of its tasks reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_stomp.source.offsets import Offset

_LEAST_OF_A_TASK, _MOST_OF_A_TASK = 8 << 20, 32 << 20


class Sizes(Protocol):
    """What planning has to know of frames: their bytes on the wire, by the name of their receiver."""

    def bytes_between(self, name: str, low: int, high: int) -> int:
        """The size of the frames [low, high)."""

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``."""


@dataclass(frozen=True)
class Range:
    """The frames ``[low, high)`` of one receiver's epoch."""

    name: str
    epoch: str
    low: int
    high: int


def plan(start: Offset, end: Offset) -> list[Range]:
    """The ranges between two offsets, in the order of receiver names.

    If the epoch of a receiver changed between them, its range starts at the base of the new one: nothing
    beyond ``start`` was offered of the old one. Whether a range can still be read is not decided here.
    """
    ranges = []
    for name, position in end:
        before = start.get(name)
        known = before is not None and before.epoch == position.epoch
        low = before.sequence if before is not None and known else position.base
        if position.sequence > low:
            ranges.append(Range(name, position.epoch, low, position.sequence))
    return ranges


def task_bytes(volume: int, cores: int) -> int:
    """About how many bytes each task of a batch of ``volume`` bytes reads.

    There are as many tasks as ``cores`` if each has enough to read to be worth what a task costs, and more if
    they would have too much.
    """
    return min(max(volume // cores, _LEAST_OF_A_TASK), _MOST_OF_A_TASK)


def split(ranges: Sequence[Range], sizes: Sizes, about: int) -> list[list[Range]]:
    """Share the ranges of a batch out to equal tasks of ``about`` so many bytes each, in order.

    A range is cut between messages, and small ranges of several receivers are one task.
    """
    volumes = [sizes.bytes_between(whole.name, whole.low, whole.high) for whole in ranges]
    total = sum(volumes)
    count = max(1, round(total / about))
    tasks: list[list[Range]] = [[] for _ in range(count)]
    before = 0
    for whole, volume in zip(ranges, volumes, strict=True):
        low = whole.low
        for number, task in enumerate(tasks, 1):
            within = total * number // count - before
            high = whole.high
            if within < volume:
                high = sizes.end_within(whole.name, whole.low, whole.high, max(within, 0))
            if high > low:
                task.append(Range(whole.name, whole.epoch, low, high))
                low = high
        before += volume
    return [task for task in tasks if task]
