"""What brokers tell of a queue: the questions of each kind of broker, and what its answers mean.

Nothing here opens a connection: ``transport.standing`` sends the questions and collects the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias

from spark_stomp.errors import UnsupportedError
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.quoting import counted

PASSING: Final = "a queue that goes with its messages when nobody reads it (auto-delete)"


class TellsNothing(UnsupportedError):
    """The broker tells nothing of any queue."""


class LoginNotAccepted(UnsupportedError):
    """The broker does not tell it, because it refuses the login of the question."""


@dataclass(frozen=True)
class Standing:
    """What a broker tells of a queue.

    - ``is_there``: whether it has the queue.
    - ``ready``, ``unacked``, ``consumers``: messages that wait, messages that consumers have, and how many
      consumers there are; None if there is no queue, or it is so new that the broker does not know.
    - ``alarm``: why the broker takes no messages for it; None if nothing is known.
    - ``scheduled``: messages that it has, and gives to nobody before their time: those of a delayed retry,
      too. They are not ``ready``.
    - ``wanted``: how many of those that are ready the selector may want; None without one.
    - ``passing``: whether the broker deletes it once it is empty and nobody reads it.
    - ``forgetful``: what kind of queue it is, if messages that come back to it may be deleted; else empty.
    """

    is_there: bool
    ready: int | None = None
    unacked: int | None = None
    consumers: int | None = None
    alarm: str | None = None
    scheduled: int = 0
    wanted: int | None = None
    passing: bool = False
    forgetful: str = ""

    def __str__(self) -> str:
        if not self.is_there:
            return "there is no such queue"
        if self.ready is None or self.unacked is None or self.consumers is None:
            return "is there, and its figures are not known yet"
        waits = "message waits" if self.ready == 1 else "messages wait"
        later = f", {self.scheduled:,} scheduled for later" if self.scheduled else ""
        forgetful = f", {self.forgetful}" if self.forgetful else ""
        readers = counted(self.consumers, "consumer")
        return f"{self.ready:,} {waits}{later}, {self.unacked:,} un-acked, {readers}{forgetful}"

    @property
    def withheld(self) -> int:
        """How many messages wait for a consumer that has nothing of the queue, and should get them."""
        return self.wanted if self.wanted is not None else self.ready or 0


class Question(NamedTuple):
    """A SEND that asks."""

    destination: str
    headers: HeaderPairs = ()
    body: bytes = b""


class HttpAnswer(NamedTuple):
    """What a server of HTTP answers to a GET."""

    status: int
    content: bytes


StompAnswers: TypeAlias = Mapping[str, Sequence[bytes]]
"""Bodies of the answers, by the names of the questions."""
HttpAnswers: TypeAlias = Mapping[str, HttpAnswer]
"""Answers by the names of the paths."""


@dataclass(frozen=True)
class ByStomp:
    """Questions over STOMP. The broker answers in order, and always the last one.

    Attributes:
        replies: headers of the SUBSCRIBE that gets the answers, its destination first.
        questions: what to ask of a queue, by names, with a selector or None. Raises UnsupportedError if the
            broker does not tell it of this one.
        standing: what the answers mean, with or without a selector. Raises ValueError, LookupError, TypeError
            or AttributeError if they are not understood.
        only: what is missing if the last question has no answer.
    """

    replies: HeaderPairs
    questions: Callable[[str, str | None], Mapping[str, Question]]
    standing: Callable[[StompAnswers, str | None], Standing]
    only: str


@dataclass(frozen=True)
class ByHttp:
    """Questions over HTTP, to ``managementUrl``.

    Attributes:
        paths: what to GET of a virtual host and a queue, by names.
        accepted: the other statuses that are an answer too, beside 200, by these names.
        standing: what the answers mean; raises what it raises in :class:`ByStomp`, and UnsupportedError.
        only: why nothing can be asked without ``managementUrl``.
        refused: what any other status means.
    """

    paths: Callable[[str, str], Mapping[str, str]]
    accepted: Mapping[str, HTTPStatus]
    standing: Callable[[HttpAnswers], Standing]
    only: str
    refused: Callable[[int], str]


@dataclass(frozen=True)
class Asks:
    """How one kind of broker is asked about a queue, and what its figures mean.

    Attributes:
        by: how; None if that is not known.
        settling: seconds after which the figures are those of now.
        withheld: why it may give none of the messages that wait to a consumer that has nothing: a clause.
        unselected: why the selector may be the cause; empty if it cannot be.
        forgets: why it may forget a subscription; empty if nothing is known.
        trial_topic: the beginning of a topic to which a message may be sent to see whether the broker takes
            messages, and of which nothing is left; None if producers find out by themselves.
    """

    by: ByStomp | ByHttp | None = None
    settling: float = 1.0
    withheld: str = "the queue is paused, or another consumer has it for itself"
    unselected: str = ""
    forgets: str = ""
    trial_topic: str | None = None

    def why_withheld(self, selector: str | None) -> str:
        """Why the broker may give none of the messages that wait to a consumer that has nothing: a clause."""
        of_selector = f"{self.unselected}; or " if self.unselected and selector is not None else ""
        return of_selector + self.withheld


@dataclass(frozen=True)
class QueueAnswer:
    """What the broker told of a queue at ``at`` (seconds since 1970; ``asked_at``: monotonic).

    ``own`` is how many of its consumers are those of the query that asked, ``asks`` the broker's.
    """

    standing: Standing
    at: float
    asked_at: float
    own: int
    asks: Asks


def waits(standings: Iterable[Standing], own: int) -> str:
    """What such queues mean for a query that has ``own`` consumers there, and has nothing of them."""
    every = [*standings]
    ready = sum(one.ready or 0 for one in every)
    unacked = sum(one.unacked or 0 for one in every)
    others = max(0, sum(one.consumers or 0 for one in every) - own)
    here = f"{ready:,} wait there"
    if later := sum(one.scheduled for one in every):
        here += f", {later:,} are scheduled for later"
    text = f"{here}, {counted(others, 'other consumer')}"
    if unacked and not others:
        text = f"{here}, and {unacked:,} that it gave to this query have not come"
    return "; ".join([text, *dict.fromkeys(one.alarm for one in every if one.alarm)])
