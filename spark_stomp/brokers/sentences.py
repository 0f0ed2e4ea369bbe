"""What a broker's ERROR means: its sentences, each with a verdict.

An ERROR does not say whether the same request may succeed later. Brokers word that freely, and a sentence
that is taken for a refusal although it passes ends a query, or drops a row. So only a sentence that is known
to stay refuses anything. CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias

from spark_stomp.errors import Verdict

Hide: TypeAlias = Callable[[str], str]
"""Removes secrets from what is quoted."""
Remedy: TypeAlias = Callable[[str, str, Hide], str]
"""What to do about an ERROR with a text, in answer to a request that is named, and is empty only if it may
be a SEND."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of a broker.

    Attributes:
        verdict: what it means.
        pattern: a regular expression for the ``message`` header, " - " and the body, on one line, with
            ``''`` in place of what they quote.
        said: the sentence as it was seen.
        when: when the broker says it.
        unasked: it ends a subscription that was confirmed before. So it answers no request.
        remedy: what to do; empty if that is not known.
    """

    verdict: Verdict
    pattern: str
    said: str
    when: str
    unasked: bool = False
    remedy: str | Remedy = ""

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def advice(self, text: str, what: str, hide: Hide) -> str:
        """What to do about an ERROR that says it, as :data:`Remedy`."""
        return self.remedy if isinstance(self.remedy, str) else self.remedy(text, what, hide)


# One of each verdict, without it.
passes = partial(Sentence, "passes")
either = partial(Sentence, "either")
of_message = partial(Sentence, "message")
stays = partial(Sentence, "stays")

# If two are there, waiting for nothing costs less than a lost row.
_ORDER: tuple[Verdict, ...] = ("passes", "either", "message", "stays")


def meaning(sentences: Iterable[Sentence], says: Callable[[re.Pattern[str]], bool]) -> Sentence | None:
    """The sentence that an ERROR ``says``; None if it is not known."""
    found = [one for one in sentences if says(one.compiled)]
    return min(found, key=lambda one: _ORDER.index(one.verdict), default=None)
