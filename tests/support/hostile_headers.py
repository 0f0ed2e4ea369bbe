"""Headers by which a producer's message tells a broker what to do with it, with good values and nonsense.

From the brokers' documentation and sources; what the connector leaves out is not read from the connector.
"""

from __future__ import annotations

from support.brokers import Broker

_NUMBERS = ("", "abc", "-1", "1", "9" * 20)

DELIVERY = (
    "ack", "content-length", "destination", "message-id", "persistent", "receipt", "redelivered",
    "subscription", "timestamp", "transaction",
)  # fmt: skip
_JMS = (
    "JMSCorrelationID", "JMSDeliveryMode", "JMSDestination", "JMSExpiration", "JMSMessageID", "JMSPriority",
    "JMSRedelivered", "JMSReplyTo", "JMSTimestamp", "JMSType", "JMSXDeliveryCount", "JMSXGroupSeq",
    "JMSXProducerTXID", "JMSXUserID", "JMSXGroupFirstForConsumer", "JMSActiveMQBrokerInTime",
)  # fmt: skip
_SCHEDULED = (
    "AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT",
    "AMQ_SCHEDULED_TIME", "AMQ_SCHEDULER_ACTION",
)  # fmt: skip
COMMANDS: dict[str, tuple[str, ...]] = {
    "rabbitmq": (
        "auto-delete", "BCC", "CC", "durable", "exclusive", "user-id", "x-consumer-timeout",
        "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-death", "x-delay",
        "x-delivery-count", "x-delivery-limit", "x-expires", "x-first-death-queue", "x-max-age",
        "x-max-in-memory-bytes", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-message-ttl",
        "x-overflow", "x-queue-leader-locator", "x-queue-mode", "x-queue-name", "x-queue-type",
        "x-quorum-initial-group-size", "x-received-from", "x-single-active-consumer",
        "x-stream-filter-size-bytes", "x-stream-max-segment-size-bytes",
    ),
    "activemq": (
        *_JMS, *_SCHEDULED, "ActiveMQ.Retain", "ActiveMQ.Retained", "amq-msg-type", "browser",
        "dlqDeliveryFailureCause", "original-destination", "originalExpiration", "scheduledJobId",
        "transformation", "transformation-error",
    ),
    "artemis": (
        *_JMS, *_SCHEDULED, "_AMQ_ACK_ROUTE_TO", "_AMQ_ACTUAL_EXPIRY", "_AMQ_BRIDGE_DUP", "_AMQ_DUPL_ID",
        "_AMQ_GROUP_SEQUENCE", "_AMQ_INGRESS_TIMESTAMP", "_AMQ_LARGE_COMPRESSED", "_AMQ_LARGE_SIZE",
        "_AMQ_LVQ_NAME", "_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "_AMQ_PREFIX", "_AMQ_ROUTE_TO",
        "_AMQ_ROUTING_TYPE", "_AMQ_SCALEDOWN_TO", "_AMQ_SCHED_DELIVERY", "_AMQ_VALIDATED_USER", "__AMQ_CID",
        "destination-type", "ingress-timestamp",
    ),
}  # fmt: skip
COMMANDS["generic"] = tuple(dict.fromkeys(name for names in COMMANDS.values() for name in names))

# What a message may say of itself, so that a value is checked. Those that expire at once do so.
CHECKED: dict[str, tuple[str, ...]] = {
    "priority": ("", "banana", "-1", "0", "9", "10", "4.0", "99999999999"),
    "expires": ("", "banana", "-1", "0", "4.0", "9999999999999", "4611686018427387904", "9" * 20),
    "expiration": ("", "banana", "-1", "0", "4.0", "600000", "315360000001", "9" * 20),
    "reply-to": (
        "", "banana", "a/b", "/", "/foo/bar", "/queue/a", "/queue/", "/queue/ ", "/queue/,", "/topic/",
        "/queue/a/b", "/exchange/", "/exchange/a/b/c", "/temp-queue/", "/temp-queue/a", "/remote-temp-queue/",
        "/remote-temp-queue/ID:a", "/reply-queue/", "/reply-queue/", "/reply-queue/a", "/amq/queue/",
    ),
}  # fmt: skip
_VALUES = {
    "AMQ_SCHEDULED_CRON": ("* * * * *", "abc", ""),
    "JMSDeliveryMode": ("abc", "NON_PERSISTENT", "1"),
    "amq-msg-type": ("abc", "text", "bytes"),
    "browser": ("end", "true"),
    "destination-type": ("MULTICAST", "abc"),
    "transformation": ("jms-byte", "jms-map-json", "abc", ""),
    "x-queue-type": ("quorum", "stream", "abc"),
}


def values_of(broker: Broker) -> list[tuple[str, str]]:
    """Every such header with each of its values, for this broker; then what any message may say."""
    names = (*DELIVERY, *COMMANDS[broker.dialect], "Receipt", "Content-Length")
    hostile = [(name, value) for name in names for value in _VALUES.get(name, _NUMBERS)]
    said = ("content-type", "correlation-id", "type", "JMSXGroupID", "id", "selector", "own")
    plain = [(name, value) for name in said for value in ("", "abc", "-1", "x" * 300)]
    checked = [(name, value) for name, values in CHECKED.items() for value in values]
    return [*hostile, *checked, *plain]
