"""The types of a status, for editors and type checkers. ``make docs`` writes this file from the figures."""

from __future__ import annotations

from typing import TypedDict


class EndFigures(TypedDict):
    """What ended the query."""

    version: int
    query: str
    host: str
    failure: str
    failure_code: str | None
    failed_at: str


class JournalFigures(TypedDict):
    """The figures of the journal."""

    first: int
    committed: int
    end: int
    bytes: int
    waiting: int
    held: int
    remembered: int
    evicted: int


class QueueFigures(TypedDict):
    """What the broker last told of a queue that the query reads."""

    ready: int | None
    unacked: int | None
    consumers: int | None
    alarm: str | None
    forgetful: str | None
    told_at: str


class ReceiverFigures(TypedDict):
    """The figures of one receiver."""

    destinations: list[str]
    connected: bool
    peer: str | None
    connected_since: str | None
    disconnected_since: str | None
    heard_at: str | None
    attempts: int
    reconnects: int
    forgotten: int
    last_error: str | None
    last_error_code: str | None
    last_error_at: str | None
    delivered: int
    bytes: int
    received: int
    committed: int | None
    acked: int
    unacked: int
    oldest_unacked_at: str | None
    oldest_unacked_seconds: float
    window_full: bool
    paused: bool
    paused_since: str | None
    buffered_bytes: int
    redelivered: int
    delivery_count: int
    reattached: int
    dropped: int
    doubled: int
    other_body: int
    malformed: int


class SinkFigures(TypedDict):
    """The sink's part after a batch."""

    version: int
    query: str
    run: str | None
    host: str
    options: dict[str, str | None]
    started_at: str | None
    written_at: str | None
    failure: str | None
    failed_at: str | None
    batch: int | None
    confirmed: int
    resent: int
    dropped: int
    dead_lettered: int
    connections: int
    blocked_seconds: float
    receipt_p50_seconds: float | None
    receipt_p99_seconds: float | None


class TotalsFigures(TypedDict):
    """The figures of the whole source."""

    rows: int
    rows_per_second: float
    received_per_second: float
    rows_waiting: int
    headers_not_text: int
    bodies_undecoded: int
    bodies_lost: int
    bodies_hollow: int
    bodies_unfit: int
    more_waiting: bool
    withheld: int
    receivers: int
    connected: int
    window_full: bool
    paused: bool
    oldest_unacked_at: str | None
    oldest_unacked_seconds: float
    reconnects: int
    forgotten: int
    delivered: int
    bytes: int
    received: int
    committed: int
    acked: int
    unacked: int
    redelivered: int
    reattached: int
    dropped: int
    doubled: int
    other_body: int
    malformed: int


class UnfitFigures(TypedDict):
    """The bodies of one destination that do not fit the fields of the schema."""

    bodies: int
    reason: str
    first_at: str
    last_at: str


class QueryStatus(TypedDict):
    """The status of one source of a query."""

    version: int
    query: str
    source: int
    run: str
    host: str
    pid: int
    driver: str
    running: bool
    stopping: bool
    unfinished: bool
    failed: bool
    failure: str | None
    failure_code: str | None
    waiting_for: str | None
    waiting_on: str | None
    waiting_since: str | None
    batch_since: str | None
    last_commit_at: str | None
    started_at: str
    written_at: str
    options: dict[str, str | None]
    totals: TotalsFigures
    receivers: dict[str, ReceiverFigures]
    queues: dict[str, QueueFigures]
    shares_with: list[str]
    unfit: dict[str, UnfitFigures]
    journal: JournalFigures | None
    sink: SinkFigures | None
    ended: EndFigures | None
    file: str
