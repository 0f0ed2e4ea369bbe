"""Options of stream writes and batch writes."""

from __future__ import annotations

from dataclasses import dataclass

from spark_stomp.options.connection_options import ConnectionOptions
from spark_stomp.options.fields import SINK, group, option, optional
from spark_stomp.options.kinds import HEADERS, NAME, TIMEOUT, Headers, integer
from spark_stomp.options.message_options import MessageOptions


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Options of a stream writer or a batch writer; ``receipt_timeout`` in seconds.

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
    receipt_timeout: float = option(
        "receiptTimeout", SINK, TIMEOUT, "30s", "Longest wait for a receipt; then the task fails."
    )
    message: MessageOptions = group(MessageOptions)
    notes: tuple[str, ...]
