"""Options of stream reads and batch reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_stomp.options.connection_options import ConnectionOptions, ReconnectOptions
from spark_stomp.options.fields import BATCH, READS, SOURCE, group
from spark_stomp.options.kinds import (
    BEGINS,
    BOOLEAN,
    ENDS,
    FILE,
    HEADERS,
    NAME,
    SIZE,
    TEXT,
    TIMEOUT,
    StreamPositions,
    choice,
    integer,
    name_list,
)
from spark_stomp.protocol.frames import HeaderPairs

MOST_CONNECTIONS = 4
"""The most connections of a query that does not set the option. A judgement: hosted brokers count them, and
one process receives for all of them."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of a stream reader or a batch reader; durations in seconds, sizes in bytes.

    ``prefetch`` counts per destination and connection. ``max_messages`` is for batch reads only;
    fields that end in ``per_trigger`` are for stream reads only. Without ``id_header``, the dialect names
    one. ``capped`` says whether ``maxMessages`` was given. ``notes`` are sentences to log once, about
    settings that are risky or limit each other.
    """

    connection: ConnectionOptions = group(ConnectionOptions)
    destinations: tuple[str, ...] = READS.required(
        "destination",
        name_list,
        "What to subscribe to: queues and topics, with the broker's own wildcards if it has any. `load(...)` "
        "sets it too.",
        missing='say what to read, as in .load("/queue/orders")',
    )
    connections: int = SOURCE.option(
        "connections",
        integer(1),
        "1",
        "How many connections to the broker share the destinations. If there are more connections than "
        "destinations, some destinations are read by several. Each of these must be a queue, or a durable "
        "subscription on a broker that lets connections share it. ActiveMQ allows one connection for each "
        "`clientId`.",
        note="one for each destination, at most `4`; `1` with `clientId`",
    )
    # Messages; a batch is half of them. With 40,000 the rate was 0.94 of a bare socket's on RabbitMQ, 1.03 on
    # ActiveMQ and 0.49 on Artemis; with 100,000 it was 0.76, 0.81 and 0.57 (RESULTS.md, November 2026).
    prefetch: int = SOURCE.option(
        "prefetch",
        integer(1),
        "40000",
        "How many un-acked messages of each destination the broker may send to a connection. The memory for "
        "all of them is limited by `maxBufferedBytes`.",
        note="2 × `maxMessagesPerTrigger`, else `40000`",
    )
    starting_offsets: StreamPositions | None = READS.optional(
        "startingOffsets",
        BEGINS,
        "The destinations are streams of RabbitMQ, and a query without a checkpoint begins there. See "
        "[streams](streams.md).",
        note="with a stream in `subscribeHeaders`: `latest`, in batch reads `earliest`; else no streams",
    )
    ending_offsets: StreamPositions | None = BATCH.optional(
        "endingOffsets",
        ENDS,
        "Where a batch read of streams ends: before these offsets.",
        note="`latest`",
    )
    selector: str | None = READS.optional(
        "selector", TEXT, "Filter that the broker applies, if it supports selectors."
    )
    subscribe_headers: HeaderPairs = READS.option(
        "subscribeHeaders", HEADERS, "{}", "More headers of SUBSCRIBE."
    )
    durable_name: str | None = SOURCE.optional(
        "durableName",
        NAME,
        "Name for durable subscriptions: the broker keeps a topic's messages while no receiver is connected. "
        "Each topic has its own, `NAME@TOPIC`; queues in the same list need none. Needs `clientId` on "
        "ActiveMQ and Artemis.",
    )
    max_messages_per_trigger: int | None = SOURCE.optional(
        "maxMessagesPerTrigger", integer(1), "Most messages of a batch.", note="all there are"
    )
    min_messages_per_trigger: int | None = SOURCE.optional(
        "minMessagesPerTrigger", integer(1), "How many messages a batch waits for."
    )
    # The default of Spark's Kafka source.
    max_trigger_delay: float = SOURCE.option(
        "maxTriggerDelay",
        TIMEOUT,
        "15m",
        "Longest wait for `minMessagesPerTrigger`.",
        note="`15m` with `minMessagesPerTrigger`",
    )
    max_bytes_per_trigger: int | None = SOURCE.optional(
        "maxBytesPerTrigger",
        SIZE,
        "Most bytes of a batch. A larger message is a batch alone.",
        note="all there are",
    )
    # A judgement: ActiveMQ may take a second to page in a queue (seen in November 2026).
    idle_timeout: float = READS.option(
        "idleTimeout",
        TIMEOUT,
        "2s",
        "After this silence, AvailableNow, Once and batch reads have everything.",
    )
    # A judgement, not measured.
    max_drain_time: float = READS.option(
        "maxDrainTime",
        TIMEOUT,
        "1h",
        "When a drain and a batch read end at the latest, even if producers go on. A drain is a run of "
        "AvailableNow on Spark 4.2 and later, or the first batch with `drain=true`.",
    )
    drain: bool = SOURCE.option(
        "drain",
        BOOLEAN,
        "false",
        "Whether the first batch of a run takes everything there is, up to `idleTimeout`, `maxDrainTime` or "
        "`maxMessagesPerTrigger`. Needs `journal` and `ackAfter=journal`.",
    )
    # 1,000 is a judgement, not measured: a batch read is meant for looking into a queue.
    max_messages: int = BATCH.option(
        "maxMessages",
        integer(1),
        "1000",
        "Most messages of a batch read, over all destinations, in the order in which they come. If there are "
        "more, the read returns the first ones if you set this option, and fails if you do not.",
    )
    ack_after: Literal["commit", "journal"] = SOURCE.option(
        "ackAfter",
        choice("commit", "journal"),
        "commit",
        "When a message is acknowledged: once Spark has committed its batch, or once it is in the journal.",
    )
    # A judgement, not measured.
    ack_receipt_timeout: float = SOURCE.option(
        "ackReceiptTimeout",
        TIMEOUT,
        "30s",
        "Longest wait for the broker's receipt of ACKs; then the connection counts as dead.",
    )
    reconnect: ReconnectOptions = group(ReconnectOptions)
    journal: str | None = SOURCE.optional(
        "journal",
        NAME,
        "Where messages are made durable before Spark sees them: a directory for this query alone, or the "
        "URI of one in an object store.",
        in_repr=False,
    )
    # A judgement, not measured.
    journal_max_bytes: int = SOURCE.option(
        "journalMaxBytes",
        SIZE,
        "4g",
        "Largest size of the journal. When it is reached, messages wait un-acked for Spark's commits.",
    )
    checkpoint_location: str | None = SOURCE.optional(
        "checkpointLocation",
        NAME,
        "The query's checkpoint. The source sees Spark's commits there, and acknowledges a batch without "
        "waiting for the next trigger.",
        in_repr=False,
    )
    status_file: str | None = SOURCE.optional(
        "statusFile",
        FILE,
        "Where the query writes its status: the path or URI of a JSON file.",
        note="`spark_stomp/status.json` under `checkpointLocation`, if that is set",
        in_repr=False,
    )
    id_header: str | None = READS.optional(
        "idHeader", NAME, "Header with an id that survives redelivery.", note="the dialect's"
    )
    fail_on_data_loss: bool = READS.option(
        "failOnDataLoss",
        BOOLEAN,
        "true",
        "Whether the query fails if its journal is missing, damaged or trimmed, or if offsets of a stream "
        "are gone; `false` logs what is lost and goes on.",
    )
    allow_loss: bool = READS.option(
        "allowLoss",
        BOOLEAN,
        "false",
        "Whether to read from a topic without `durableName`, or by another subscription that can lose "
        "messages.",
    )
    # A judgement. With 2,000 messages of 4 MiB behind a slow sink, the reader process had 540 MiB in all
    # (RESULTS.md, November 2026).
    max_buffered_bytes: int = READS.option(
        "maxBufferedBytes",
        SIZE,
        "256m",
        "How much memory the messages of the query may take. The connections have equal shares. At its share "
        "a connection pauses, for all of its destinations, until Spark commits, until the journal has taken "
        "what waits for it, or in a batch read until Spark has taken that.",
        note="`256m`; in a batch read `32m` for each task",
    )
    body_decode_errors: Literal["error", "null", "column"] = READS.option(
        "bodyDecodeErrors",
        choice("error", "null", "column"),
        "error",
        "What a body that is invalid in its charset gives if the schema asks for `body string`: an error, "
        "null, or null with the reason in the column `malformed`.",
    )
    on_malformed: Literal["fail", "column"] = READS.option(
        "onMalformed",
        choice("fail", "column"),
        "fail",
        "What happens to a message that breaks the protocol or a limit: it fails the query once everything "
        "before it is committed, or becomes a row with the reason in the column `malformed`.",
    )
    frame_server_host: str | None = SOURCE.optional(
        "frameServerHost",
        NAME,
        "The driver's address, from which tasks fetch messages.",
        note="`SPARK_LOCAL_IP`, else loopback if the master is local, else the machine's own",
    )
    frame_server_port: int | None = SOURCE.optional(
        "frameServerPort",
        integer(1, 65535),
        "Port at that address, to open in a firewall between driver and executors. Streams that run at the "
        "same time need different ports.",
        note="any free one",
    )
    frame_server_tls: Literal["auto", "true", "false"] = SOURCE.option(
        "frameServerTls",
        choice("auto", "true", "false"),
        "auto",
        "Whether tasks fetch messages over TLS, and both sides prove who they are. `auto` means yes, unless "
        "`frameServerHost` is a loopback address.",
    )
    capped: bool
    notes: tuple[str, ...]

    @property
    def of_streams(self) -> bool:
        """Whether the destinations are streams of RabbitMQ."""
        return self.starting_offsets is not None
