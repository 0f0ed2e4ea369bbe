"""How each broker treats a SEND: the headers that it needs, obeys, sets itself or refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_stomp.protocol.encoder import HeaderNames, ValueRule

# Headers that describe a delivery (STOMP 1.2, "MESSAGE") or the SEND before it, and not the message itself.
# A row has them if it was read from a broker.
#
# - RabbitMQ passes ``receipt`` and ``transaction`` of a SEND on to consumers, Artemis passes on ``receipt``.
# - RabbitMQ refuses ``message-id`` on a SEND. Artemis puts it in place of the delivery's.
# - ``persistent`` says how the last broker kept the message. The sink decides how this one keeps it.
# - ``timestamp`` is the time at which the last broker took the message, in that broker's unit.
_DELIVERY = frozenset(
    {
        "ack",
        "content-length",
        "destination",
        "message-id",
        "persistent",
        "receipt",
        "redelivered",
        "subscription",
        "timestamp",
        "transaction",
    }
)

# RabbitMQ distinguishes upper and lower case in these names. If a queue does not exist, it declares the queue
# with the arguments that are among these headers (rabbit_stomp_headers.hrl). Newer releases read more of
# them; the list has those of all releases.
_RABBITMQ = HeaderNames(
    _DELIVERY
    | {
        "auto-delete",
        "durable",
        "exclusive",
        "x-consumer-disconnected-timeout",
        "x-consumer-timeout",
        "x-delivery-limit",
        "x-expires",
        "x-initial-cluster-size",
        "x-internal-queue",
        "x-message-ttl",
        "x-overflow",
        "x-priority",
        "x-single-active-consumer",
        # CC and BCC are further routes, and must be lists. user-id must be the login of the connection.
        "BCC",
        "CC",
        "user-id",
        # Plugins that delay messages or drop duplicates.
        "x-cache-ttl",
        "x-deduplication-header",
        "x-delay",
        # The history of the message.
        "timestamp_in_ms",
        "x-acquired-count",
        "x-death",
        "x-delivery-count",
        "x-received-from",
        "x-routed-by",
    },
    (
        "x-amqp-1.0-",
        "x-basic-",
        "x-dead-letter-",
        "x-delayed-retry-",
        "x-first-death-",
        "x-last-death-",
        "x-max-",
        "x-opt-",
        "x-queue-",
        "x-quorum-",
        "x-stream-",
    ),
    # An exception to the prefixes: it describes the message, so that consumers can filter by it.
    frozenset({"x-stream-filter-value"}),
)

# Names that begin with JMS are reserved for brokers, and ActiveMQ obeys them: JMSExpiration, JMSDeliveryMode,
# JMSXGroupSeq. The group of a message belongs to the message itself.
_JMS = "JMS"
_GROUPS = frozenset({"JMSXGroupID", "_AMQ_GROUP_ID"})

# ActiveMQ and Artemis distinguish upper and lower case in these names.
_ACTIVEMQ = HeaderNames(
    _DELIVERY
    | {
        # How to read the body.
        "amq-msg-type",
        "transformation",
        "transformation-error",
        # Headers of the scheduler.
        "ACTION_END_TIME",
        "ACTION_START_TIME",
        "scheduledJobId",
        # browser marks the end of a browse. The others are the history of the message.
        "browser",
        "dlqDeliveryFailureCause",
        "original-destination",
        "originalExpiration",
    },
    ("AMQ_", "ActiveMQ.", _JMS),
    _GROUPS,
)
_ARTEMIS = HeaderNames(
    # A message from a queue may be sent on to a topic, so destination-type is left out.
    _DELIVERY | {"amqMessageId", "destination-type", "ingress-timestamp"},
    # Properties of the broker for duplicate detection, last values, delays and routes; properties of MQTT,
    # which must be numbers.
    ("AMQ_", "_AMQ", "__AMQ_", "__HDR_", "_HQ_", _JMS, "mqtt."),
    _GROUPS,
)
_BROWSED = frozenset({"browser", "delivery-count"})
_ALL = (_RABBITMQ, _ACTIVEMQ, _ARTEMIS)
# An unknown broker may be any of these, or one that ignores the case of names.
_UNKNOWN = HeaderNames(
    frozenset(name.lower() for known in _ALL for name in known.names) | _BROWSED,
    tuple(sorted({prefix.lower() for known in _ALL for prefix in known.prefixes})),
    _GROUPS | _RABBITMQ.but,
    any_case=True,
)

# Brokers end the connection, often without an ERROR, if they cannot read one of these values.
_PRIORITY = ValueRule("priority", "0*[0-9]", "be from 0 to 9")
_TIMESTAMP = ValueRule("timestamp", "[0-9]{1,18}", "be a whole number")
# A signed number of 64 bits; 0 means that the message never expires.
_EXPIRES = ValueRule("expires", "[0-9]{1,18}|[1-8][0-9]{18}", "be a time in ms, or 0")
# RabbitMQ refuses more than ten years. With 0 the message would expire before a consumer gets it.
_EXPIRATION = ValueRule(
    "expiration",
    "0*(?:[1-9][0-9]{0,10}|[12][0-9]{11}|30[0-9]{10}|31[0-4][0-9]{9})",
    "be from 1 to 314999999999 ms",
)
# If reply-to named a /temp-queue/, RabbitMQ would subscribe on the connection of the sink.
_RABBITMQ_REPLY_TO = ValueRule(
    "reply-to",
    "[^/]*|/exchange/[^/]+(?:/[^/]*)?|/(?:queue|topic|amq/queue)/[^/]+|/reply-queue/(?s:.+)",
    "be a destination that RabbitMQ knows, and not a temporary one",
)
_JMS_REPLY_TO = ValueRule(
    "reply-to",
    r"(?s:(?:.*,)?[\x00-\x20]*/(?:queue|topic|remote-temp-queue|remote-temp-topic)/[\x00-\x20]*(?:,.*)?)",
    "have a name after the kind of destination",
    allowed=False,
)
# Short strings of AMQP. RabbitMQ 4.x ends the connection for a longer one. 3.10 takes it, but no consumer by
# AMQP can get the message.
_LONGEST = 255
_SHORT = tuple(
    ValueRule(name, f"(?s:.{{0,{_LONGEST}}})", f"have at most {_LONGEST} bytes")
    for name in (
        *("correlation-id", "reply-to", "type", "content-type", "content-encoding", "app-id"),
        "amqp-message-id",
    )
)
# A SEND or a SUBSCRIBE to /queue/NAME declares the queue. With other values RabbitMQ deletes it when the
# connection ends, when it is unused, or when RabbitMQ restarts. It reads ``persistent`` as ``durable``.
_OR_LOSE = "or RabbitMQ may delete the queue with its messages"
LASTING = (
    ValueRule("persistent", "true", f"be true, {_OR_LOSE}"),
    ValueRule("durable", "[Tt]rue", f"be true, {_OR_LOSE}"),
    ValueRule("exclusive", "[Ff]alse", f"be false, {_OR_LOSE}"),
    ValueRule("auto-delete", "[Ff]alse", f"be false, {_OR_LOSE}"),
    ValueRule("x-expires", "(?s:.*)", f"be left out, {_OR_LOSE}", allowed=False),
)

BY_NAME: Final = "/amq/queue/"
"""The beginning of a destination of RabbitMQ to which neither SUBSCRIBE nor SEND declares a queue."""


@dataclass(frozen=True)
class Outgoing:
    """How one kind of broker treats a SEND.

    Attributes:
        expires_header: SEND header with the time at which the message expires, in ms since the epoch; None:
            no such header.
        ttl_header: SEND header with the time to live, in ms; None: no such header.
        text_without_length: True if a SEND without ``content-length`` becomes a text message, and any other
            SEND a message of bytes.
        dedup_header: SEND header by which the broker, or a consumer, can recognise copies of a message.
        left_out: headers of rows that are not sent: those that describe an earlier delivery, and those that
            command this broker, which only options may do.
        values: rules for the values of some headers, whether options or rows set them.
        max_header_line: bytes of the longest header line that the broker accepts; None if no limit is known.
        max_header_name: bytes of the longest header name that it accepts; None if no limit is known.
        frame_limit: what to say of the largest frame that the broker accepts by default, in bytes, if it
            closes the connection without a reason after a larger one; None if it says the reason.
        joins_messages: True if a frame may be sent over WebSocket as several messages.
        silent_refusal: why the broker may end the connection without a reason; empty if nothing is known.
        by_name: the beginning of destinations whose queue has to exist, because the broker confirms and drops
            what is sent to any other; None if there are none.
        unescapes_always: True if the broker unescapes headers even in STOMP 1.0 and in CONNECT, which have no
            escapes.
    """

    expires_header: str | None = None
    ttl_header: str | None = None
    text_without_length: bool = False
    dedup_header: str = "dedup-id"
    left_out: HeaderNames = _UNKNOWN
    values: tuple[ValueRule, ...] = (_PRIORITY, _EXPIRES, _EXPIRATION, _TIMESTAMP, *LASTING)
    max_header_line: int | None = None
    max_header_name: int | None = None
    frame_limit: tuple[int, str] | None = None
    silent_refusal: str = ""
    by_name: str | None = None
    joins_messages: bool = False
    unescapes_always: bool = False


GENERIC = Outgoing()
DEVBROKER = Outgoing(
    expires_header="expires", left_out=HeaderNames(_DELIVERY | _BROWSED), values=(_PRIORITY, _EXPIRES)
)
RABBITMQ = Outgoing(
    ttl_header="expiration",
    left_out=_RABBITMQ,
    values=(_PRIORITY, _EXPIRATION, _TIMESTAMP, _RABBITMQ_REPLY_TO, *_SHORT, *LASTING),
    max_header_name=_LONGEST,
    joins_messages=True,
    # Seen with 4.3.6 (November 2026). Default and release are from its documentation.
    frame_limit=(4 << 20, "RabbitMQ from 3.12.2 on accepts 4 MiB unless stomp.max_frame_size says otherwise"),
    silent_refusal="RabbitMQ does so if a queue is full, and its x-overflow (overflow in a policy) is "
    "reject-publish",
    by_name=BY_NAME,
    unescapes_always=True,
)
ACTIVEMQ = Outgoing(
    expires_header="expires",
    text_without_length=True,
    left_out=_ACTIVEMQ,
    values=(_PRIORITY, _EXPIRES, _TIMESTAMP, _JMS_REPLY_TO),
    # Bytes. After a longer line it ends the connection (seen in November 2026).
    max_header_line=10 << 10,
    unescapes_always=True,
)
ARTEMIS = Outgoing(
    expires_header="expires",
    text_without_length=True,
    # It drops a message if one of the last id-cache-size messages at that address had the same value.
    dedup_header="_AMQ_DUPL_ID",
    joins_messages=True,
    left_out=_ARTEMIS,
    values=(_PRIORITY, _EXPIRES),
)
