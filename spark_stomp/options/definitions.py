"""Every option, declared once, on the field that it fills: key, who takes it, kind, default and meaning.

The parser, the rules and the documentation read these declarations; no default stands anywhere else. Defaults
are written as a user would write them, and parsed like any other value.

The classes are frozen and picklable, and only the parser makes them: to Python their fields have no defaults.
To vary one, use :func:`dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from spark_stomp.options.endpoint import ENDPOINTS, Endpoint
from spark_stomp.options.fields import (
    BATCH,
    EVERYWHERE,
    READS,
    SINK,
    SOURCE,
    group,
    option,
    optional,
    options_of,
    required,
)
from spark_stomp.options.kinds import (
    BOOLEAN,
    HEADERS,
    NAME,
    SIZE,
    TEXT,
    TIMEOUT,
    Headers,
    choice,
    choices,
    heartbeat_pair,
    integer,
    name_list,
)
from spark_stomp.protocol import Limits

_NOT_YET: Final = "is not available in this version"


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """How a ``stomp+ssl`` or ``wss`` address is secured. Files are PEM files; None means the system's own."""

    ca_file: str | None = optional(
        "tlsCaFile", EVERYWHERE, NAME, "PEM file of the authorities to trust.", note="the system's"
    )
    cert_file: str | None = optional("tlsCertFile", EVERYWHERE, NAME, "PEM file of the client's certificate.")
    key_file: str | None = optional(
        "tlsKeyFile", EVERYWHERE, NAME, "PEM file of its private key.", note="that of `tlsCertFile`"
    )
    key_password: str | None = optional(
        "tlsKeyPassword", EVERYWHERE, TEXT, "Password of that key.", secret=True
    )
    verify: bool = option(
        "tlsVerify",
        EVERYWHERE,
        BOOLEAN,
        "true",
        "Whether the broker's certificate and host name must be valid.",
    )


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How to reach a broker and how to introduce oneself.

    ``endpoints`` are tried in order. ``heartbeat`` is (outgoing, incoming) in milliseconds, 0 for none;
    ``connect_timeout`` is in seconds and covers one attempt at one endpoint. ``log_level`` is for the process
    that holds the connection.
    """

    endpoints: tuple[Endpoint, ...] = required("url", EVERYWHERE, ENDPOINTS, "Address of the broker.")
    login: str | None = optional("login", EVERYWHERE, NAME, "User name.")
    password: str | None = optional(
        "password", EVERYWHERE, TEXT, "Password. Spark redacts it in plans and logs.", secret=True
    )
    virtual_host: str = option("virtualHost", EVERYWHERE, NAME, "/", "The `host` header of CONNECT.")
    accept_versions: tuple[str, ...] = option(
        "acceptVersions",
        EVERYWHERE,
        choices("1.2", "1.1", "1.0", "lenient"),
        "1.2,1.1,1.0",
        "STOMP versions offered. `lenient` also takes peers that bend the rules.",
    )
    heartbeat: tuple[int, int] = option(
        "heartbeat",
        EVERYWHERE,
        heartbeat_pair,
        "10s,10s",
        "Heart-beats offered and asked for. If the broker sends none, TCP notices after two minutes that it "
        "is gone.",
    )
    connect_timeout: float = option(
        "connectTimeout",
        EVERYWHERE,
        TIMEOUT,
        "10s",
        "Time for the connection, TLS and CONNECTED, per address.",
    )
    connect_headers: Headers = option(
        "connectHeaders",
        EVERYWHERE,
        HEADERS,
        "{}",
        "More headers of CONNECT. Shown in plans: put no secrets here.",
    )
    secret_connect_headers: Headers = option(
        "secretConnectHeaders", EVERYWHERE, HEADERS, "{}", "The same, redacted by Spark.", secret=True
    )
    client_id: str | None = optional(
        "clientId", EVERYWHERE, NAME, "The `client-id` header of CONNECT (durable topic subscriptions)."
    )
    broker: str = option(
        "broker",
        EVERYWHERE,
        choice("auto", "rabbitmq", "activemq", "artemis", "devbroker", "generic"),
        "auto",
        "The broker's dialect. `auto` goes by the `server` header of CONNECTED.",
    )
    tls: TlsOptions = group(TlsOptions)
    max_frame_bytes: int = option(
        "maxFrameBytes", EVERYWHERE, SIZE, "256m", "Largest frame taken from the broker; a larger one fails."
    )
    max_body_bytes: int | None = optional(
        "maxBodyBytes",
        EVERYWHERE,
        SIZE,
        "Largest body.",
        note="`128m`, or `maxFrameBytes` where that is less",
    )
    max_header_line_bytes: int = option("maxHeaderLineBytes", EVERYWHERE, SIZE, "64k", "Longest header line.")
    max_headers: int = option("maxHeaders", EVERYWHERE, integer(1), "1000", "Most headers of one frame.")
    log_level: str = option(
        "logLevel",
        EVERYWHERE,
        choice("debug", "info", "warning", "error"),
        "warning",
        "Least level of the lines on stderr of Spark's Python processes.",
    )

    @property
    def limits(self) -> Limits:
        """What the protocol lets through; by default a body is bounded by the protocol and by the frame."""
        body = self.max_body_bytes
        return Limits(
            max_header_line=self.max_header_line_bytes,
            max_headers=self.max_headers,
            max_body=min(Limits().max_body, self.max_frame_bytes) if body is None else body,
            max_frame=self.max_frame_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of a stream reader or a batch reader; durations in seconds, sizes in bytes.

    ``receivers`` holds per destination, ``prefetch`` per receiver. ``max_messages`` is for batch reads only,
    everything per trigger for streams only. ``id_header`` None leaves the choice to the dialect. ``capped``
    is whether ``maxMessages`` was given. ``notes`` are sentences about settings that limit each other, to be
    logged once.
    """

    connection: ConnectionOptions = group(ConnectionOptions)
    destinations: tuple[str, ...] = required(
        "destination", READS, name_list, "What to subscribe to. `load(...)` sets it too."
    )
    receivers: int = option(
        "receivers",
        SOURCE,
        integer(1),
        "1",
        "Connections per destination. More than one only for a queue, or where a durable subscription can be "
        "shared.",
    )
    receiver_placement: Literal["driver", "executors"] = option(
        "receiverPlacement",
        SOURCE,
        choice("driver", "executors"),
        "driver",
        "Where the receivers run.",
        pending=f"= executors {_NOT_YET}; receivers run in the driver (receiverPlacement=driver)",
    )
    prefetch: int = option(
        "prefetch",
        SOURCE,
        integer(1),
        "10000",
        "Most messages that a receiver holds un-acknowledged, as the broker is told.",
        note="2 × `maxMessagesPerTrigger`, else `10000`",
    )
    selector: str | None = optional(
        "selector", READS, TEXT, "Filter that the broker applies, where it has any."
    )
    subscribe_headers: Headers = option(
        "subscribeHeaders", READS, HEADERS, "{}", "More headers of SUBSCRIBE."
    )
    durable_name: str | None = optional(
        "durableName",
        SOURCE,
        NAME,
        "Name of a durable topic subscription: the broker keeps messages while no receiver is there. Needs "
        "`clientId` on ActiveMQ and Artemis.",
    )
    max_messages_per_trigger: int | None = optional(
        "maxMessagesPerTrigger", SOURCE, integer(1), "Most messages of a batch.", note="all there are"
    )
    min_messages_per_trigger: int | None = optional(
        "minMessagesPerTrigger", SOURCE, integer(1), "Messages that a batch waits for."
    )
    # The default is that of Spark's Kafka source.
    max_trigger_delay: float = option(
        "maxTriggerDelay",
        SOURCE,
        TIMEOUT,
        "15m",
        "Longest wait for `minMessagesPerTrigger`.",
        note="`15m` with `minMessagesPerTrigger`",
    )
    max_bytes_per_trigger: int | None = optional(
        "maxBytesPerTrigger",
        SOURCE,
        SIZE,
        "Most bytes of a batch; one message always goes.",
        note="all there are",
    )
    idle_timeout: float = option(
        "idleTimeout",
        READS,
        TIMEOUT,
        "2s",
        "Silence after which AvailableNow, Once and batch reads have everything.",
    )
    max_drain_time: float = option(
        "maxDrainTime", READS, TIMEOUT, "1h", "When those end at the latest, even while producers go on."
    )
    drain: bool = option(
        "drain",
        SOURCE,
        BOOLEAN,
        "false",
        "Whether the first batch of a run takes all there is, up to these limits or `maxMessagesPerTrigger`. "
        "Needs `journal` and `ackAfter=journal`.",
    )
    max_messages: int = option(
        "maxMessages",
        BATCH,
        integer(1),
        "1000",
        "Most messages that a batch read shows, over all destinations, which it reads in their order. If "
        "there are more, the rows end there if you set this option; else the read fails.",
    )
    ack_after: Literal["commit", "journal"] = option(
        "ackAfter",
        SOURCE,
        choice("commit", "journal"),
        "commit",
        "When a message is acknowledged: once Spark has committed its batch, or once it is in the journal.",
    )
    ack_receipt_timeout: float = option(
        "ackReceiptTimeout",
        SOURCE,
        TIMEOUT,
        "30s",
        "Longest wait for the broker's receipt of ACKs; then the connection counts as dead.",
    )
    reconnect_timeout: float = option(
        "reconnectTimeout",
        SOURCE,
        TIMEOUT,
        "5m",
        "How long a lost connection is tried again before the query fails.",
    )
    journal: str | None = optional(
        "journal",
        SOURCE,
        NAME,
        "Where messages are made durable before Spark sees them: a directory of this query's own, or a URI "
        "of one in an object store.",
        in_repr=False,
    )
    journal_max_bytes: int = option(
        "journalMaxBytes",
        SOURCE,
        SIZE,
        "4g",
        "What the journal may take up. At the bound messages wait, un-acknowledged, for Spark's commits.",
    )
    checkpoint_location: str | None = optional(
        "checkpointLocation",
        SOURCE,
        NAME,
        "The query's checkpoint, as evidence of commits: the last batch is acknowledged without waiting for "
        "the next trigger.",
        in_repr=False,
    )
    status_file: str | None = optional(
        "statusFile",
        SOURCE,
        NAME,
        "Where the query writes its status: the path or URI of a JSON file.",
        note="`spark_stomp/status.json` under `checkpointLocation`, if that is set",
        in_repr=False,
    )
    id_header: str | None = optional(
        "idHeader", READS, NAME, "Header with an id that survives redelivery.", note="the dialect's"
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        SOURCE,
        BOOLEAN,
        "true",
        "Whether a journal that is missing, damaged or trimmed fails the query; `false` logs what is gone.",
    )
    allow_loss: bool = option(
        "allowLoss", READS, BOOLEAN, "false", "Go on where nothing could protect the messages (plain topics)."
    )
    max_buffered_bytes: int = option(
        "maxBufferedBytes",
        SOURCE,
        SIZE,
        "256m",
        "Frames a receiver keeps in memory; more go to a temporary file.",
    )
    body_decode_errors: Literal["error", "null", "column"] = option(
        "bodyDecodeErrors",
        READS,
        choice("error", "null", "column"),
        "error",
        "What a body that is invalid in its charset becomes when the schema asks for `body string`: an "
        "error, null, or null with the reason in the column `malformed`.",
    )
    on_malformed: Literal["fail", "column"] = option(
        "onMalformed",
        READS,
        choice("fail", "column"),
        "fail",
        "What a message that breaks the protocol or a limit does: fail the query after everything that came "
        "before it, or become a row with the reason in the column `malformed`.",
    )
    exchange_host: str | None = optional(
        "exchangeHost",
        SOURCE,
        NAME,
        "Address of the driver at which tasks fetch messages.",
        note="`SPARK_LOCAL_IP`, else the machine's own",
    )
    capped: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Options of a stream writer or a batch writer; ``receipt_timeout`` in seconds.

    ``destination`` None leaves the choice to the rows' own column.
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
        pending=f"= true {_NOT_YET}; rows are sent with a receipt each window (transactional=false)",
    )
    dedup_header: str | None = optional(
        "dedupHeader", SINK, NAME, "Header for a deterministic id of each row.", pending=_NOT_YET
    )
    dedup_key: str | None = optional(
        "dedupKey", SINK, NAME, "Column that the id is made from.", pending=_NOT_YET
    )


OPTIONS: Final = tuple(dict.fromkeys((*options_of(SourceOptions), *options_of(SinkOptions))))
"""All options, in the order in which they are documented."""
