"""Options of stream writes and batch writes, and of the messages that they send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from spark_stomp.options.connection_options import ConnectionOptions, ReconnectOptions
from spark_stomp.options.fields import SINK, group
from spark_stomp.options.kinds import FILE, HEADERS, NAME, SIZE, TIMEOUT, choice, integer, name_list
from spark_stomp.protocol.frames import HeaderPairs


@dataclass(frozen=True, kw_only=True)
class MessageOptions:
    """What the messages are like, and what becomes of a row that cannot be sent.

    ``ttl`` is in seconds. ``header_columns`` and ``dedup_key`` name columns. Without ``dedup_header``, the
    dialect names the header.
    """

    persistent: Literal["true", "false", "unset"] = SINK.option(
        "persistent", choice("true", "false", "unset"), "true"
    )
    """Whether the broker keeps messages when it restarts; `false` and `unset` send no such header."""
    priority: int | None = SINK.optional("priority", integer(0, 9))
    """Priority of every message."""
    ttl: float | None = SINK.optional("ttl", TIMEOUT, note="unlimited")
    """How long a message lives; then the broker discards it."""
    message_type: Literal["auto", "bytes", "text"] = SINK.option(
        "messageType", choice("auto", "bytes", "text"), "auto"
    )
    """What JMS clients of ActiveMQ and Artemis get. `auto`: text of `body string`, bytes of `body binary`."""
    header_columns: tuple[str, ...] | None = SINK.optional("headerColumns", name_list)
    """Columns whose values become headers of the same name; a null sends none."""
    on_error: Literal["fail", "drop", "deadletter"] = SINK.option(
        "onError", choice("fail", "drop", "deadletter"), "fail"
    )
    """Whether a row that cannot be sent fails the query, is left out and counted, or goes to
    `deadLetterDestination`."""
    dead_letter_destination: str | None = SINK.optional("deadLetterDestination", NAME)
    """Where rows that cannot be sent go, with `onError=deadletter`."""
    dedup_key: tuple[str, ...] | None = SINK.optional("dedupKey", name_list, note="no such header")
    """Columns that identify a row; a digest of them goes into `dedupHeader`."""
    dedup_header: str | None = SINK.optional(
        "dedupHeader", NAME, note="`_AMQ_DUPL_ID` on Artemis, else `dedup-id`"
    )
    """Name of the header for `dedupKey`."""


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Options of a stream writer or a batch writer; timeouts in seconds.

    Without ``destination``, the column ``destination`` says where a row goes. ``notes`` are sentences to
    log once.
    """

    connection: ConnectionOptions = group(ConnectionOptions)
    destination: str | None = SINK.optional("destination", NAME, note="the column")
    """Destination of every message; wins over the column."""
    send_headers: HeaderPairs = SINK.option("sendHeaders", HEADERS, "{}")
    """Headers of every SEND."""
    # With the defaults of these two, a task sent persistent messages of 235 bytes as fast as a bare socket
    # without a window: 0.98 of it to RabbitMQ, 0.96 to ActiveMQ, 1.02 to Artemis (November 2026).
    receipt_window: int = SINK.option("receiptWindow", integer(1), "1000")
    """Most messages that a task has sent and the broker has not confirmed."""
    receipt_window_bytes: int = SINK.option("receiptWindowBytes", SIZE, "16m")
    """Most bytes of such messages. The task holds them in memory; a larger message is sent alone."""
    # A memory or disk alarm may block a broker for minutes.
    receipt_timeout: float = SINK.option("receiptTimeout", TIMEOUT, "30s")
    """After this time without a receipt or taken bytes a broker counts as blocked, the log says so, and a
    task tries each other address of `url` once."""
    blocked_timeout: float = SINK.option("blockedTimeout", TIMEOUT, "5m")
    """How long a task waits for a blocked broker before it fails."""
    reconnect: ReconnectOptions = group(ReconnectOptions)
    checkpoint_location: str | None = SINK.optional("checkpointLocation", NAME, in_repr=False)
    """Spark's option; the sink's status is below it."""
    query_name: str | None = SINK.optional("queryName", NAME, in_repr=False)
    """Spark's option; the query's name in the status."""
    status_file: str | None = SINK.optional(
        "statusFile", FILE, note="`spark_stomp/status.json` below `checkpointLocation`", in_repr=False
    )
    """The status file, the same as the source's."""
    message: MessageOptions = group(MessageOptions)
    notes: tuple[str, ...]
    given_texts: tuple[tuple[str, str | None], ...] = field(repr=False)
