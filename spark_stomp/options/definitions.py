"""Every option, declared once: key, where it applies, kind of value, default and meaning.

The parser, the contradictions and the README's table all read these declarations; nothing else knows an
option's key or default. Defaults are written as a user would write them and parsed like any other value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, cast

from spark_stomp.options.endpoint import ENDPOINTS
from spark_stomp.options.kinds import (
    BOOLEAN,
    HEADERS,
    NAME,
    SIZE,
    TEXT,
    TIMEOUT,
    Kind,
    choice,
    choices,
    heartbeat_pair,
    integer,
    name_list,
)

__all__ = ["OPTIONS", "Option", "Scope"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Scope = Literal["source", "batch", "sink"]

SOURCE: Final[frozenset[Scope]] = frozenset({"source"})
BATCH: Final[frozenset[Scope]] = frozenset({"batch"})
SINK: Final[frozenset[Scope]] = frozenset({"sink"})
READS: Final = SOURCE | BATCH
EVERYWHERE: Final = READS | SINK


@dataclass(frozen=True)
class Option(Generic[T_co]):
    """One option.

    ``scopes`` says who takes it: ``source`` (``readStream``), ``batch`` (``read``), ``sink`` (``write`` and
    ``writeStream``). ``default`` is text as a user would write it, None where there is none; ``default_note``
    replaces it in the README where the default follows from other options. A ``required`` option has no
    default. An option with a ``pending`` reason is understood, and refused with that reason when it is set to
    anything but its default.
    """

    key: str
    scopes: frozenset[Scope]
    kind: Kind[Any]
    default: str | None
    meaning: str
    default_note: str = ""
    required: bool = False
    secret: bool = False
    pending: str = ""

    def parse(self, raw: str) -> T_co:
        """The value of ``raw``; ValueError with the reason alone where it has none."""
        value: T_co = self.kind.parse(raw)
        return value

    @property
    def default_value(self) -> T_co:
        """The parsed default; None where there is none."""
        return cast("T_co", None if self.default is None else self.kind.parse(self.default))


def _with(kind: Kind[T], scopes: frozenset[Scope], key: str, default: str, meaning: str) -> Option[T]:
    """An option that always has a value."""
    return Option(key, scopes, kind, default, meaning)


def _maybe(
    kind: Kind[T], scopes: frozenset[Scope], key: str, meaning: str, *, note: str = "", secret: bool = False
) -> Option[T | None]:
    """An option whose value is None unless it is given."""
    return Option(key, scopes, kind, None, meaning, default_note=note, secret=secret)


_NOT_YET: Final = "is not available in this version"

URL = Option[tuple[Any, ...]](
    "url", EVERYWHERE, ENDPOINTS, None, "Address of the broker.", required=True, default_note="required"
)
LOGIN = _maybe(NAME, EVERYWHERE, "login", "User name.")
PASSWORD = _maybe(TEXT, EVERYWHERE, "password", "Password. Spark redacts it in plans and logs.", secret=True)
VIRTUAL_HOST = _with(NAME, EVERYWHERE, "virtualHost", "/", "The `host` header of CONNECT.")
ACCEPT_VERSIONS = _with(
    choices("1.2", "1.1", "1.0", "lenient"),
    EVERYWHERE,
    "acceptVersions",
    "1.2,1.1,1.0",
    "STOMP versions offered. `lenient` also takes peers that bend the rules.",
)
HEARTBEAT = _with(
    heartbeat_pair,
    EVERYWHERE,
    "heartbeat",
    "10s,10s",
    "Heart-beats offered and asked for.",
)
CONNECT_TIMEOUT = _with(
    TIMEOUT, EVERYWHERE, "connectTimeout", "10s", "Time for the connection, TLS and CONNECTED, per address."
)
CONNECT_HEADERS = _with(
    HEADERS,
    EVERYWHERE,
    "connectHeaders",
    "{}",
    "More headers of CONNECT. Shown in plans: put no secrets here.",
)
SECRET_CONNECT_HEADERS = _with(
    HEADERS, EVERYWHERE, "secretConnectHeaders", "{}", "The same, redacted by Spark."
)
CLIENT_ID = _maybe(
    NAME, EVERYWHERE, "clientId", "The `client-id` header of CONNECT (durable topic subscriptions)."
)
BROKER = _with(
    choice("auto", "rabbitmq", "activemq", "artemis", "devbroker", "generic"),
    EVERYWHERE,
    "broker",
    "auto",
    "The broker's dialect. `auto` goes by the `server` header of CONNECTED.",
)
TLS_CA_FILE = _maybe(
    NAME, EVERYWHERE, "tlsCaFile", "PEM file of the authorities to trust.", note="the system's"
)
TLS_CERT_FILE = _maybe(NAME, EVERYWHERE, "tlsCertFile", "PEM file of the client's certificate.")
TLS_KEY_FILE = _maybe(
    NAME, EVERYWHERE, "tlsKeyFile", "PEM file of its private key.", note="that of `tlsCertFile`"
)
TLS_KEY_PASSWORD = _maybe(TEXT, EVERYWHERE, "tlsKeyPassword", "Password of that key.", secret=True)
TLS_VERIFY = _with(
    BOOLEAN, EVERYWHERE, "tlsVerify", "true", "Whether the broker's certificate and host name must be valid."
)
MAX_FRAME_BYTES = _with(
    SIZE,
    EVERYWHERE,
    "maxFrameBytes",
    "256m",
    "Largest frame taken from the broker; a larger one fails.",
)
MAX_BODY_BYTES = Option[int | None](
    "maxBodyBytes",
    EVERYWHERE,
    SIZE,
    None,
    "Largest body.",
    default_note="`128m`, or `maxFrameBytes` where that is less",
)
MAX_HEADER_LINE_BYTES = _with(SIZE, EVERYWHERE, "maxHeaderLineBytes", "64k", "Longest header line.")
MAX_HEADERS = _with(integer(1), EVERYWHERE, "maxHeaders", "1000", "Most headers of one frame.")

DESTINATIONS = Option[tuple[str, ...]](
    "destination",
    READS,
    name_list,
    None,
    "What to subscribe to. `load(...)` sets it too.",
    required=True,
    default_note="required",
)
RECEIVERS = _with(
    integer(1),
    SOURCE,
    "receivers",
    "1",
    "Connections per destination. More than one only for a queue, or where a durable subscription can be "
    "shared.",
)
RECEIVER_PLACEMENT = Option[str](
    "receiverPlacement",
    SOURCE,
    choice("driver", "executors"),
    "driver",
    "Where the receivers run.",
    pending=f"= executors {_NOT_YET}; receivers run in the driver (receiverPlacement=driver)",
)
PREFETCH = _maybe(
    integer(1),
    SOURCE,
    "prefetch",
    "Most messages that a receiver holds un-acknowledged, as the broker is told.",
    note="2 × `maxMessagesPerTrigger`, else `10000`",
)
SELECTOR = _maybe(TEXT, READS, "selector", "Filter that the broker applies, where it has any.")
SUBSCRIBE_HEADERS = _with(HEADERS, READS, "subscribeHeaders", "{}", "More headers of SUBSCRIBE.")
DURABLE_NAME = _maybe(
    NAME,
    SOURCE,
    "durableName",
    "Name of a durable topic subscription: the broker keeps messages while no receiver is there. Needs "
    "`clientId` on ActiveMQ and Artemis.",
)
MAX_MESSAGES_PER_TRIGGER = _maybe(
    integer(1), SOURCE, "maxMessagesPerTrigger", "Most messages of a batch.", note="all there are"
)
MIN_MESSAGES_PER_TRIGGER = _maybe(
    integer(1), SOURCE, "minMessagesPerTrigger", "Messages that a batch waits for."
)
MAX_TRIGGER_DELAY = _maybe(
    TIMEOUT,
    SOURCE,
    "maxTriggerDelay",
    "Longest wait for `minMessagesPerTrigger`.",
    note="`15m` with `minMessagesPerTrigger`",
)
MAX_BYTES_PER_TRIGGER = _maybe(
    SIZE,
    SOURCE,
    "maxBytesPerTrigger",
    "Most bytes of a batch; one message always goes.",
    note="all there are",
)
IDLE_TIMEOUT = _with(
    TIMEOUT,
    READS,
    "idleTimeout",
    "2s",
    "Silence after which AvailableNow, Once and batch reads have everything.",
)
MAX_DRAIN_TIME = _with(
    TIMEOUT, READS, "maxDrainTime", "1h", "When those end at the latest, even while producers go on."
)
MAX_MESSAGES = _with(integer(1), BATCH, "maxMessages", "1000", "Most messages that a batch read looks at.")
ACK_AFTER = Option[str](
    "ackAfter",
    SOURCE,
    choice("commit", "journal"),
    "commit",
    "When a message is acknowledged: once Spark has committed its batch, or once it is in the journal.",
)
ACK_RECEIPT_TIMEOUT = _with(
    TIMEOUT,
    SOURCE,
    "ackReceiptTimeout",
    "30s",
    "Longest wait for the broker's receipt of ACKs; then the connection counts as dead.",
)
RECONNECT_TIMEOUT = _with(
    TIMEOUT,
    SOURCE,
    "reconnectTimeout",
    "5m",
    "How long a lost connection is tried again before the query fails.",
)
JOURNAL = _maybe(
    NAME,
    SOURCE,
    "journal",
    "Where messages are made durable before Spark sees them: a directory of this query's own, or a URI of "
    "one in an object store.",
)
JOURNAL_MAX_BYTES = _with(
    SIZE,
    SOURCE,
    "journalMaxBytes",
    "4g",
    "What the journal may take up. At the bound messages wait, un-acknowledged, for Spark's commits.",
)
CHECKPOINT_LOCATION = _maybe(
    NAME,
    SOURCE,
    "checkpointLocation",
    "The query's checkpoint, as evidence of commits: the last batch is acknowledged without waiting for the "
    "next trigger.",
)
ID_HEADER = _maybe(
    NAME, READS, "idHeader", "Header with an id that survives redelivery.", note="the dialect's"
)
FAIL_ON_DATA_LOSS = Option[bool](
    "failOnDataLoss",
    SOURCE,
    BOOLEAN,
    "true",
    "Whether a journal that is missing, damaged or trimmed fails the query; `false` logs what is gone.",
)
ALLOW_LOSS = _with(
    BOOLEAN, SOURCE, "allowLoss", "false", "Go on where nothing could protect the messages (plain topics)."
)
MAX_BUFFERED_BYTES = _with(
    SIZE,
    SOURCE,
    "maxBufferedBytes",
    "256m",
    "Frames a receiver keeps in memory; more go to a temporary file.",
)
BODY_DECODE_ERRORS = Option[Literal["error", "null"]](
    "bodyDecodeErrors",
    READS,
    choice("error", "null"),
    "error",
    "What a body that is invalid in its charset becomes when the schema asks for `body string`.",
)
EXCHANGE_HOST = _maybe(
    NAME,
    SOURCE,
    "exchangeHost",
    "Address of the driver at which tasks fetch messages.",
    note="`SPARK_LOCAL_IP`, else the machine's own",
)

SINK_DESTINATION = _maybe(
    NAME, SINK, "destination", "Where to send every row. Wins over the column.", note="the column"
)
SEND_HEADERS = _with(
    HEADERS, SINK, "sendHeaders", "{}", "Headers of every SEND. The row's own `headers` win."
)
RECEIPT_WINDOW = _with(
    integer(1), SINK, "receiptWindow", "1000", "Messages that a task sends ahead of the broker's receipts."
)
RECEIPT_TIMEOUT = _with(
    TIMEOUT, SINK, "receiptTimeout", "30s", "Longest wait for a receipt; then the task fails."
)
TRANSACTIONAL = Option[bool](
    "transactional",
    SINK,
    BOOLEAN,
    "false",
    "One transaction per task.",
    pending=f"= true {_NOT_YET}; rows are sent with a receipt each window (transactional=false)",
)
DEDUP_HEADER = Option[str | None](
    "dedupHeader", SINK, NAME, None, "Header for a deterministic id of each row.", pending=f"{_NOT_YET}"
)
DEDUP_KEY = Option[str | None](
    "dedupKey", SINK, NAME, None, "Column that the id is made from.", pending=f"{_NOT_YET}"
)

OPTIONS: Final[tuple[Option[Any], ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Option)
)
"""All options, in the order in which they are declared (and documented)."""
