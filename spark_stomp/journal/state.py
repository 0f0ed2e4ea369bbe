"""The state of a journal: what its writer found, which frames are valid, and how far it is.

Each writer puts a state when it opens the journal, and again when more is known. The newest state of the
newest writer decides. It is put before the older one is deleted, so there always is one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_stomp.errors import JournalError
from spark_stomp.journal.names import FramesName, Writer

_FORMAT: Final = 2


class Accepted(NamedTuple):
    """The objects of ``writer`` that a state accepts: those with positions within [low, high)."""

    writer: Writer
    low: int
    high: int


@dataclass(frozen=True)
class State:
    """What ``writer`` found when it opened the journal, and how far it is. The first four never change.

    Attributes:
        writer: who put the state.
        journal: the id of the journal.
        base: the end of all that was valid at the opening; the writer's own frames begin here.
        accepted: which objects of older writers are valid.
        end: the frames below this position are durable, or deleted.
        committed: the position up to which Spark had committed.
        acked: no message below this position waits for the broker to confirm its ACK.
    """

    writer: Writer
    journal: str
    base: int
    accepted: tuple[Accepted, ...]
    end: int
    committed: int
    acked: int = 0

    def owns(self, frames: FramesName) -> bool:
        """Whether this state makes the object ``frames`` valid."""
        if frames.writer == self.writer:
            return frames.first >= self.base
        return any(
            frames.writer == writer and low <= frames.first and frames.end <= high
            for writer, low, high in self.accepted
        )

    def encode(self) -> bytes:
        """The bytes of the state: a checksum, a line feed, and JSON."""
        content = json.dumps(
            {
                "format": _FORMAT,
                "journal": self.journal,
                "base": self.base,
                "accepted": [[*writer, low, high] for writer, low, high in self.accepted],
                "end": self.end,
                "committed": self.committed,
                "acked": self.acked,
            }
        ).encode()
        return b"%08x\n" % zlib.crc32(content) + content

    @classmethod
    def decode(cls, writer: Writer, raw: bytes) -> State:
        """The state with these bytes.

        Raises ValueError if they are not as they were written, and JournalError if the format is not known.
        """
        checksum, _, content = raw.partition(b"\n")
        if int(checksum, 16) != zlib.crc32(content):
            raise ValueError("the checksum is wrong")
        fields = json.loads(content)
        if fields["format"] != _FORMAT:
            raise JournalError(
                f"the journal has format {fields['format']}; this release reads {_FORMAT}. Use the release "
                "that wrote it"
            )
        accepted = tuple(Accepted(Writer(*one[:2]), *one[2:]) for one in fields["accepted"])
        numbers = (fields[name] for name in ("end", "committed", "acked"))
        return cls(writer, fields["journal"], fields["base"], accepted, *numbers)


def accepted_of(frames: Iterable[FramesName]) -> tuple[Accepted, ...]:
    """For each writer, the positions from its first to its last object among ``frames``."""
    ranges: dict[Writer, tuple[int, int]] = {}
    for one in frames:
        low, high = ranges.get(one.writer, (one.first, one.end))
        ranges[one.writer] = (min(low, one.first), max(high, one.end))
    return tuple(Accepted(writer, low, high) for writer, (low, high) in ranges.items())
