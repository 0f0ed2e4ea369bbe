"""Subscriptions that a broker has forgotten without a word: found by how many consumers it counts.

Goal: a query whose consumer is gone does not stand still for good (contract 4.13), and one whose consumer is
there keeps its connection.

Plan: a broker is believed if it counts fewer consumers of a queue than this query has there, in two answers
in a row, while nothing came by these subscriptions. It must have counted them once in this run, or count
messages now: some brokers have their statistics switched off. If connections are given up and bring nothing,
twice as many answers are needed each time: a machine may answer that has another queue of this name.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from spark_stomp.brokers.standing import QueueAnswer
from spark_stomp.quoting import counted, duration

# Answers in a row that count too few.
_ANSWERS: Final = 2
# What stands for several queues is not missing if there is none of them.
_SEVERAL: Final = re.compile(r"[*>,]")


@dataclass(slots=True)
class _Doubt:
    """Too few were counted ``since`` a time, in ``too_few`` answers, of the same ``subscriptions``."""

    subscriptions: Hashable
    since: float
    too_few: int = 1


class Forgotten:
    """Judges one answer after the other."""

    def __init__(self) -> None:
        self._counted: set[str] = set()
        self._doubts: dict[str, _Doubt] = {}
        # Answers that were needed last, and how much had been delivered by then.
        self._needed: dict[str, tuple[int, int]] = {}

    @property
    def doubts(self) -> bool:
        """Whether the next answer is wanted soon."""
        return bool(self._doubts)

    def forget(self, queue: str) -> None:
        """There is no answer, or no subscription that is old enough."""
        self._doubts.pop(queue, None)

    def counts_all(self, queue: str, answer: QueueAnswer) -> bool:
        """Whether the broker counts as many consumers as this query has, so that it can count. It may be
        asked as soon as a connection stands: this answer proves nothing but that."""
        if enough := (answer.standing.consumers or 0) >= answer.own:
            self._counted.add(queue)
        return enough

    def why(self, queue: str, answer: QueueAnswer, subscriptions: Hashable, delivered: int) -> str | None:
        """Why the subscriptions to ``queue`` are forgotten; None if that is not known.

        ``answer`` is to a question after they were confirmed. ``subscriptions`` equal the last ones if the
        connections are the same, and nothing came by them; ``delivered`` is how much came ever.
        """
        standing = answer.standing
        if (standing.is_there and standing.consumers is None) or (
            not standing.is_there and _SEVERAL.search(queue)
        ):
            self.forget(queue)
            return None
        if self.counts_all(queue, answer):
            self.forget(queue)
            return None
        if queue not in self._counted and not (standing.ready or standing.unacked):
            return None
        doubt = self._doubts.get(queue)
        if doubt is None or doubt.subscriptions != subscriptions:
            self._doubts[queue] = _Doubt(subscriptions, answer.asked_at)
            return None
        doubt.too_few += 1
        before, had = self._needed.get(queue, (0, -1))
        needed = 2 * before if delivered == had else _ANSWERS
        passed = answer.asked_at - doubt.since
        if doubt.too_few < needed or passed < answer.asks.settling:
            return None
        self._needed[queue] = needed, delivered
        self.forget(queue)
        return _text(queue, answer, f"in {doubt.too_few} answers within {duration(passed)}")


def _text(queue: str, answer: QueueAnswer, how_often: str) -> str:
    consumers = counted(answer.standing.consumers or 0, "consumer")
    has = f"counts {consumers} of {queue}" if answer.standing.is_there else f"has no {queue}"
    because = f". {answer.asks.forgets}" if answer.asks.forgets else ""
    return (
        f"the broker {has}, {how_often}, and this query has {counted(answer.own, 'subscription')} there: it "
        "has forgotten what it confirmed. What was ACKed since the last message may come again, and gives no "
        f"second row{because}"
    )
