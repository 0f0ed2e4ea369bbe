"""Where streams are read from and up to: the values of ``startingOffsets`` and ``endingOffsets``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from spark_stomp.options.kinds import Kind

Place: TypeAlias = Literal["earliest", "latest"]

# As in the options of Spark's Kafka source.
_SPECIAL: Final[dict[int, Place]] = {-2: "earliest", -1: "latest"}
_BY_NAME: Final = '{"orders": 1200, "audit": -2}'


@dataclass(frozen=True)
class Moment:
    """A time, in whole seconds since 1970."""

    seconds: int


@dataclass(frozen=True)
class StreamPositions:
    """A position for each stream: one for all of them, or ``by_name``, by the names in the option."""

    everywhere: Place | Moment | None = None
    by_name: dict[str, int | Place] = field(default_factory=dict)

    def of(self, destination: str) -> int | Place | Moment | None:
        """The position of the stream ``destination``; None if the option does not name it."""
        if self.everywhere is not None:
            return self.everywhere
        return self.by_name.get(destination, self.by_name.get(stream_name(destination)))

    def unnamed(self, destinations: Sequence[str]) -> list[str]:
        """The streams that the option does not name, if it names any."""
        return [one for one in destinations if self.of(one) is None]

    def foreign(self, destinations: Sequence[str]) -> list[str]:
        """The names in the option that are no streams of ``destinations``."""
        known = {*destinations, *map(stream_name, destinations)}
        return [name for name in self.by_name if name not in known]


def stream_name(destination: str) -> str:
    """The name of the queue that ``/amq/queue/NAME`` or ``/queue/NAME`` stands for."""
    return destination.removeprefix("/amq").removeprefix("/queue/")


def _positions(raw: str) -> StreamPositions:
    text = raw.strip()
    for word in _SPECIAL.values():
        if text.lower() == word:
            return StreamPositions(word)
    if text.startswith("{"):
        return StreamPositions(by_name=_by_name(text))
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise ValueError(f"is a number; write an offset with the name of its stream, such as {_BY_NAME}")
    return StreamPositions(Moment(_seconds(text)))


def _by_name(text: str) -> dict[str, int | Place]:
    try:
        raw = json.loads(text, object_pairs_hook=_once_each)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON ({error}); write {_BY_NAME}") from None
    if not raw:
        raise ValueError(f"names no stream; write {_BY_NAME}")
    for name, offset in raw.items():
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < min(_SPECIAL):
            raise ValueError(
                f"has {json.dumps(offset)} for {name}: an offset is a whole number, -2 (earliest) or -1 "
                "(latest)"
            )
    return {name: _SPECIAL.get(offset, offset) for name, offset in raw.items()}


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [stream_name(name) for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"names {', '.join(twice)} more than once")
    return dict(pairs)


def _seconds(text: str) -> int:
    try:
        # Python 3.10 does not know the Z.
        time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        raise ValueError(
            f"must be earliest, latest, a time such as 2026-11-23T08:00:00Z, or offsets such as {_BY_NAME}"
        ) from None
    if time.tzinfo is None:
        raise ValueError("is a time without a zone; add one, as in 2026-11-23T08:00:00Z or ...+01:00")
    return max(0, int(time.timestamp()))


BEGINS: Final = Kind(_positions, "`earliest`, `latest`, a time with its zone, or JSON: `{name: offset}`")
ENDS: Final = Kind(_positions, "`latest`, or JSON: `{name: offset}`")
