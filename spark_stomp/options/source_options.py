"""Options of stream reads and batch reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_stomp.options.connection_options import ConnectionOptions
from spark_stomp.options.fields import BATCH, READS, SOURCE, group
from spark_stomp.options.kinds import (
    BOOLEAN,
    FILE,
    HEADERS,
    NAME,
    SIZE,
    TEXT,
    TIMEOUT,
    choice,
    integer,
    name_list,
)
from spark_stomp.protocol.frames import HeaderPairs


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of a stream reader or a batch reader; durations in seconds, sizes in bytes.

    ``receivers`` holds per destination, ``prefetch`` per receiver. ``max_messages`` is for batch reads only,
    everything per trigger for streams only. ``id_header`` None leaves the choice to the dialect. ``capped``
    is whether ``maxMessages`` was given. ``notes`` are sentences about settings that limit each other or
    are risky, to be logged once.
    """

    connection: ConnectionOptions = group(ConnectionOptions)
    destinations: tuple[str, ...] = READS.required(
        "destination",
        name_list,
        "What to subscribe to. `load(...)` sets it too.",
        missing='say what to read, as in .load("/queue/orders")',
    )
    receivers: int = SOURCE.option(
        "receivers",
        integer(1),
        "1",
        "Connections per destination. More than one only for a queue, or where a durable subscription can be "
        "shared.",
    )
    prefetch: int = SOURCE.option(
        "prefetch",
        integer(1),
        "40000",
        "Most messages that a receiver holds un-acked, as the broker is told.",
        note="2 × `maxMessagesPerTrigger`, else `40000`",
    )
    selector: str | None = READS.optional(
        "selector", TEXT, "Filter that the broker applies, where it has any."
    )
    subscribe_headers: HeaderPairs = READS.option(
        "subscribeHeaders", HEADERS, "{}", "More headers of SUBSCRIBE."
    )
    durable_name: str | None = SOURCE.optional(
        "durableName",
        NAME,
        "Name of a durable topic subscription: the broker keeps messages while no receiver is there. Needs "
        "`clientId` on ActiveMQ and Artemis.",
    )
    max_messages_per_trigger: int | None = SOURCE.optional(
        "maxMessagesPerTrigger", integer(1), "Most messages of a batch.", note="all there are"
    )
    min_messages_per_trigger: int | None = SOURCE.optional(
        "minMessagesPerTrigger", integer(1), "Messages that a batch waits for."
    )
    # The default is that of Spark's Kafka source.
    max_trigger_delay: float = SOURCE.option(
        "maxTriggerDelay",
        TIMEOUT,
        "15m",
        "Longest wait for `minMessagesPerTrigger`.",
        note="`15m` with `minMessagesPerTrigger`",
    )
    max_bytes_per_trigger: int | None = SOURCE.optional(
        "maxBytesPerTrigger", SIZE, "Most bytes of a batch; one message always goes.", note="all there are"
    )
    idle_timeout: float = READS.option(
        "idleTimeout",
        TIMEOUT,
        "2s",
        "Silence after which AvailableNow, Once and batch reads have everything.",
    )
    max_drain_time: float = READS.option(
        "maxDrainTime", TIMEOUT, "1h", "When those end at the latest, even while producers go on."
    )
    drain: bool = SOURCE.option(
        "drain",
        BOOLEAN,
        "false",
        "Whether the first batch of a run takes all there is, up to these limits or `maxMessagesPerTrigger`. "
        "Needs `journal` and `ackAfter=journal`.",
    )
    max_messages: int = BATCH.option(
        "maxMessages",
        integer(1),
        "1000",
        "Most messages that a batch read shows, over all destinations, which it reads in their order. If "
        "there are more, the rows end there if you set this option; else the read fails.",
    )
    ack_after: Literal["commit", "journal"] = SOURCE.option(
        "ackAfter",
        choice("commit", "journal"),
        "commit",
        "When a message is acknowledged: once Spark has committed its batch, or once it is in the journal.",
    )
    ack_receipt_timeout: float = SOURCE.option(
        "ackReceiptTimeout",
        TIMEOUT,
        "30s",
        "Longest wait for the broker's receipt of ACKs; then the connection counts as dead.",
    )
    reconnect_timeout: float = SOURCE.option(
        "reconnectTimeout", TIMEOUT, "5m", "How long a lost connection is tried again before the query fails."
    )
    journal: str | None = SOURCE.optional(
        "journal",
        NAME,
        "Where messages are made durable before Spark sees them: a directory of this query's own, or a URI "
        "of one in an object store.",
        in_repr=False,
    )
    journal_max_bytes: int = SOURCE.option(
        "journalMaxBytes",
        SIZE,
        "4g",
        "What the journal may take up. At the bound messages wait, un-acked, for Spark's commits.",
    )
    checkpoint_location: str | None = SOURCE.optional(
        "checkpointLocation",
        NAME,
        "The query's checkpoint, as evidence of commits: the last batch is acknowledged without waiting for "
        "the next trigger.",
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
    fail_on_data_loss: bool = SOURCE.option(
        "failOnDataLoss",
        BOOLEAN,
        "true",
        "Whether a journal that is missing, damaged or trimmed fails the query; `false` logs what is gone.",
    )
    allow_loss: bool = READS.option(
        "allowLoss", BOOLEAN, "false", "Go on where nothing could protect the messages (plain topics)."
    )
    max_buffered_bytes: int = SOURCE.option(
        "maxBufferedBytes",
        SIZE,
        "256m",
        "Messages that the receivers keep in memory, all together. At the bound they read no more until "
        "Spark commits, or until the journal has taken what waits for it.",
    )
    body_decode_errors: Literal["error", "null", "column"] = READS.option(
        "bodyDecodeErrors",
        choice("error", "null", "column"),
        "error",
        "What a body that is invalid in its charset becomes when the schema asks for `body string`: an "
        "error, null, or null with the reason in the column `malformed`.",
    )
    on_malformed: Literal["fail", "column"] = READS.option(
        "onMalformed",
        choice("fail", "column"),
        "fail",
        "What a message that breaks the protocol or a limit does: fail the query after everything that came "
        "before it, or become a row with the reason in the column `malformed`.",
    )
    frame_server_host: str | None = SOURCE.optional(
        "frameServerHost",
        NAME,
        "Address of the driver at which tasks fetch messages.",
        note="`SPARK_LOCAL_IP`, else loopback if the master is seen to be local, else the machine's own",
    )
    frame_server_port: int | None = SOURCE.optional(
        "frameServerPort",
        integer(1, 65535),
        "Port of that address, for a firewall between driver and executors. Each stream that is read at the "
        "same time needs its own.",
        note="any free one",
    )
    frame_server_tls: Literal["auto", "true", "false"] = SOURCE.option(
        "frameServerTls",
        choice("auto", "true", "false"),
        "auto",
        "Whether tasks fetch messages over TLS, where both sides prove who they are. `auto`: unless "
        "`frameServerHost` is a loopback address.",
    )
    capped: bool
    notes: tuple[str, ...]
