"""Options of the messages that the sink sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_stomp.options.fields import SINK, option, optional
from spark_stomp.options.kinds import BOOLEAN, NAME, TIMEOUT, between, choice, name_list


@dataclass(frozen=True, kw_only=True)
class MessageOptions:
    """What a message is like, and what becomes of a row that cannot be one; ``ttl`` in seconds.

    ``header_columns`` and ``dedup_key`` name columns. ``dedup_header`` None leaves the name to the
    dialect.
    """

    persistent: bool = option(
        "persistent",
        SINK,
        BOOLEAN,
        "true",
        "Whether the broker is to keep messages over its own restart. The column `persistent` wins.",
    )
    priority: int | None = optional(
        "priority", SINK, between(0, 9), "Priority of every message. The column `priority` wins."
    )
    ttl: float | None = optional(
        "ttl",
        SINK,
        TIMEOUT,
        "How long a message is worth delivering, from when it is sent; then the broker discards it. The "
        "column `ttl` wins.",
        note="for ever",
    )
    correlation_id: str | None = optional(
        "correlationId",
        SINK,
        NAME,
        "The `correlation-id` of every message. The column `correlation_id` wins.",
    )
    reply_to: str | None = optional(
        "replyTo", SINK, NAME, "The `reply-to` of every message. The column `reply_to` wins."
    )
    message_type: Literal["auto", "bytes", "text"] = option(
        "messageType",
        SINK,
        choice("auto", "bytes", "text"),
        "auto",
        "What a JMS client of ActiveMQ or Artemis gets: a BytesMessage or a TextMessage. `auto` makes text "
        "of `body string` and bytes of `body binary`. Other brokers know no difference.",
    )
    header_columns: tuple[str, ...] | None = optional(
        "headerColumns",
        SINK,
        name_list,
        "Further columns whose values are headers of the same names. A null leaves its header out.",
    )
    on_error: Literal["fail", "drop", "deadletter"] = option(
        "onError",
        SINK,
        choice("fail", "drop", "deadletter"),
        "fail",
        "What a row that cannot be sent does: fail the query, be left out and counted, or go to "
        "`deadLetterDestination`.",
    )
    dead_letter_destination: str | None = optional(
        "deadLetterDestination", SINK, NAME, "Where `onError=deadletter` sends such rows."
    )
    dedup_key: tuple[str, ...] | None = optional(
        "dedupKey",
        SINK,
        name_list,
        "Column, or JSON list of columns, that identify a row. A digest of them goes into `dedupHeader`, by "
        "which a row that is sent again can be recognised.",
        note="no such header",
    )
    dedup_header: str | None = optional(
        "dedupHeader",
        SINK,
        NAME,
        "Name of that header.",
        note="`_AMQ_DUPL_ID` on Artemis, else `dedup-id`",
    )
