"""What is wrong with some rows of a slice: found a column at a time, told row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import Flags, Ints, among, text_of
from spark_stomp.errors import RowNotText, RowUnencodable, SinkRowError
from spark_stomp.protocol.grammar import Grammar

# 0001-01-01 and 10000-01-01, in days since the epoch. Arrow has no text for all years of Spark.
_DAYS_WITH_TEXT = (-719_162, 2_932_897)
_LINE_OCTETS = {0: "NUL", 13: "CR", 10: "LF", 58: "a colon", 92: "a backslash"}


class Problem(NamedTuple):
    """Why a row cannot be sent, and the class of the error that says so."""

    error: type[SinkRowError]
    reason: str

    def __str__(self) -> str:
        return f"[{self.error.code}] {self.reason}"


class RowProblems(dict[int, Problem]):
    """The first problem of each row that has one, by the row's number in the slice."""

    def add(
        self,
        rows: Iterable[int],
        reason: str | Callable[[int], str],
        error: type[SinkRowError] = SinkRowError,
    ) -> None:
        """Note the same problem for several rows; ``reason`` may be a function of the row."""
        for row in map(int, rows):
            if row not in self:
                self[row] = Problem(error, reason if isinstance(reason, str) else reason(row))

    def add_flagged(
        self, flags: Flags, reason: str | Callable[[int], str], error: type[SinkRowError] = SinkRowError
    ) -> None:
        """The same for the rows that are flagged."""
        if flags.any():
            self.add(np.flatnonzero(flags), reason, error)


class HeaderText(NamedTuple):
    """What header lines of a version can carry.

    Attributes
    ----------
    escaped : octets that have an escape.
    forbidden : octets that cannot be in a value. A name has no colon either, unless that is escaped.
    """

    escaped: bytes
    forbidden: bytes

    @classmethod
    def of(cls, grammar: Grammar, *, unescaped: bool = False) -> HeaderText:
        """That of SEND frames; ``unescaped`` as in :class:`SendRules`."""
        escapes = {} if "SEND" in grammar.raw else grammar.escapes
        escaped = "".join(escapes).encode()
        needed = b"\0\r\n\\" if unescaped else b"\0\r\n"
        return cls(escaped, bytes(octet for octet in needed if octet not in escaped))

    def problem_of_name(self, name: bytes) -> str | None:
        """Why no header can be called so; None if one can."""
        octets = self.forbidden if b":" in self.escaped else self.forbidden + b":"
        bad = [what for octet, what in _LINE_OCTETS.items() if octet in octets and octet in name]
        return f"a name with {bad[0]}, for which this version of STOMP has no escape" if bad else None

    def check(
        self, values: pa.Array, rows: Ints | None, what: Callable[[int], str], problems: RowProblems
    ) -> None:
        """Note the values that no header can hold; nulls are none.

        Args:
            values: binary.
            rows: the row of each value; None if there is one a row.
            what: names the header of a value, by its index.
        """
        text, offsets = text_of(values)
        found = among(text, self.forbidden)
        if found is None:
            return
        for at in np.flatnonzero(found).tolist():
            index = int(np.searchsorted(offsets, at, "right")) - 1
            if values[index].is_valid:
                octet = _LINE_OCTETS[int(text[at])]
                reason = f"{what(index)} holds {octet}, which this version of STOMP cannot carry"
                problems.add([index if rows is None else int(rows[index])], reason, RowUnencodable)


def check_utf8(
    strings: pa.Array, rows: Ints | None, what: Callable[[int], str], problems: RowProblems
) -> pa.Array:
    """Note the strings that are not UTF-8; returns all as binary. Arguments as for HeaderText.check."""
    octets = as_binary(strings)
    if pa.types.is_string(strings.type) and not text_of(octets)[0].tobytes().isascii():
        try:
            strings.validate(full=True)
        except pa.ArrowInvalid:
            for index, value in enumerate(octets.to_pylist()):
                if value is not None and not is_utf8(value):
                    row = index if rows is None else int(rows[index])
                    problems.add([row], f"{what(index)} is not valid UTF-8", RowNotText)
    return octets


def as_binary(strings: pa.Array) -> pa.Array:
    """Strings or octets as octets, with 32-bit offsets."""
    if pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type):
        # A cast looks at the offsets, which may be large even if the slice is small; a copy begins at 0.
        strings = strings.take(pa.array(np.arange(len(strings))))
        strings = strings.cast(pa.binary())
    return pa.Array.from_buffers(pa.binary(), len(strings), strings.buffers(), offset=strings.offset)


def as_strings(column: pa.Array) -> pa.Array:
    """Strings or octets as strings that may not be UTF-8."""
    octets = as_binary(column)
    return pa.Array.from_buffers(pa.string(), len(octets), octets.buffers(), offset=octets.offset)


def as_text(column: pa.Array) -> pa.Array:
    """A column of a simple type as strings; strings and octets stay what they are."""
    kind = column.type
    octets = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if octets or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column
    return column.cast(pa.string())


def header_text(column: pa.Array) -> pa.Array:
    """The same for a header: times in UTC, whatever zone the session has; null beyond the years 1 to 9999."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_temporal(kind):
        first, end = (pa.scalar(day, pa.date32()).cast(column.type) for day in _DAYS_WITH_TEXT)
        told = pc.and_(pc.greater_equal(column, first), pc.less(column, end))
        column = pc.if_else(told, column, None)
    return as_text(column)


def is_utf8(octets: bytes) -> bool:
    """Whether they are text."""
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True
