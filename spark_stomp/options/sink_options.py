"""Options of stream writes and batch writes, and of the messages that they send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_stomp.options.connection_options import ConnectionOptions, ReconnectOptions
from spark_stomp.options.fields import SINK, group
from spark_stomp.options.kinds import (
    FILE,
    HEADERS,
    NAME,
    SIZE,
    TIMEOUT,
    choice,
    integer,
    name_list,
)
from spark_stomp.protocol.frames import HeaderPairs


@dataclass(frozen=True, kw_only=True)
class MessageOptions:
    """What the messages are like, and what becomes of a row that cannot be sent.

    ``ttl`` is in seconds. ``header_columns`` and ``dedup_key`` name columns. Without ``dedup_header``, the
    dialect names the header.
    """

    persistent: Literal["true", "false", "unset"] = SINK.option(
        "persistent",
        choice("true", "false", "unset"),
        "true",
        "Whether the broker keeps messages when it restarts. With `false` and `unset` they have no such "
        "header. The column `persistent` wins.",
    )
    priority: int | None = SINK.optional(
        "priority", integer(0, 9), "Priority of every message. The column `priority` wins."
    )
    ttl: float | None = SINK.optional(
        "ttl",
        TIMEOUT,
        "How long a message lives from when it is sent; then the broker discards it. The column `ttl` wins.",
        note="unlimited",
    )
    message_type: Literal["auto", "bytes", "text"] = SINK.option(
        "messageType",
        choice("auto", "bytes", "text"),
        "auto",
        "What a JMS client of ActiveMQ or Artemis gets: a BytesMessage or a TextMessage. `auto` makes text "
        "of `body string` and bytes of `body binary`. Other brokers make no difference.",
    )
    header_columns: tuple[str, ...] | None = SINK.optional(
        "headerColumns",
        name_list,
        "More columns whose values are headers with the columns' names. A null leaves its header out.",
    )
    on_error: Literal["fail", "drop", "deadletter"] = SINK.option(
        "onError",
        choice("fail", "drop", "deadletter"),
        "fail",
        "What happens to a row that cannot be sent: it fails the query, is left out and counted, or goes to "
        "`deadLetterDestination`.",
    )
    dead_letter_destination: str | None = SINK.optional(
        "deadLetterDestination", NAME, "Destination of rows that cannot be sent, with `onError=deadletter`."
    )
    dedup_key: tuple[str, ...] | None = SINK.optional(
        "dedupKey",
        name_list,
        "Column, or JSON list of columns, that identify a row. A digest of them goes into `dedupHeader`, so "
        "that a row that is sent again can be recognised.",
        note="no such header",
    )
    dedup_header: str | None = SINK.optional(
        "dedupHeader",
        NAME,
        "Name of the header for `dedupKey`.",
        note="`_AMQ_DUPL_ID` on Artemis, else `dedup-id`",
    )


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Options of a stream writer or a batch writer; timeouts in seconds.

    Without ``destination``, the column ``destination`` says where a row goes. ``notes`` are sentences to
    log once.
    """

    connection: ConnectionOptions = group(ConnectionOptions)
    destination: str | None = SINK.optional(
        "destination",
        NAME,
        "Destination of every message. Wins over the column `destination`.",
        note="the column",
    )
    send_headers: HeaderPairs = SINK.option(
        "sendHeaders", HEADERS, "{}", "Headers of every SEND. The column `headers` wins."
    )
    # With the defaults of these two, a task sent persistent messages of 235 bytes as fast as a bare socket
    # without a window: 0.98 of it to RabbitMQ, 0.96 to ActiveMQ, 1.02 to Artemis (RESULTS.md, November 2026).
    receipt_window: int = SINK.option(
        "receiptWindow",
        integer(1),
        "1000",
        "Most messages that a task has sent and the broker has not confirmed.",
    )
    receipt_window_bytes: int = SINK.option(
        "receiptWindowBytes",
        SIZE,
        "16m",
        "Most bytes of messages that a task has sent and the broker has not confirmed. The task keeps them "
        "in memory, to send them again. A larger message is sent alone.",
    )
    # These timeouts are judgements, not measured. A memory or disk alarm may block a broker for minutes.
    receipt_timeout: float = SINK.option(
        "receiptTimeout",
        TIMEOUT,
        "30s",
        "A broker that sends no receipt and takes no bytes for this time counts as blocked. The log says so.",
    )
    blocked_timeout: float = SINK.option(
        "blockedTimeout",
        TIMEOUT,
        "5m",
        "How long a task waits for a blocked broker, after `receiptTimeout`, before it fails.",
    )
    reconnect: ReconnectOptions = group(ReconnectOptions)
    checkpoint_location: str | None = SINK.optional(
        "checkpointLocation",
        NAME,
        "Spark's option: the query's checkpoint. The sink's status is below it.",
        in_repr=False,
    )
    query_name: str | None = SINK.optional(
        "queryName", NAME, "Spark's option: the name of the query in the status.", in_repr=False
    )
    status_file: str | None = SINK.optional(
        "statusFile",
        FILE,
        "The query's status file: a path or URI. Give source and sink the same one.",
        note="`spark_stomp/status.json` under `checkpointLocation`, if that is set",
        in_repr=False,
    )
    message: MessageOptions = group(MessageOptions)
    notes: tuple[str, ...]
