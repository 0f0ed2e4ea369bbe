"""What must hold of the decoder of JSON: a row says what its body says, or has a reason, on both paths."""

from __future__ import annotations

import json
import random
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.arrow import json_layouts
from spark_stomp.arrow.columns import strings
from spark_stomp.arrow.json_rows import json_rows

INSIDE = pa.struct([("i", pa.int32()), ("j", pa.string()), ("k", pa.float32()), ("z", pa.date32())])
ITEM = pa.struct([("m", pa.string()), ("n", pa.int16()), ("y", INSIDE)])
KIND = pa.struct(
    [
        *[("a", pa.int64()), ("b", pa.string()), ("c", pa.float64()), ("d", pa.decimal128(6, 2))],
        *[("e", pa.bool_()), ("f", pa.timestamp("us", tz="UTC")), ("g", pa.timestamp("us"))],
        *[("h", INSIDE), ("l", pa.list_(ITEM)), ("o", pa.list_(pa.float64())), ("p", pa.list_(pa.string()))],
        *[("q", pa.map_(pa.string(), pa.int8())), ("x]", pa.decimal128(3, 3)), ("é", pa.date32())],
    ]
)
TEXTS = ["", "x", "a, b", "]", "[{", "é€", "\U0001f600", "null", "12", "2026-11-29", "x" * 300]
ESCAPED = [r"\"", r"\\", r"\u00e9", r"\ud800", r"\n]", "\t"]
NUMBERS = ["0", "-0", "7", "-12", "99", "300", "70000", "2.5", "-0.25", "1.10", "0.001", "12345.67", "0.1"]
ODD = ["1e3", "1E-400", "1e400", "01", "1.", ".5", "-", "0.1234567890123456789", "9223372036854775808"]
ODD += [
    "9007199254740993",
    "123456789012345678",
    "1234567.5",
    "12345678901234567",
    "100000000000000000000000",
]
TIMES = ["2026-11-29T12:00:00Z", "2026-02-30T12:00:00Z", "1970-01-01T00:00:00Z", "0001-01-01T23:59:59Z"]
TIMES += ["2026-11-29T12:00:00.123Z", "2024-02-29 23:59:59.999999+05:30", "2026-11-29T12:00:00-01:00"]
TIMES += ["2026-11-29T24:00:00Z", "9999-12-31T23:59:59-01:00", "2026-11-29T12:00:00", "2026-11-29T12:00"]
DATES = ["2026-11-29", "2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2026-13-01"]

# datetime.fromisoformat takes more than this.
TIME = re.compile(r".{10}[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


class Producer:
    """Writes bodies of one layout, mostly: some have another value, field or space, or are broken."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.comma, self.colon = chance.choice([",", ", ", " ,\n"]), chance.choice([":", ": ", " :"])
        self.space = chance.choice(["", " ", "\r\n"])
        self.rarity = chance.choice([0, 0.003, 0.05])
        self.orders: dict[Any, list[str]] = {}
        # Of any field, and of the map, which the fast path does not read.
        self.missing = chance.choice([0, 0.3]), 0.9

    def is_rare(self) -> bool:
        return self.chance.random() < self.rarity

    def body(self) -> bytes:
        text = f"{self.space}{self.value(KIND)}{self.space}".encode(errors="surrogatepass")
        if self.is_rare():
            at = self.chance.randrange(len(text))
            text = (
                text[:at] + self.chance.choice([b"", b'"', b"}", b",", b"\\", b"\xff", b"1"]) + text[at + 1 :]
            )
        return text

    def value(self, kind: pa.DataType) -> str:
        chance = self.chance
        if self.is_rare():
            return chance.choice(["null", "{}", "[]", "true", '"7"', *NUMBERS, *ODD])
        if pa.types.is_struct(kind):
            return self.object(kind)
        if pa.types.is_map(kind):
            return (
                "{" + self.comma.join(f'"{key}"{self.colon}1' for key in "uvw"[: chance.randrange(4)]) + "}"
            )
        if pa.types.is_list(kind):
            return f"[{self.comma.join(self.value(kind.value_type) for _ in range(chance.randrange(4)))}]"
        if pa.types.is_string(kind):
            return f'"{chance.choice(ESCAPED if self.is_rare() else TEXTS)}"'
        if pa.types.is_temporal(kind):
            zone = "Z" if getattr(kind, "tz", None) else ""
            usual = f"2026-11-{chance.randrange(10, 31)}"
            if pa.types.is_timestamp(kind):
                usual += f"T{chance.randrange(10, 24)}:00:00.5{zone}"
            return f'"{chance.choice(TIMES + DATES) if self.is_rare() else usual}"'
        if pa.types.is_boolean(kind):
            return chance.choice(["true", "false", "null"])
        if chance.random() < self.rarity:
            return chance.choice([*NUMBERS, "null"])
        if pa.types.is_decimal(kind):
            return chance.choice(["0", "-0.12", "0.5", "null"])
        return chance.choice(["0", "-0", "7", "-12", "99", "null", *(["2.5"] * pa.types.is_floating(kind))])

    def object(self, kind: pa.StructType) -> str:
        names = [kind.field(number).name for number in range(kind.num_fields)]
        if kind not in self.orders:
            self.orders[kind] = [name for name in names if self.chance.random() >= self.missing[name == "q"]]
            self.chance.shuffle(self.orders[kind])
        order = self.orders[kind]
        if self.is_rare():
            order = self.chance.choices([*names, "other"], k=self.chance.randrange(6))
        fields = (
            f'"{name}"{self.colon}{self.value(kind.field(name).type if name in names else KIND)}'
            for name in order
        )
        return "{" + self.comma.join(fields) + "}"


# --- a second decoder


class Misfit(Exception):
    pass


class Number(str):
    pass


def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in found}) < len(found):
        raise Misfit
    return dict(found)


def refuse(_: str) -> Any:
    raise Misfit


def model(body: bytes) -> Any:
    try:
        text = body.decode()
        document = json.loads(
            text, object_pairs_hook=pairs, parse_int=Number, parse_float=Number, parse_constant=refuse
        )
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, UnicodeError):
        raise Misfit from None
    if document is None:
        raise Misfit
    return said(document, KIND)


def said(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if type(value) is not dict or not set(value) <= {field.name for field in kind}:
            raise Misfit
        return {field.name: said(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        if type(value) is not dict:
            raise Misfit
        return [(name, said(one, kind.item_type)) for name, one in value.items()]
    if pa.types.is_list(kind):
        if type(value) is not list:
            raise Misfit
        return [said(one, kind.value_type) for one in value]
    leaf = text_or_time(value, kind) if type(value) in (str, bool) else number(value, kind)
    if leaf is None:
        raise Misfit
    return leaf


def text_or_time(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return value if type(value) is bool else None
    if type(value) is bool:
        return None
    if pa.types.is_string(kind):
        return value
    try:
        if pa.types.is_date(kind):
            return date.fromisoformat(value) if len(value) == 10 and value[4] == "-" else None
        if pa.types.is_timestamp(kind) and TIME.fullmatch(value):
            whole = value.replace("Z", "+00:00")
            whole = re.sub(r"\.(\d+)", lambda found: "." + found[1].ljust(6, "0"), whole)
            found = datetime.fromisoformat(whole)
            if (found.tzinfo is None) is (kind.tz is None):
                return found if kind.tz is None else found.astimezone(datetime.now().astimezone().tzinfo)
    except (ValueError, OverflowError):
        pass
    return None


def number(value: Any, kind: pa.DataType) -> Any:
    if type(value) is not Number or not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    ):
        return None
    exact = Decimal(value)
    if pa.types.is_integer(kind):
        bound = 1 << (kind.bit_width - 1)
        return int(value) if re.fullmatch("-?[0-9]+", value) and -bound <= int(value) < bound else None
    if pa.types.is_floating(kind):
        near = np.float32(value) if kind.bit_width == 32 else np.float64(value)
        return float(near) if np.isfinite(near) and Decimal(str(near)) == exact else None
    if "e" in value.lower() or abs(exact) >= 10 ** (kind.precision - kind.scale):
        return None
    return exact if exact == round(exact, kind.scale) else None


@given(st.integers(0, 2**32), st.integers(60, 200))
def test_a_row_is_what_a_second_decoder_says_or_has_a_reason(seed: int, count: int) -> None:
    producer = Producer(random.Random(seed))
    bodies = [producer.body() for _ in range(count)]
    with np.errstate(over="ignore"):
        found = json_rows(strings(bodies, pa.binary()), KIND)
        found.values.validate(full=True)
        for row, (body, value) in enumerate(zip(bodies, found.values.to_pylist(), strict=True)):
            try:
                expected = model(body)
            except Misfit:
                assert row in found.reasons, body
            else:
                assert found.reasons.get(row) is None, body
                assert value == expected, body


@given(st.integers(0, 2**32), st.integers(64, 200))
def test_both_paths_say_the_same(seed: int, count: int) -> None:
    """Also of what does not fit: which parts of it are there, and why."""
    producer = Producer(random.Random(seed))
    bodies = [producer.body() for _ in range(count)]
    together = json_rows(strings(bodies, pa.binary()), KIND)
    for row, value in enumerate(together.values.to_pylist()):
        alone = json_rows(strings(bodies[row : row + 1], pa.binary()), KIND)
        assert (value, together.reasons.get(row)) == (alone.values[0].as_py(), alone.reasons.get(0))


def test_the_fast_path_reads_what_producers_write() -> None:
    """Else the other tests would compare the exact path with itself."""
    read = total = 0
    for seed in range(40):
        producer = Producer(random.Random(seed))
        texts = [body.decode(errors="replace") for body in (producer.body() for _ in range(100))]
        total += len(texts)
        read += sum(len(rows) for rows, _ in json_layouts.read_json_layouts(strings(texts), KIND))
    assert read > total // 5
