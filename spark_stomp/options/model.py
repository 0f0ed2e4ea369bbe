"""What the parsed options are: frozen and picklable.

These classes hold no defaults: the parser fills in every field from the declarations. To vary one, use
:func:`dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from spark_stomp.options.endpoint import Endpoint
from spark_stomp.protocol import Limits

__all__ = ["ConnectionOptions", "SinkOptions", "SourceOptions", "TlsOptions"]

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TlsOptions:
    """How a ``stomp+ssl`` or ``wss`` address is secured. Files are PEM files; None means the system's own."""

    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    key_password: str | None = field(repr=False)
    verify: bool


@dataclass(frozen=True)
class ConnectionOptions:
    """How to reach a broker and how to introduce oneself.

    ``endpoints`` are tried in order. ``heartbeat`` is (outgoing, incoming) in milliseconds, 0 for none;
    ``connect_timeout`` is in seconds and covers one attempt at one endpoint.
    """

    endpoints: tuple[Endpoint, ...]
    login: str | None
    password: str | None = field(repr=False)
    virtual_host: str
    accept_versions: tuple[str, ...]
    heartbeat: tuple[int, int]
    connect_timeout: float
    connect_headers: Headers
    secret_connect_headers: Headers = field(repr=False)
    client_id: str | None
    broker: str
    tls: TlsOptions
    limits: Limits


@dataclass(frozen=True)
class SourceOptions:
    """Options of a stream reader or a batch reader; durations in seconds, sizes in bytes.

    ``receivers`` and ``prefetch`` hold per destination and per receiver. ``max_messages`` means something to
    batch reads only, everything per trigger to streams only. ``id_header`` None leaves the choice to the
    dialect. ``notes`` are plain sentences about settings that hold each other back, to be logged once.
    """

    connection: ConnectionOptions
    destinations: tuple[str, ...]
    receivers: int
    receiver_placement: Literal["driver"]
    prefetch: int
    selector: str | None
    subscribe_headers: Headers
    durable_name: str | None
    max_messages_per_trigger: int | None
    min_messages_per_trigger: int | None
    max_trigger_delay: float | None
    max_bytes_per_trigger: int | None
    idle_timeout: float
    max_drain_time: float
    max_messages: int
    ack_after: Literal["commit", "journal"]
    ack_receipt_timeout: float
    reconnect_timeout: float
    journal: str | None = field(repr=False)
    journal_max_bytes: int
    checkpoint_location: str | None = field(repr=False)
    id_header: str | None
    fail_on_data_loss: bool
    allow_loss: bool
    max_buffered_bytes: int
    body_decode_errors: Literal["error", "null"]
    exchange_host: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SinkOptions:
    """Options of a stream writer or a batch writer; ``receipt_timeout`` in seconds.

    ``destination`` None leaves the choice to the rows' own column.
    """

    connection: ConnectionOptions
    destination: str | None
    send_headers: Headers
    receipt_window: int
    receipt_timeout: float
