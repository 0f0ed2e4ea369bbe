"""From the options of a sink and what its broker is to how rows become frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from spark_stomp.arrow import RowEncoder, SendRules, TimeToLive
from spark_stomp.brokers import Dialect
from spark_stomp.errors import UnsupportedError
from spark_stomp.logs import get_log
from spark_stomp.options import MessageOptions, SinkOptions
from spark_stomp.schema import SinkColumns

log = get_log(__name__)

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
# Destinations that were warned of in this process, so many at most; workers run many tasks.
_MOST_SAID = 20
_said: set[str] = set()


def row_encoder(options: SinkOptions, columns: SinkColumns, version: str, dialect: Dialect) -> RowEncoder:
    """The encoder of one task; ``version`` is that of its connection.

    Raises:
        UnsupportedError: this broker cannot do what the options or columns ask for.
        FrameEncodeError: this version cannot carry what the options say.
    """
    message, outgoing, limits = options.message, dialect.outgoing, options.connection.limits
    longest = outgoing.max_header_line or limits.max_header_line
    rules = SendRules(
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
    _warn((rules.destination, rules.dead_letter), dialect)
    return RowEncoder(columns, rules, on_topics=lambda topics: _warn_of(topics, dialect))


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


def _warn_of(topics: pa.Array, dialect: Dialect) -> None:
    if len(_said) < _MOST_SAID:
        _warn((topic.decode() for topic in topics.to_pylist()), dialect)


def _warn(destinations: Iterable[str | None], dialect: Dialect) -> None:
    """Say of which destinations messages may be lost although they are confirmed."""
    for destination in destinations:
        line = dialect.unrouted(destination) if destination else None
        if destination and line is not None and destination not in _said and len(_said) < _MOST_SAID:
            _said.add(destination)
            log.warning("%s", line)
