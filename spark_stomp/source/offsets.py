"""Offsets, and the ranges of frames between two offsets, which the tasks of a batch read.

An offset says for each log up to which number it was read. Spark writes it to its checkpoint as JSON, and
compares it as text::

    {"logs": {"memory": {"id": "5f0c...", "next": 1200}}, "version": 2}
    {"logs": {"journal": {"id": "77ab...", "next": 5000}}, "version": 2}
    {"logs": {"stream:a": {"base": 100, "id": "90cd...", "next": 700}}, "version": 2}

A log has a random id that is never reused. The log in memory ends with its run; a journal and a stream of
RabbitMQ, whose numbers are the broker's offsets, do not. Numbers are exclusive ends. A query starts at the
offset without logs. If the first batch of a log did not begin at 0, ``"base"`` says where.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from spark_stomp.errors import OffsetError

# The least and the most bytes of frames that one task reads; a smaller batch is one task. With an upper bound
# alone, 20 MiB in 50,000 messages were one task, and one of two cores was idle (November 2026).
_LEAST_OF_A_TASK, _MOST_OF_A_TASK = 8 << 20, 32 << 20

MEMORY = "memory"
"""The name of the log in memory, which has the messages of all queues of a run without a journal."""

JOURNAL = "journal"
"""The name of the log of a journal."""

STREAM = "stream:"
"""Before the name of a stream: the name of its log."""

# Version 1 had numbers for each receiver.
_VERSION = 2


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far one log was read: the messages below ``next`` of the log ``id``.

    ``base`` is where reading began, if the start of the batch does not name the log.
    """

    id: str
    next: int
    base: int = 0


@dataclass(frozen=True)
class Offset:
    """Where reading ends in each log, by the names of logs.

    ``Offset.from_dict(o.to_dict())`` equals ``o``, and gives the same JSON text.
    """

    ends: Mapping[str, LogEnd] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, raw: object) -> Offset:
        """The inverse of :meth:`to_dict`. Raises OffsetError for anything else, or of another release."""
        if not isinstance(raw, dict) or "version" not in raw:
            raise OffsetError(f"this is not an offset of spark_stomp: {raw!r}")
        if raw["version"] != _VERSION:
            raise OffsetError(
                f"the checkpoint's offset has version {raw['version']!r}; this release reads version "
                f"{_VERSION}. Use the release that wrote the checkpoint, or start with a new one"
            )
        try:
            for name in raw["logs"]:
                # A batch would be read without its messages.
                if name not in (MEMORY, JOURNAL) and not name.startswith(STREAM):
                    raise OffsetError(
                        f"the checkpoint's offset names a log that this release does not know: {name!r}. "
                        "Use the release that wrote the checkpoint"
                    )
            return cls({name: _log_end(entry) for name, entry in raw["logs"].items()})
        except (KeyError, TypeError, AttributeError) as error:
            raise OffsetError(f"the checkpoint's offset is damaged: {raw!r}") from error

    def to_dict(self) -> dict[str, Any]:
        """The offset as a dict for JSON, with sorted keys, because Spark compares offsets as text."""
        return {"logs": {name: _entry(end) for name, end in self}, "version": _VERSION}

    def to_json(self) -> str:
        """The text of the offset, as Spark's Python runner writes it into the offset log."""
        return json.dumps(self.to_dict())

    def __iter__(self) -> Iterator[tuple[str, LogEnd]]:
        return iter(sorted(self.ends.items()))

    def get(self, name: str) -> LogEnd | None:
        return self.ends.get(name)


def _log_end(entry: Any) -> LogEnd:
    end = LogEnd(entry["id"], entry["next"], entry.get("base", 0))
    if not isinstance(end.id, str) or not all(isinstance(one, int) for one in (end.next, end.base)):
        raise TypeError("id is a string, next and base are counts")
    if not 0 <= end.base <= end.next:
        raise TypeError("base is a count up to next")
    return end


def _entry(end: LogEnd) -> dict[str, Any]:
    base = {"base": end.base} if end.base else {}
    return base | {"id": end.id, "next": end.next}


INITIAL = Offset()


class Sizes(Protocol):
    """The sizes of numbered frames, in bytes on the wire: a log, a journal, an inbox."""

    def bytes_between(self, low: int, high: int) -> int:
        """How many bytes the frames ``[low, high)`` have."""

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which ``[low, end)`` has at most ``max_bytes`` bytes."""


@dataclass(frozen=True)
class Range:
    """The frames ``[low, high)`` of the log ``id``, which offsets call ``name``."""

    name: str
    id: str
    low: int
    high: int


def plan(start: Offset, end: Offset) -> list[Range]:
    """The ranges between two offsets, in the order of the names of logs.

    If a name has another log at the end, its range starts at the base of that log: nothing of the old one
    after ``start`` was offered to Spark. This does not check whether a range can still be read.
    """
    ranges = []
    for name, upto in end:
        before = start.get(name)
        low = before.next if before is not None and before.id == upto.id else upto.base
        if upto.next > low:
            ranges.append(Range(name, upto.id, low, upto.next))
    return ranges


def task_bytes(volume: int, cores: int) -> int:
    """About how many bytes each task of a batch of ``volume`` bytes reads.

    There are as many tasks as ``cores`` if each gets 8 MiB or more, which is worth the cost of a task. There
    are more if one would get over 32 MiB.
    """
    return min(max(volume // cores, _LEAST_OF_A_TASK), _MOST_OF_A_TASK)


def split(ranges: Sequence[tuple[Range, Sizes]], about: int) -> list[list[Range]]:
    """Split the ranges of a batch into tasks of equal size, with about ``about`` bytes each, in order.

    Each range comes with what knows the sizes of its frames. A range may be cut between two messages. Small
    ranges of several logs become one task.
    """
    volumes = [sizes.bytes_between(whole.low, whole.high) for whole, sizes in ranges]
    total = sum(volumes)
    count = max(1, round(total / about))
    tasks: list[list[Range]] = [[] for _ in range(count)]
    before = 0
    for (whole, sizes), volume in zip(ranges, volumes, strict=True):
        low = whole.low
        for number, task in enumerate(tasks, 1):
            within = total * number // count - before
            high = whole.high
            if within < volume:
                high = sizes.end_within(whole.low, whole.high, max(within, 0))
            if high > low:
                task.append(replace(whole, low=low, high=high))
                low = high
        before += volume
    return [task for task in tasks if task]
