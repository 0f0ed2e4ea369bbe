"""The rules by which a task's rows become frames: from the options, the broker and the version of STOMP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.brokers import Dialect
from spark_stomp.brokers.destinations import BY_PREFIX, Naming
from spark_stomp.brokers.outgoing import NOTHING_KNOWN, Outgoing
from spark_stomp.columns import SinkColumns
from spark_stomp.errors import UnsupportedError
from spark_stomp.options import MessageOptions, SinkOptions
from spark_stomp.protocol import Limits
from spark_stomp.protocol.encoder import SEND_OWNS, refused_by
from spark_stomp.protocol.frames import HeaderPairs, grammar_of
from spark_stomp.quoting import quoted
from spark_stomp.sink.cells import Entries, as_binary

OnRowError = Literal["fail", "drop", "deadletter"]

# A slice has at most a fourth of receiptWindowBytes. The slice that waits for room is held besides the
# window: up to a fourth more memory.
_SLICES_IN_WINDOW = 4
# Bytes. The frames of a slice are one column, whose offsets have 32 bits, and escaping can double a header.
# An eighth of 2 GiB leaves room for both.
_LARGEST_SLICE = 256 << 20
# Dedicated columns and their headers. All brokers spell these alike.
_COLUMNS = {
    "content_type": "content-type",
    "persistent": "persistent",
    "priority": "priority",
    "correlation_id": "correlation-id",
    "reply_to": "reply-to",
}
# Left out of every SEND. A message without ``persistent`` is not persistent either, and RabbitMQ would take
# this for ``durable:false``, and delete the queue with its messages when the connection ends.
NOT_PERSISTENT = ("persistent", "false")


class TimeToLive(NamedTuple):
    """The header that says when a message expires.

    Attributes
    ----------
    header : its name.
    absolute : whether its value counts milliseconds from the epoch; else from now.
    milliseconds : the time to live of every message; None if only rows can set it.
    """

    header: str
    absolute: bool
    milliseconds: int | None

    def after(self, now: float) -> int:
        """Milliseconds to add to a time to live in the header; ``now`` is in seconds since the epoch."""
        return round(now * 1000) if self.absolute else 0


@dataclass(frozen=True, kw_only=True)
class SendRules:
    """How rows become frames.

    Several sources can set one header. A dedicated column wins over the column ``headers``, which wins over
    ``headers`` of these rules, which wins over ``queue_headers``.

    Attributes
    ----------
    version : the version of STOMP that the connection speaks.
    destination : where all rows go; None leaves the choice to the column ``destination``.
    headers : headers of every message.
    naming : which destinations are queues, and which are topics.
    queue_headers : headers that a destination needs that is known to be a queue.
    columns : dedicated columns, each with the header that it sets.
    ttl : the header that the column ``ttl`` sets; None if this broker has no such header.
    dedup_key, dedup_header : a digest of the columns goes into the header. There is none without columns.
    outgoing : how the broker treats a SEND.
    text : whether bodies are sent without content-length, which tells some brokers that they are text.
    on_error, dead_letter : what becomes of a row that cannot be sent, and where dead letters go.
    limits : the largest sizes of a frame and its parts.
    unescaped : whether the broker unescapes headers although this version of STOMP has no escapes. Then no
        header may have a backslash.
    most_messages, most_bytes : approximate bounds of a slice, which always has at least one message.
    """

    version: str
    destination: str | None = None
    headers: HeaderPairs = ()
    naming: Naming = BY_PREFIX
    queue_headers: HeaderPairs = ()
    columns: HeaderPairs = (("content_type", "content-type"),)
    ttl: TimeToLive | None = None
    dedup_key: tuple[str, ...] = ()
    dedup_header: str = ""
    outgoing: Outgoing = NOTHING_KNOWN
    text: bool = False
    on_error: OnRowError = "fail"
    dead_letter: str = ""
    limits: Limits = field(default_factory=Limits)
    unescaped: bool = False
    # send_rules takes these two from options. The defaults are for tests.
    most_messages: int = 1_000
    most_bytes: int = 8 << 20

    @cached_property
    def fields(self) -> frozenset[str]:
        """The names of all headers that options or dedicated columns set, or whose values are checked."""
        columns = (header for _, header in self.columns)
        ttl = () if self.ttl is None else (self.ttl.header,)
        dedup = (self.dedup_header,) if self.dedup_key else ()
        checked = (rule.header for rule in self.outgoing.values if rule.header != "destination")
        return frozenset((*dict(self.queue_headers), *dict(self.headers), *columns, *ttl, *dedup, *checked))

    def defaults(self, now: float, *, to_queue: bool) -> dict[str, str]:
        """The headers of a message whose row sets none; ``now`` is in seconds since the epoch."""
        headers = (dict(self.queue_headers) if to_queue else {}) | dict(self.headers)
        if self.ttl is not None and self.ttl.milliseconds is not None:
            headers.setdefault(self.ttl.header, str(self.ttl.after(now) + self.ttl.milliseconds))
        return headers

    def needs_queue_headers(self, destination: str) -> bool:
        """Whether this destination needs ``queue_headers``."""
        return self.naming.is_short_queue_name(destination)

    def entries(self, cells: Mapping[str, pa.Array]) -> Entries | None:
        """The entries of the column ``headers``, as this broker understands them; None without the column."""
        if "headers" not in cells:
            return None
        entries = Entries.of(cells["headers"])
        if self.outgoing.reply_name:
            entries = entries.replaced(b"reply-to", self.outgoing.reply_name, r"\1")
        if self.outgoing.body_claim is not None:
            name, value, begin = self.outgoing.body_claim
            others = pc.invert(pc.starts_with(as_binary(cells["body"]), begin)).fill_null(True)
            entries = entries.without(name.encode(), value.encode(), others)
        return entries

    def is_left_out(self, name: str) -> bool:
        """Whether an entry of this name in the column ``headers`` is not sent.

        Such entries describe the message that was read, command the broker, or are set by the connector.
        """
        return name in self.outgoing.left_out or name.lower() in SEND_OWNS

    def problem(self, name: str, value: str) -> str | None:
        """Why the broker does not accept this header; None if it does."""
        longest = self.outgoing.max_header_name
        if len(name.encode(errors="replace")) > longest:
            return f"header name {quoted(name, 40)} has more than {longest} bytes"
        rule = refused_by(self.outgoing.values, name, value)
        return None if rule is None else f"{name} is {quoted(value, 40)}, and must {rule.says}"


def send_rules(options: SinkOptions, columns: SinkColumns, version: str, dialect: Dialect) -> SendRules:
    """The rules of one task.

    Args:
        version: the version of STOMP that the task's connection speaks.
        dialect: the dialect of the broker.

    Raises:
        UnsupportedError: this broker cannot do what the options or columns ask for.
    """
    rules = _rules(options, columns, version, dialect)
    for header in rules.headers:
        if (problem := rules.problem(*header)) is not None:
            raise UnsupportedError(
                f"sendHeaders cannot go to this broker ({dialect.name}): {problem}. Change that header, or "
                "leave it out"
            )
    for key, one in (("destination", rules.destination), ("deadLetterDestination", rules.dead_letter)):
        if one and (problem := rules.problem("destination", one)) is not None:
            raise UnsupportedError(f"{key} cannot go to this broker ({dialect.name}): {problem}")
    return rules


def _rules(options: SinkOptions, columns: SinkColumns, version: str, dialect: Dialect) -> SendRules:
    message, outgoing, limits = options.message, dialect.outgoing, options.connection.limits
    headers = _same_for_all(message) | dict(options.send_headers)
    return SendRules(
        version=version,
        destination=options.destination,
        headers=tuple(pair for pair in headers.items() if pair != NOT_PERSISTENT),
        naming=dialect.naming,
        queue_headers=dialect.queue_headers,
        columns=(*_COLUMNS.items(), *((name, name) for name in message.header_columns or ())),
        ttl=_time_to_live(message, columns, dialect),
        dedup_key=message.dedup_key or (),
        dedup_header=message.dedup_header or outgoing.dedup_header,
        outgoing=outgoing,
        text=outgoing.text_without_length and _is_text(message, columns),
        on_error=message.on_error,
        dead_letter=message.dead_letter_destination or "",
        limits=replace(limits, max_header_line=min(limits.max_header_line, outgoing.max_header_line)),
        unescaped=outgoing.unescapes_always and not grammar_of(version).escapes,
        most_messages=options.receipt_window,
        most_bytes=min(max(1, options.receipt_window_bytes // _SLICES_IN_WINDOW), _LARGEST_SLICE),
    )


def _same_for_all(message: MessageOptions) -> dict[str, str]:
    headers = {
        "persistent": None if message.persistent == "unset" else message.persistent,
        "priority": None if message.priority is None else str(message.priority),
    }
    return {name: value for name, value in headers.items() if value is not None}


def _time_to_live(message: MessageOptions, columns: SinkColumns, dialect: Dialect) -> TimeToLive | None:
    absolute, relative = dialect.outgoing.expires_header, dialect.outgoing.ttl_header
    milliseconds = None if message.ttl is None else max(1, round(message.ttl * 1000))
    header = absolute or relative
    if relative is not None and milliseconds is not None:
        rule = refused_by(dialect.outgoing.values, relative, str(milliseconds))
        if rule is not None:
            raise UnsupportedError(
                f"ttl cannot go to this broker ({dialect.name}): it is {milliseconds} ms, and must "
                f"{rule.says}"
            )
    if header is not None:
        return TimeToLive(header, absolute is not None, milliseconds)
    if milliseconds is None and "ttl" not in columns.columns:
        return None
    raise UnsupportedError(
        f"ttl is given, but it is not known how a message expires on this broker ({dialect.name}). Say which "
        "broker it is with the option broker, or set the broker's header in sendHeaders"
    )


def _is_text(message: MessageOptions, columns: SinkColumns) -> bool:
    if message.message_type == "auto":
        return columns.body_as_string
    return message.message_type == "text"
