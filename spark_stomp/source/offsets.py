"""Offsets, and the ranges of frames between two offsets, which the tasks of a batch read.

An offset has the epoch of each receiver and the sequence number up to which it was read, or a position in
the journal. Spark writes it to its checkpoint as JSON, and compares it as text::

    {"receivers": {"/queue/a#0": {"epoch": "5f0c...", "sequence": 1200}}, "version": 1}
    {"journal": {"id": "77ab...", "sequence": 5000}, "receivers": {}, "version": 1}
    {"receivers": {}, "streams": {"a": {"epoch": "90cd...", "offset": 700}}, "version": 1}

An epoch is the life of one receiver, named by a random id that is never reused. Sequence numbers start at 0
in every epoch, and are exclusive ends. A query starts at the offset without receivers. A journal counts as a
receiver whose epoch does not end. So does a stream of RabbitMQ, whose numbers are the broker's offsets. If
the first batch of a journal or stream did not begin at 0, ``"base"`` says where.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from spark_stomp.errors import OffsetError

# The least and the most bytes of frames that one task reads; a smaller batch is one task. With an upper bound
# alone, 20 MiB in 50,000 messages were one task, and one of two cores was idle (November 2026). Both are
# judgements.
_LEAST_OF_A_TASK, _MOST_OF_A_TASK = 8 << 20, 32 << 20

JOURNAL = "journal"
"""The name under which an offset holds the position in the journal; receivers' names have a ``#``."""

STREAM = "stream:"
"""Before the name of a stream: the name under which an offset holds its position."""

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Position:
    """How far one receiver was read: the frames below ``sequence`` of its ``epoch``.

    ``base`` is where reading began, if the start of the batch does not name the epoch.
    """

    epoch: str
    sequence: int
    base: int = 0


@dataclass(frozen=True)
class Offset:
    """Positions by receiver name. ``Offset.from_dict(o.to_dict())`` equals ``o``, with the same JSON text."""

    positions: Mapping[str, Position] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, raw: object) -> Offset:
        """The inverse of :meth:`to_dict`. Raises OffsetError for anything else, or another version."""
        if not isinstance(raw, dict) or "version" not in raw:
            raise OffsetError(f"this is not an offset of spark_stomp: {raw!r}")
        if raw["version"] != _VERSION:
            raise OffsetError(
                f"the checkpoint's offset has version {raw['version']!r}; this release reads version "
                f"{_VERSION}. Use the release that wrote the checkpoint, or start with a new one"
            )
        try:
            positions = {str(name): _position(entry) for name, entry in raw["receivers"].items()}
            if JOURNAL in raw:
                positions[JOURNAL] = _based_position(raw["journal"], "id", "sequence")
            for name, entry in raw.get("streams", {}).items():
                positions[STREAM + name] = _based_position(entry, "epoch", "offset")
            return cls(positions)
        except (KeyError, TypeError, AttributeError) as error:
            raise OffsetError(f"the checkpoint's offset is damaged: {raw!r}") from error

    def to_dict(self) -> dict[str, Any]:
        """The offset as a dict for JSON, with sorted keys, because Spark compares offsets as text."""
        receivers, streams, text = {}, {}, dict[str, Any]()
        for name, position in self:
            if name == JOURNAL:
                text[JOURNAL] = _based_entry(position, "id", "sequence")
            elif name.startswith(STREAM):
                streams[name.removeprefix(STREAM)] = _based_entry(position, "epoch", "offset")
            else:
                receivers[name] = {"epoch": position.epoch, "sequence": position.sequence}
        text["receivers"] = receivers
        return text | ({"streams": streams} if streams else {}) | {"version": _VERSION}

    def to_json(self) -> str:
        """The text of the offset, as Spark's Python runner writes it into the offset log."""
        return json.dumps(self.to_dict())

    def __iter__(self) -> Iterator[tuple[str, Position]]:
        return iter(sorted(self.positions.items()))

    def get(self, name: str) -> Position | None:
        return self.positions.get(name)


def _position(entry: Any) -> Position:
    epoch, sequence = entry["epoch"], entry["sequence"]
    if not isinstance(epoch, str) or not isinstance(sequence, int) or sequence < 0:
        raise TypeError("epoch is a string and sequence a count")
    return Position(epoch, sequence)


def _based_position(entry: Any, epoch: str, number: str) -> Position:
    """The position of a journal or a stream. ``epoch`` and ``number`` are keys of ``entry``."""
    position = _position({"epoch": entry[epoch], "sequence": entry[number]})
    base = entry.get("base", 0)
    if not isinstance(base, int) or not 0 <= base <= position.sequence:
        raise TypeError("base is a count up to the position")
    return replace(position, base=base)


def _based_entry(position: Position, epoch: str, number: str) -> dict[str, Any]:
    base = {"base": position.base} if position.base else {}
    return base | {epoch: position.epoch, number: position.sequence}


INITIAL = Offset()


class Sizes(Protocol):
    """The sizes of frames, in bytes on the wire, by the name of their receiver."""

    def bytes_between(self, name: str, low: int, high: int) -> int:
        """How many bytes the frames ``[low, high)`` have."""

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which ``[low, end)`` has at most ``max_bytes`` bytes."""


@dataclass(frozen=True)
class Range:
    """The frames ``[low, high)`` of one receiver's epoch."""

    name: str
    epoch: str
    low: int
    high: int


def plan(start: Offset, end: Offset) -> list[Range]:
    """The ranges between two offsets, in the order of receiver names.

    If the epoch of a receiver changed between them, its range starts at the base of the new epoch: no frame
    of the old one after ``start`` was offered to Spark. This does not check whether a range can still be
    read.
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

    There are as many tasks as ``cores`` if each gets 8 MiB or more, which is worth the cost of a task. There
    are more if one would get over 32 MiB.
    """
    return min(max(volume // cores, _LEAST_OF_A_TASK), _MOST_OF_A_TASK)


def split(ranges: Sequence[Range], sizes: Sizes, about: int) -> list[list[Range]]:
    """Split the ranges of a batch into tasks of equal size, with about ``about`` bytes each, in order.

    A range may be cut between two messages. Small ranges of several receivers become one task.
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
