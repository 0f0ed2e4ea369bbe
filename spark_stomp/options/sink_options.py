"""Options of stream writes and batch writes."""

from __future__ import annotations

from dataclasses import dataclass

from spark_stomp.options.connection_options import ConnectionOptions
from spark_stomp.options.fields import NOT_YET, SINK, group, option, optional
from spark_stomp.options.kinds import BOOLEAN, HEADERS, NAME, TIMEOUT, Headers, integer


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
    transactional: bool = option(
        "transactional",
        SINK,
        BOOLEAN,
        "false",
        "One transaction per task.",
        pending=f"= true {NOT_YET}; rows are sent with a receipt each window (transactional=false)",
    )
    dedup_header: str | None = optional(
        "dedupHeader", SINK, NAME, "Header for a deterministic id of each row.", pending=NOT_YET
    )
    dedup_key: str | None = optional(
        "dedupKey", SINK, NAME, "Column that the id is made from.", pending=NOT_YET
    )
    notes: tuple[str, ...]
