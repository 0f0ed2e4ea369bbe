"""Rules for the headers of SEND frames, beyond those of STOMP: sets of names, and values that are sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class HeaderNames:
    """A set of header names: ``name in names``.

    Attributes
    ----------
    names : the names, in lower case if ``any_case``.
    prefixes : all names that begin with one of these; in lower case, too.
    but : these are not in it.
    any_case : names that differ only in case are the same.
    """

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    but: frozenset[str] = frozenset()
    any_case: bool = False

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name in self.but:
            return False
        folded = name.lower() if self.any_case else name
        return folded in self.names or folded.startswith(self.prefixes)


class ValueRule(NamedTuple):
    """What values of one header a broker takes.

    Attributes
    ----------
    header : its name.
    pattern : regular expression for the octets of a whole value, in what RE2 and Python have in common.
    says : what a value must be, as it stands after "must".
    allowed : whether values that match are those to be sent, or those to be refused.
    """

    header: str
    pattern: str
    says: str
    allowed: bool = True

    def allows(self, value: bytes) -> bool:
        return (re.fullmatch(self.pattern.encode(), value) is not None) is self.allowed
