"""How the rows of a task become SEND frames: what options say, and what the broker and its version allow."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from spark_stomp.brokers import Dialect
from spark_stomp.columns import SinkColumns
from spark_stomp.errors import UnsupportedError
from spark_stomp.options import MessageOptions, SinkOptions
from spark_stomp.protocol import Limits
from spark_stomp.protocol.encoder import SEND_OWNS, ValueRule

Headers = tuple[tuple[str, str], ...]
OnRowError = Literal["fail", "drop", "deadletter"]

# So that the slice that waits for room adds little to what the window holds.
_SLICES_IN_WINDOW = 4
# The frames of a slice are one column, and its offsets have 32 bits; escapes make a header twice as long.
_LARGEST_SLICE = 256 << 20
# Columns that are headers, and how all brokers spell these.
_COLUMNS = {
    "content_type": "content-type",
    "persistent": "persistent",
    "priority": "priority",
    "correlation_id": "correlation-id",
    "reply_to": "reply-to",
}


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
    topic_prefixes : destinations of rows that begin with one of these are reported.
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

    @cached_property
    def fields(self) -> frozenset[str]:
        """The headers that options, columns of their own or brokers have something to say of."""
        columns = (header for _, header in self.columns)
        ttl = () if self.ttl is None else (self.ttl.header,)
        dedup = (self.dedup_header,) if self.dedup_key else ()
        checked = (rule.header for rule in self.values)
        return frozenset((*dict(self.queue_headers), *dict(self.headers), *columns, *ttl, *dedup, *checked))

    def defaults(self, now: float, *, to_queue: bool) -> dict[str, str]:
        """The headers of a message whose row says nothing; ``now`` in seconds since the epoch."""
        headers = (dict(self.queue_headers) if to_queue else {}) | dict(self.headers)
        if self.ttl is not None and self.ttl.milliseconds is not None:
            headers.setdefault(self.ttl.header, str(self.ttl.after(now) + self.ttl.milliseconds))
        return headers

    def is_queue(self, destination: str) -> bool:
        """Whether it needs ``queue_headers``."""
        return destination.startswith(self.queue_prefixes)

    def is_left_out(self, name: str) -> bool:
        """Whether an entry of this name says nothing about a new message."""
        return name in self.left_out or name.lower() in SEND_OWNS


def send_rules(options: SinkOptions, columns: SinkColumns, version: str, dialect: Dialect) -> SendRules:
    """Those of one task; ``version`` is that of its connection.

    Raises:
        UnsupportedError: this broker cannot do what the options or columns ask for.
    """
    message, outgoing, limits = options.message, dialect.outgoing, options.connection.limits
    longest = outgoing.max_header_line or limits.max_header_line
    return SendRules(
        version=version,
        destination=options.destination,
        headers=tuple((_same_for_all(message) | dict(options.send_headers)).items()),
        topic_prefixes=dialect.topic_prefixes,
        queue_prefixes=dialect.queue_prefixes,
        queue_headers=dialect.queue_send_headers,
        columns=(*_COLUMNS.items(), *((name, name) for name in message.header_columns or ())),
        ttl=_time_to_live(message, columns, dialect),
        dedup_key=message.dedup_key or (),
        dedup_header=message.dedup_header or outgoing.dedup_header,
        left_out=outgoing.left_out,
        values=outgoing.values,
        text=outgoing.text_without_length and _is_text(message, columns),
        on_error=message.on_error,
        dead_letter=message.dead_letter_destination or "",
        limits=replace(limits, max_header_line=min(limits.max_header_line, longest)),
        unescaped=outgoing.unescapes_always and version == "1.0",
        most_messages=options.receipt_window,
        most_bytes=min(max(1, options.receipt_window_bytes // _SLICES_IN_WINDOW), _LARGEST_SLICE),
    )


def _same_for_all(message: MessageOptions) -> dict[str, str]:
    headers = {
        "persistent": "true" if message.persistent else "false",
        "priority": None if message.priority is None else str(message.priority),
    }
    return {name: value for name, value in headers.items() if value is not None}


def _time_to_live(message: MessageOptions, columns: SinkColumns, dialect: Dialect) -> TimeToLive | None:
    absolute, relative = dialect.outgoing.expires_header, dialect.outgoing.ttl_header
    milliseconds = None if message.ttl is None else max(1, round(message.ttl * 1000))
    header = absolute or relative
    if header is not None:
        return TimeToLive(header, absolute is not None, milliseconds)
    if milliseconds is None and "ttl" not in columns.columns:
        return None
    raise UnsupportedError(
        f"ttl is given, but how a message expires on this broker ({dialect.name}) is not known. Say which "
        "broker it is with the option broker, or give its own header in sendHeaders"
    )


def _is_text(message: MessageOptions, columns: SinkColumns) -> bool:
    if message.message_type == "auto":
        return columns.body_as_string
    return message.message_type == "text"
