"""Headers with one value a row, wherever it comes from: options, columns of their own, the map of headers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import Flags, Ints, escape, lengths
from spark_stomp.arrow.row_ids import row_ids
from spark_stomp.arrow.row_problems import (
    HeaderText,
    RowProblems,
    as_binary,
    as_strings,
    check_utf8,
    header_text,
)
from spark_stomp.arrow.send_rules import SendRules
from spark_stomp.errors import RowTooLarge
from spark_stomp.protocol import escape as escape_text
from spark_stomp.protocol.send_headers import ValueRule
from spark_stomp.quoting import quoted

# A part of all frames of a slice: the same octets in each, or a binary column without nulls.
Piece: TypeAlias = bytes | pa.Array

# In milliseconds; it can be added to any time without an overflow.
_LONGEST_TTL = 1 << 62


def header_values(
    strings: pa.Array, name: str, text: HeaderText, most_bytes: int, problems: RowProblems
) -> pa.Array:
    """A column as the values of the header ``name``: checked, escaped, binary. Nulls stay."""
    octets = check_utf8(as_strings(strings), None, lambda _: f"the header '{name}'", problems)
    text.check(octets, None, lambda _: f"the header '{name}'", problems)
    octets = escape(octets, text.escaped)
    room = most_bytes - len(name.encode()) - 1
    sizes = lengths(octets)
    problems.add_flagged(
        sizes > room,
        lambda row: (
            f"the header '{name}' has {sizes[row]} bytes; maxHeaderLineBytes, or this broker, lets {room} "
            "through"
        ),
        RowTooLarge,
    )
    return octets


def begin_with(strings: pa.Array, prefixes: Iterable[str]) -> Flags:
    """Which strings begin with one of the prefixes; nulls do not."""
    found = np.zeros(len(strings), bool)
    for prefix in prefixes:
        found |= _true(pc.starts_with(strings, pattern=prefix))
    return found


class RowFields:
    """The fields of a task's frames; ``names`` are those that a row's entries may set as well, in order."""

    def __init__(self, rules: SendRules, text: HeaderText) -> None:
        self._rules = rules
        self._text = text
        self._constants = dict(rules.headers)
        self._queue = dict(rules.queue_headers)
        self._column_of = {header: column for column, header in rules.columns}
        ttl = () if rules.ttl is None else (rules.ttl.header,)
        dedup = (rules.dedup_header,) if rules.dedup_key else ()
        checked = (rule.header for rule in rules.values)
        self.names = tuple(
            dict.fromkeys((*self._queue, *self._constants, *ttl, *self._column_of, *dedup, *checked))
        )

    def pieces(
        self,
        columns: Mapping[str, pa.Array],
        destinations: pa.Array | None,
        entries: Mapping[int, pa.Array],
        now: float,
        problems: RowProblems,
    ) -> Iterator[tuple[Piece, Ints | int]]:
        """The fields' parts of the frames, each after an LF, with how many headers they are, a row or in all.

        Args:
            columns: those of the slice, by name.
            destinations: binary, null if a row has none; None if the option says it.
            entries: values of the column ``headers`` by the number of the field, not escaped.
            now: seconds since the epoch.
        """
        for number, name in enumerate(self.names):
            head = b"\n" + escape_text(name, self._rules.version).encode() + b":"
            constant = self._constant(name, now)
            values = self._values(name, columns, entries.get(number), now, problems)
            if constant is None and name in self._queue:
                constant, values = self._for_queues(name, destinations, values)
            if values is None:
                if constant is not None:
                    yield head + constant, 1
                continue
            if constant is not None:
                values = values.fill_null(constant)
            if values.null_count:
                present = values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
                yield pc.binary_join_element_wise(head, values, b"").fill_null(b""), present
            else:
                yield head, 1
                yield values, 0

    def _constant(self, name: str, now: float) -> bytes | None:
        """What the options say, escaped."""
        ttl = self._rules.ttl
        value = self._constants.get(name)
        if value is None and ttl is not None and name == ttl.header and ttl.milliseconds is not None:
            value = str(ttl.after(now) + ttl.milliseconds)
        return None if value is None else escape_text(value, self._rules.version).encode()

    def _values(
        self,
        name: str,
        columns: Mapping[str, pa.Array],
        entries: pa.Array | None,
        now: float,
        problems: RowProblems,
    ) -> pa.Array | None:
        """What the rows say, escaped: a column of its own, or else the column ``headers``."""
        values = self._own(name, columns, now, problems)
        if entries is not None:
            given = as_strings(entries)
            values = given if values is None else pc.coalesce(as_strings(values), given)
        if values is None:
            return None
        for rule in self._rules.values:
            if rule.header == name:
                _check(as_binary(values), rule, problems)
        return header_values(values, name, self._text, self._rules.limits.max_header_line, problems)

    def _own(
        self, name: str, columns: Mapping[str, pa.Array], now: float, problems: RowProblems
    ) -> pa.Array | None:
        rules = self._rules
        if rules.dedup_key and name == rules.dedup_header:
            return row_ids([columns[key] for key in rules.dedup_key], problems)
        if rules.ttl is not None and name == rules.ttl.header and "ttl" in columns:
            left = columns["ttl"].cast(pa.int64())
            problems.add_flagged(
                _true(pc.or_(pc.less_equal(left, 0), pc.greater(left, _LONGEST_TTL))),
                lambda row: f"its ttl is {left[row]} ms, and must be more than 0 and at most {_LONGEST_TTL}",
            )
            return pc.add(left, rules.ttl.after(now)).cast(pa.string())
        column = self._column_of.get(name, "")
        if column not in columns:
            return None
        values = columns[column]
        text = header_text(values)
        if text.null_count > values.null_count:
            problems.add_flagged(
                _true(pc.and_(text.is_null(), values.is_valid())),
                f"its {column} is not within the years 1 to 9999",
            )
        return text

    def _for_queues(
        self, name: str, destinations: pa.Array | None, values: pa.Array | None
    ) -> tuple[bytes | None, pa.Array | None]:
        """A header that only queues need: for all rows, or for some of them."""
        needed = escape_text(self._queue[name], self._rules.version).encode()
        if destinations is None:
            option = self._rules.destination or ""
            return (needed if option.startswith(self._rules.queue_prefixes) else None), values
        queues = begin_with(destinations, self._rules.queue_prefixes)
        if queues.all():
            return needed, values
        ours = pc.if_else(pa.array(queues), pa.scalar(needed, pa.binary()), None)
        return None, ours if values is None else pc.coalesce(values, ours)


def _check(values: pa.Array, rule: ValueRule, problems: RowProblems) -> None:
    """Note the values that the broker would not take; nulls are none."""

    def wrong(some: pa.Array) -> Flags:
        matches = pc.match_substring_regex(some, f"^(?:{rule.pattern})$")
        return _true(pc.invert(matches) if rule.allowed else matches)

    # Most rows say the same, and a regular expression costs more than to find that out.
    if not wrong(values.unique()).any():
        return
    problems.add_flagged(
        wrong(values),
        lambda row: f"its {rule.header} is {_shown(values[row].as_py())}, and must {rule.says}",
    )


def _shown(value: bytes) -> str:
    return quoted(value.decode(errors="backslashreplace"), 40)


def _true(flags: pa.Array) -> Flags:
    """Where the flags are true, and not null."""
    found: Flags = flags.fill_null(False).to_numpy(zero_copy_only=False)
    return found
