"""Options of stream writes and batch writes."""

from __future__ import annotations

from dataclasses import dataclass

from spark_stomp.options.connection_options import ConnectionOptions
from spark_stomp.options.fields import SINK, group, option, optional
from spark_stomp.options.kinds import FILE, HEADERS, NAME, SIZE, TIMEOUT, Headers, integer
from spark_stomp.options.message_options import MessageOptions


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Options of a stream writer or a batch writer; timeouts in seconds.

    ``destination`` None leaves the choice to the rows' own column. ``notes`` are sentences to be logged once.
    """

    connection: ConnectionOptions = group(ConnectionOptions)
    destination: str | None = optional(
        "destination", SINK, NAME, "Where to send every row. Wins over the column.", note="the column"
    )
    send_headers: Headers = option(
        "sendHeaders", SINK, HEADERS, "{}", "Headers of every SEND. The row's own `headers` win."
    )
    receipt_window: int = option(
        "receiptWindow",
        SINK,
        integer(1),
        "1000",
        "Messages that a task sends ahead of the broker's receipts.",
    )
    receipt_window_bytes: int = option(
        "receiptWindowBytes",
        SINK,
        SIZE,
        "16m",
        "Bytes that a task sends ahead of the broker's receipts, and keeps to send them again. A larger "
        "message goes alone.",
    )
    receipt_timeout: float = option(
        "receiptTimeout",
        SINK,
        TIMEOUT,
        "30s",
        "After so long without a receipt, and without taking bytes, the broker counts as blocked. The log "
        "says so.",
    )
    blocked_timeout: float = option(
        "blockedTimeout",
        SINK,
        TIMEOUT,
        "5m",
        "How long a blocked broker is waited for, after `receiptTimeout`; then the task fails.",
    )
    reconnect_timeout: float = option(
        "reconnectTimeout",
        SINK,
        TIMEOUT,
        "5m",
        "How long a task tries a lost connection again before it fails. What was not confirmed is sent "
        "again.",
    )
    checkpoint_location: str | None = optional(
        "checkpointLocation",
        SINK,
        NAME,
        "Spark's own: the query's checkpoint. The status of the sink lies under it.",
        in_repr=False,
    )
    query_name: str | None = optional(
        "queryName", SINK, NAME, "Spark's own: what the status calls the query.", in_repr=False
    )
    status_file: str | None = optional(
        "statusFile",
        SINK,
        FILE,
        "The status file of the query: a path or URI. Give source and sink the same.",
        note="`spark_stomp/status.json` under `checkpointLocation`, if that is set",
        in_repr=False,
    )
    message: MessageOptions = group(MessageOptions)
    notes: tuple[str, ...]
