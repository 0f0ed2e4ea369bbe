"""Options of stream reads and batch reads."""

from __future__ import annotations

from dataclasses import dataclass, field
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
"""The most connections of a query that does not set the option. Hosted brokers count them, and
one process receives for all of them."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of a stream reader or a batch reader; durations in seconds, sizes in bytes.

    ``prefetch`` counts per destination and connection. ``max_messages`` is for batch reads only;
    fields that end in ``per_trigger`` are for stream reads only. Without ``id_header``, the dialect names
    one. ``capped`` says whether ``maxMessages`` was given. ``notes`` are sentences to log once, about
    settings that are risky or limit each other. ``given_texts`` has the options that were given, with None in
    place of what may be a secret.
    """

    connection: ConnectionOptions = group(ConnectionOptions)
    destinations: tuple[str, ...] = READS.required(
        "destination", name_list, missing='say what to read, as in .load("/queue/orders")'
    )
    """Queues and topics, with the broker's wildcards. `load(...)` sets it too."""
    connections: int = SOURCE.option(
        "connections", integer(1), "1", note="one for each destination, at most `4`; `1` with `clientId`"
    )
    """How many connections share the destinations; each stream has its own. If there are more of them than
    destinations, [several read one](reading.md#many-destinations)."""
    # Messages; a batch is half of them. With 40,000 the rate was 0.94 of a bare socket's on RabbitMQ, 1.03 on
    # ActiveMQ and 0.49 on Artemis; with 100,000 it was 0.76, 0.81 and 0.57 (November 2026).
    prefetch: int = SOURCE.option(
        "prefetch", integer(1), "40000", note="2 × `maxMessagesPerTrigger`, else `40000`"
    )
    """How many un-acked messages of each destination the broker may send to a connection."""
    starting_offsets: StreamPositions | None = READS.optional("startingOffsets", BEGINS, note="no streams")
    """The destinations, or those that it names, are [streams of RabbitMQ](reading.md#streams-of-rabbitmq),
    and a query without a checkpoint begins there."""
    ending_offsets: StreamPositions | None = BATCH.optional("endingOffsets", ENDS, note="`latest`")
    """A batch read of streams ends before these offsets."""
    selector: str | None = READS.optional("selector", TEXT)
    """Filter that the broker applies, if it can."""
    subscribe_headers: HeaderPairs = READS.option("subscribeHeaders", HEADERS, "{}")
    """More headers of SUBSCRIBE."""
    durable_name: str | None = SOURCE.optional("durableName", NAME)
    """Name of [durable subscriptions](reading.md#topics): the broker keeps a topic's messages while the query
    is away. Needs `clientId` on ActiveMQ and Artemis."""
    max_messages_per_trigger: int | None = SOURCE.optional(
        "maxMessagesPerTrigger", integer(1), note="all there are"
    )
    """Most messages of a batch."""
    min_messages_per_trigger: int | None = SOURCE.optional("minMessagesPerTrigger", integer(1))
    """How many messages a batch waits for."""
    # The default of Spark's Kafka source.
    max_trigger_delay: float = SOURCE.option(
        "maxTriggerDelay", TIMEOUT, "15m", note="`15m` with `minMessagesPerTrigger`"
    )
    """Longest wait for `minMessagesPerTrigger`."""
    max_bytes_per_trigger: int | None = SOURCE.optional("maxBytesPerTrigger", SIZE, note="all there are")
    """Most bytes of a batch. A larger message is a batch alone."""
    # ActiveMQ may take a second to page in a queue (seen in November 2026).
    idle_timeout: float = READS.option("idleTimeout", TIMEOUT, "2s")
    """After this silence AvailableNow, Once and batch reads have everything."""
    max_drain_time: float = READS.option("maxDrainTime", TIMEOUT, "1h")
    """When a drain or a batch read ends at the latest, even if producers go on."""
    drain: bool = SOURCE.option("drain", BOOLEAN, "false")
    """Whether the first batch of a run takes all there is, up to `idleTimeout`, `maxDrainTime` or
    `maxMessagesPerTrigger`. Needs `ackAfter=journal`."""
    # A batch read is meant for looking into a queue.
    max_messages: int = BATCH.option("maxMessages", integer(1), "1000")
    """Most messages of a batch read. If there are more, it fails, or with this option set returns the first
    ones."""
    ack_after: Literal["commit", "journal"] = SOURCE.option("ackAfter", choice("commit", "journal"), "commit")
    """When a message is acknowledged: once its batch is committed, or once it is in the journal."""
    ack_receipt_timeout: float = SOURCE.option("ackReceiptTimeout", TIMEOUT, "30s")
    """Longest wait for the receipt of ACKs; then the connection counts as dead."""
    reconnect: ReconnectOptions = group(ReconnectOptions)
    journal: str | None = SOURCE.optional("journal", NAME, in_repr=False)
    """Directory, or URI in an object store, for this query alone: messages are made durable there before
    Spark sees them."""
    journal_max_bytes: int = SOURCE.option("journalMaxBytes", SIZE, "4g")
    """Largest size of the journal. Then messages wait un-acked for Spark's commits."""
    checkpoint_location: str | None = SOURCE.optional("checkpointLocation", NAME, in_repr=False)
    """The query's own checkpoint, where the source [sees Spark's commits](reading.md#the-checkpoint)."""
    status_file: str | None = SOURCE.optional(
        "statusFile", FILE, note="`spark_stomp/status.json` below `checkpointLocation`", in_repr=False
    )
    """The query's [status file](operate.md#the-status-file)."""
    id_header: str | None = READS.optional("idHeader", NAME, note="that of the broker, if it has one")
    """Header with an id that survives redelivery."""
    fail_on_data_loss: bool = READS.option("failOnDataLoss", BOOLEAN, "true")
    """Whether the query fails if its journal is missing, damaged or trimmed, or offsets of a stream are gone;
    `false` logs what is lost and goes on."""
    fail_on_missing_queue: bool = SOURCE.option("failOnMissingQueue", BOOLEAN, "false")
    """Whether the query fails if a queue is [not there](reading.md#a-queue-that-is-not-there) when it starts;
    most brokers make it."""
    allow_loss: bool = READS.option("allowLoss", BOOLEAN, "false")
    """Whether to read what can lose messages, such as a topic without `durableName`."""
    # With 2,000 messages of 4 MiB behind a slow sink, the reader process had 540 MiB in all
    # (November 2026).
    max_buffered_bytes: int = READS.option(
        "maxBufferedBytes", SIZE, "256m", note="`256m`; in a batch read `32m` for each task"
    )
    """Memory for messages. The connections have equal shares, and [pause](reading.md#how-much-is-held) at
    theirs."""
    body_decode_errors: Literal["error", "null", "column"] = READS.option(
        "bodyDecodeErrors", choice("error", "null", "column"), "error"
    )
    """What an invalid `body string` gives: an error, null, or null with the reason in the column
    `malformed`."""
    on_malformed: Literal["fail", "column"] = READS.option("onMalformed", choice("fail", "column"), "fail")
    """Whether a [malformed message](reading.md#malformed-messages) fails the query, or is a row with the
    reason in `malformed`."""
    amqp_bodies: Literal["decoded", "raw"] = READS.option("amqpBodies", choice("decoded", "raw"), "decoded")
    """What becomes of [bodies in the encoding of AMQP 1.0](other-protocols.md#amqp-10): decoded, or the
    octets as they came."""
    frame_server_host: str | None = SOURCE.optional(
        "frameServerHost",
        NAME,
        note="`SPARK_LOCAL_IP`, else loopback with a local master, else the machine's own",
    )
    """The driver's address, from which tasks fetch messages."""
    frame_server_port: int | None = SOURCE.optional("frameServerPort", integer(1, 65535), note="any free one")
    """Port there, to open in a firewall. Streams that run at the same time need different ones."""
    frame_server_tls: Literal["auto", "true", "false"] = SOURCE.option(
        "frameServerTls", choice("auto", "true", "false"), "auto"
    )
    """Whether tasks fetch messages over mutual TLS. `auto`: unless `frameServerHost` is a loopback
    address."""
    capped: bool
    notes: tuple[str, ...]
    given_texts: tuple[tuple[str, str | None], ...] = field(repr=False)

    @property
    def streams(self) -> tuple[str, ...]:
        """The destinations that are read as streams of RabbitMQ: those that have a position."""
        starting = self.starting_offsets
        return (
            ()
            if starting is None
            else tuple(one for one in self.destinations if starting.of(one) is not None)
        )

    @property
    def queues(self) -> tuple[str, ...]:
        """The other destinations."""
        streams = self.streams
        return tuple(one for one in self.destinations if one not in streams)
