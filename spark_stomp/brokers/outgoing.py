"""What each broker makes of a SEND: how it spells what a message is like, and what it sets or obeys."""

from __future__ import annotations

from dataclasses import dataclass

from spark_stomp.protocol.encoder import HeaderNames, ValueRule

# Headers that say something of a delivery (STOMP 1.2, "MESSAGE") or of the SEND before it, not the message.
# RabbitMQ hands a producer's ``receipt`` and ``transaction`` to consumers, Artemis its ``receipt``. RabbitMQ
# refuses a ``message-id`` on SEND; Artemis puts it in the place of the delivery's. ``persistent`` says how
# the last broker kept the message; whether this one does is for the sink to say. ``timestamp`` is when the
# last broker took it, in a unit of its own.
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

# RabbitMQ reads the names exactly as they are here. It declares a queue that is not there as these say
# (rabbit_stomp_headers.hrl). Which arguments of a queue it reads grows from release to release: here are all.
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
        # Further routes, which must be lists, and the login, which must be that of the connection.
        "BCC",
        "CC",
        "user-id",
        # Plugins: delayed messages, and messages that are dropped because they were there before.
        "x-cache-ttl",
        "x-deduplication-header",
        "x-delay",
        # What became of it on its way.
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
    # It says what the message is about, to consumers that want only some.
    frozenset({"x-stream-filter-value"}),
)

# What JMS reserves for providers begins with JMS, and ActiveMQ obeys it: JMSExpiration, JMSDeliveryMode,
# JMSXGroupSeq. Which group a message belongs to is the message's own.
_JMS = "JMS"
_GROUPS = frozenset({"JMSXGroupID", "_AMQ_GROUP_ID"})

# ActiveMQ and Artemis read the names exactly as they are here.
_ACTIVEMQ = HeaderNames(
    _DELIVERY
    | {
        # How the body is to be read.
        "amq-msg-type",
        "transformation",
        "transformation-error",
        # The scheduler's.
        "ACTION_END_TIME",
        "ACTION_START_TIME",
        "scheduledJobId",
        # A browse ends with the first of these; the rest says what became of the message.
        "browser",
        "dlqDeliveryFailureCause",
        "original-destination",
        "originalExpiration",
    },
    ("AMQ_", "ActiveMQ.", _JMS),
    _GROUPS,
)
_ARTEMIS = HeaderNames(
    # What was a queue's may go on to a topic.
    _DELIVERY | {"amqMessageId", "destination-type", "ingress-timestamp"},
    # Duplicate detection, last values, delays, routes: the broker's own properties. Of MQTT it reads numbers.
    ("AMQ_", "_AMQ", "__AMQ_", "__HDR_", "_HQ_", _JMS, "mqtt."),
    _GROUPS,
)
_BROWSED = frozenset({"browser", "delivery-count"})
_ALL = (_RABBITMQ, _ACTIVEMQ, _ARTEMIS)
# Any of these may be behind it, or a broker that takes names in any case.
_UNKNOWN = HeaderNames(
    frozenset(name.lower() for known in _ALL for name in known.names) | _BROWSED,
    tuple(sorted({prefix.lower() for known in _ALL for prefix in known.prefixes})),
    _GROUPS | _RABBITMQ.but,
    any_case=True,
)

# Brokers end the connection, often without an ERROR, if they cannot read one of these.
_PRIORITY = ValueRule("priority", "0*[0-9]", "be from 0 to 9")
_TIMESTAMP = ValueRule("timestamp", "[0-9]{1,18}", "be a whole number")
# A signed number of 64 bits; 0 is never.
_EXPIRES = ValueRule("expires", "[0-9]{1,18}|[1-8][0-9]{18}", "be a time in ms, or 0")
# RabbitMQ refuses more than ten years; 0 has the message gone before anybody gets it.
_EXPIRATION = ValueRule(
    "expiration",
    "0*(?:[1-9][0-9]{0,10}|[12][0-9]{11}|30[0-9]{10}|31[0-4][0-9]{9})",
    "be from 1 to 314999999999 ms",
)
# It opens a subscription for /temp-queue/, on the connection of the sink.
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


@dataclass(frozen=True)
class Outgoing:
    """How one kind of broker takes messages.

    Attributes
    ----------
    expires_header : SEND header with the time at which the message expires, in ms since the epoch; None if
        there is none.
    ttl_header : SEND header with how long the message lives, in ms; None if there is none.
    text_without_length : a SEND without ``content-length`` is a text message, any other has bytes.
    dedup_header : SEND header by which copies of a message are to be recognised, by the broker or by others.
    left_out : headers of a MESSAGE that say nothing of the next message with its body, and headers of a SEND
        that command this broker: only options may.
    values : what values of rows it takes.
    max_header_line : bytes of the longest header line that it takes; None if no limit is known.
    unescapes_always : it unescapes headers under STOMP 1.0, which has no escapes.
    """

    expires_header: str | None = None
    ttl_header: str | None = None
    text_without_length: bool = False
    dedup_header: str = "dedup-id"
    left_out: HeaderNames = _UNKNOWN
    values: tuple[ValueRule, ...] = (_PRIORITY, _EXPIRES, _EXPIRATION, _TIMESTAMP)
    max_header_line: int | None = None
    unescapes_always: bool = False


GENERIC = Outgoing()
DEVBROKER = Outgoing(left_out=HeaderNames(_DELIVERY | _BROWSED), values=(_PRIORITY,))
RABBITMQ = Outgoing(
    ttl_header="expiration",
    left_out=_RABBITMQ,
    values=(_PRIORITY, _EXPIRATION, _TIMESTAMP, _RABBITMQ_REPLY_TO),
    unescapes_always=True,
)
ACTIVEMQ = Outgoing(
    expires_header="expires",
    text_without_length=True,
    left_out=_ACTIVEMQ,
    values=(_PRIORITY, _EXPIRES, _TIMESTAMP, _JMS_REPLY_TO),
    # It ends the connection beyond.
    max_header_line=10 << 10,
    unescapes_always=True,
)
ARTEMIS = Outgoing(
    expires_header="expires",
    text_without_length=True,
    # It drops a message whose value it has seen at that address, among the last id-cache-size ones.
    dedup_header="_AMQ_DUPL_ID",
    left_out=_ARTEMIS,
    values=(_PRIORITY, _EXPIRES),
)
