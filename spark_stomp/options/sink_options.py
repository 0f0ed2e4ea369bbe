"""Options of stream writes and batch writes, and of the messages that they send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_stomp.options.connection_options import ConnectionOptions
from spark_stomp.options.fields import SINK, group
from spark_stomp.options.kinds import (
    BOOLEAN,
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
    """What a message is like, and what becomes of a row that cannot be one; ``ttl`` in seconds.

    ``header_columns`` and ``dedup_key`` name columns. ``dedup_header`` None leaves the name to the
    dialect.
    """

    persistent: bool = SINK.option(
        "persistent",
        BOOLEAN,
        "true",
        "Whether the broker is to keep messages over its own restart. The column `persistent` wins.",
    )
    priority: int | None = SINK.optional(
        "priority", integer(0, 9), "Priority of every message. The column `priority` wins."
    )
    ttl: float | None = SINK.optional(
        "ttl",
        TIMEOUT,
        "How long a message is worth delivering, from when it is sent; then the broker discards it. The "
        "column `ttl` wins.",
        note="unlimited",
    )
    message_type: Literal["auto", "bytes", "text"] = SINK.option(
        "messageType",
        choice("auto", "bytes", "text"),
        "auto",
        "What a JMS client of ActiveMQ or Artemis gets: a BytesMessage or a TextMessage. `auto` makes text "
        "of `body string` and bytes of `body binary`. Other brokers know no difference.",
    )
    header_columns: tuple[str, ...] | None = SINK.optional(
        "headerColumns",
        name_list,
        "Further columns whose values are headers of the same names. A null leaves its header out.",
    )
    on_error: Literal["fail", "drop", "deadletter"] = SINK.option(
        "onError",
        choice("fail", "drop", "deadletter"),
        "fail",
        "What a row that cannot be sent does: fail the query, be left out and counted, or go to "
        "`deadLetterDestination`.",
    )
    dead_letter_destination: str | None = SINK.optional(
        "deadLetterDestination", NAME, "Where `onError=deadletter` sends such rows."
    )
    dedup_key: tuple[str, ...] | None = SINK.optional(
        "dedupKey",
        name_list,
        "Column, or JSON list of columns, that identify a row. A digest of them goes into `dedupHeader`, by "
        "which a row that is sent again can be recognised.",
        note="no such header",
    )
    dedup_header: str | None = SINK.optional(
        "dedupHeader", NAME, "Name of that header.", note="`_AMQ_DUPL_ID` on Artemis, else `dedup-id`"
    )


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Options of a stream writer or a batch writer; timeouts in seconds.

    ``destination`` None leaves the choice to the rows' own column. ``notes`` are sentences to be logged once.
    """

    connection: ConnectionOptions = group(ConnectionOptions)
    destination: str | None = SINK.optional(
        "destination", NAME, "Where to send every row. Wins over the column.", note="the column"
    )
    send_headers: HeaderPairs = SINK.option(
        "sendHeaders", HEADERS, "{}", "Headers of every SEND. The row's own `headers` win."
    )
    receipt_window: int = SINK.option(
        "receiptWindow", integer(1), "1000", "Messages that a task sends ahead of the broker's receipts."
    )
    receipt_window_bytes: int = SINK.option(
        "receiptWindowBytes",
        SIZE,
        "16m",
        "Bytes that a task sends ahead of the broker's receipts, and keeps to send them again. A larger "
        "message goes alone.",
    )
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
        "How long a blocked broker is waited for, after `receiptTimeout`; then the task fails.",
    )
    reconnect_timeout: float = SINK.option(
        "reconnectTimeout",
        TIMEOUT,
        "5m",
        "How long a task tries a lost connection again before it fails. What was not confirmed is sent "
        "again.",
    )
    checkpoint_location: str | None = SINK.optional(
        "checkpointLocation",
        NAME,
        "Spark's own: the query's checkpoint. The status of the sink lies under it.",
        in_repr=False,
    )
    query_name: str | None = SINK.optional(
        "queryName", NAME, "Spark's own: what the status calls the query.", in_repr=False
    )
    status_file: str | None = SINK.optional(
        "statusFile",
        FILE,
        "The status file of the query: a path or URI. Give source and sink the same.",
        note="`spark_stomp/status.json` under `checkpointLocation`, if that is set",
        in_repr=False,
    )
    message: MessageOptions = group(MessageOptions)
    notes: tuple[str, ...]
