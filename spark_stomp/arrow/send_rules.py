"""What the frames of a task of the sink have in common."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from spark_stomp.protocol import Limits
from spark_stomp.protocol.send_headers import ValueRule

Headers = tuple[tuple[str, str], ...]
OnRowError = Literal["fail", "drop", "deadletter"]


class TimeToLive(NamedTuple):
    """The header that says when a message expires.

    Attributes
    ----------
    header : its name.
    absolute : it counts from the epoch, else from now; in milliseconds.
    milliseconds : of every message; None if only the rows say it.
    """

    header: str
    absolute: bool
    milliseconds: int | None

    def after(self, now: float) -> int:
        """What is added to a time to live, at ``now`` in seconds since the epoch."""
        return round(now * 1000) if self.absolute else 0


@dataclass(frozen=True, kw_only=True)
class SendRules:
    """How rows become frames.

    If several of them give one header a value, a column of its own wins over the column ``headers``, that
    over ``headers`` here, and these over what a queue needs.

    Attributes
    ----------
    version : of STOMP, as the connection negotiated it.
    destination : wins over the rows' own; None leaves the choice to them.
    headers : of every message.
    topic_prefixes : destinations of rows that begin with one of these are told of.
    queue_prefixes, queue_headers : a destination that begins with one of the prefixes needs the headers.
    columns : columns whose values are headers, each with the name of its header.
    ttl : the header for the column ``ttl``; None if this broker has none, and nobody asks for it.
    dedup_key, dedup_header : a digest of these columns goes into this header; none without columns.
    left_out : names in the column ``headers`` that do not travel on.
    values : what rows may say in some headers, by columns or entries.
    text : bodies go out without content-length, by which some brokers know a text message.
    on_error, dead_letter : what becomes of a row that cannot be sent, and where it goes.
    limits : of the frames.
    unescaped : the broker unescapes headers of a version that has no escapes: none may have a backslash.
    most_messages, most_bytes : of a slice, about. One message always goes.
    """

    version: str
    destination: str | None = None
    headers: Headers = ()
    topic_prefixes: tuple[str, ...] = ()
    queue_prefixes: tuple[str, ...] = ()
    queue_headers: Headers = ()
    columns: Headers = (("content_type", "content-type"),)
    ttl: TimeToLive | None = None
    dedup_key: tuple[str, ...] = ()
    dedup_header: str = ""
    left_out: Container[str] = frozenset()
    values: tuple[ValueRule, ...] = ()
    text: bool = False
    on_error: OnRowError = "fail"
    dead_letter: str = ""
    limits: Limits = field(default_factory=Limits)
    unescaped: bool = False
    most_messages: int = 1_000
    most_bytes: int = 8 << 20

    def headers_to(self, destination: str) -> dict[str, str]:
        """The headers of every message to ``destination``."""
        needed = self.queue_headers if destination.startswith(self.queue_prefixes) else ()
        return dict(needed) | dict(self.headers)
