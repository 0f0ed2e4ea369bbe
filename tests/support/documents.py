"""Random bodies of JSON, of whose places most have values of one kind."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

WHOLES = [
    "0",
    "-0",
    "7",
    "-12",
    str(2**63 - 1),
    str(-(2**63)),
    str(2**63),
    "9" * 38,
    "9" * 39,
    "1" + "0" * 50,
]
FRACTIONS = ["2.5", "-0.25", "1.10", "7.0", "0.1", "1e3", "1E-400", "1e400", "0.1234567890123456789"]
FRACTIONS += [
    "123456789012345678901234567.25",
    "0.000000000000000000000000000000000001",
    "1" * 30 + "." + "1" * 30,
]
TIMES = [
    "2026-11-29T12:00:00Z",
    "2026-11-29 12:00+05:30",
    "2026-11-29T12:00:00",
    "2026-11-29T12:00:00.1234567Z",
]
TIMES += ["9999-12-31T23:59:59-01:00", "2026-02-30T12:00:00Z", "2026-11-29", "2026-13-01", "0001-01-01"]
NAMES = [
    "a",
    "b",
    "A",
    "c",
    "order",
    "x y",
    "`",
    "a``b",
    '"""',
    "\\",
    "\\n",
    "\n",
    "--",
    "/*",
    "-- \\",
    "",
    "é",
    "b\\",
]
NAMES += [
    "is left out: . Bodies with it are rescued",
    "\0",
    "\x1b[2J",
    ",",
    ">",
    "STRUCT<",
    "x" * 200,
    "x" * 201,
]


def texts(values: list[str]) -> list[str]:
    return [json.dumps(value) for value in values]


LEAVES = [
    WHOLES,
    WHOLES[:6],
    FRACTIONS,
    FRACTIONS[:5],
    WHOLES + FRACTIONS,
    texts(TIMES),
    *(texts([one]) for one in TIMES),
    texts([*TIMES, "", "a text", "\U0001f600"]),
    ["true", "false"],
    [*FRACTIONS[:3], '"NaN"', '"-Infinity"'],
    ["null"],
    ["{}", "[]"],
    ["1", '"x"', "true", "[]", "{}", "null", "2.5"],
]


RARE = [
    "",
    "no json",
    "7",
    "null",
    "[]",
    "[null]",
    "[7]",
    '{"a": 1, "a": 2}',
    "{} {}",
    '[{"a": 1}]',
    '{"a": 1}',
]


class Producer:
    """Writes bodies whose places have mostly values of one kind."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.body = self.object(0)
        if chance.random() < 0.3:
            self.body = self.list(self.body, least=1)

    def bodies(self, count: int) -> list[str]:
        rarity = self.chance.choice([0, 0.1])
        return [
            self.chance.choice(RARE) if self.chance.random() < rarity else self.body() for _ in range(count)
        ]

    def place(self, level: int) -> Callable[[], str]:
        chance = self.chance
        kind = chance.random() + level / 10
        if kind < 0.15:
            return self.object(level + 1)
        if kind < 0.3:
            return self.list(self.place(level + 1))
        if kind < 0.4:
            return self.map(self.place(level + 5))
        values = chance.choice(LEAVES)
        values = chance.sample(values, chance.randrange(1, len(values) + 1))
        return lambda: chance.choice(values)

    def object(self, level: int) -> Callable[[], str]:
        chance = self.chance
        fields = {name: self.place(level) for name in chance.sample(NAMES, chance.randrange(1, 8))}
        missing = {name: chance.choice([0, 0, 0.3, 0.9]) for name in fields}
        return lambda: written(
            {name: value() for name, value in fields.items() if chance.random() >= missing[name]}
        )

    def list(self, element: Callable[[], str], least: int = 0) -> Callable[[], str]:
        return lambda: f"[{', '.join(element() for _ in range(self.chance.randrange(least, 4)))}]"

    def map(self, value: Callable[[], str]) -> Callable[[], str]:
        """Of hundreds of names, a few in each object."""
        return lambda: written({str(self.chance.randrange(400)): value() for _ in range(15)})


def written(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in fields.items()) + "}"
