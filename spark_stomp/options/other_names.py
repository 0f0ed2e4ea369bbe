"""Other names for these options: of Spark's Kafka source, JMS and STOMP clients.

Only the likeliest names are here. Each leads to this connector's option with the same purpose, or to a
sentence that says why there is none. :func:`nearest` is for misspelled names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from spark_stomp.options.fields import Scope

_EVERYWHERE: Final = {
    "use url, as in stomp://broker.example:61613": "brokerUrl bootstrapServers servers",
    "it is a part of url, as in stomp://broker.example:61613": "host port",
    "use a url that begins with stomp+ssl:// or wss://": "ssl tls useSsl",
    "use login": "user userName",
    "use password, which Spark redacts in plans and logs": "passcode pass token",
    "use virtualHost": "vhost",
    "use connectTimeout": "connectionTimeout timeout",
    "use reconnectTimeout: it bounds how long the connector tries to reconnect": "retries maxRetries",
    "use tlsCaFile": "caCert trustStore",
    "use tlsVerify": "verify insecure",
}
_READS: Final = {
    "use destination, as in /queue/orders or /topic/prices": "queue queueName topic topicName subscribe",
    "use destination, with the broker's own wildcards if it has any": "subscribePattern",
    "use startingOffsets, for a stream of RabbitMQ": "startingTimestamp autoOffsetReset",
    "there are no partitions. Use connections, and repartition() after load()": "minPartitions numPartitions",
    "there are no consumer groups: all readers of a queue share its messages": "groupId",
    "the columns headers and header_history have them, see .schema(...)": "includeHeaders",
    "use .schema(...): the column body is binary, or text with body string": "format encoding",
    "use selector": "messageSelector filter",
    "use failOnMissingQueue": "missingQueuesFatal missingQueue passive",
    "use maxMessagesPerTrigger, or maxMessages in a batch read": "maxOffsetsPerTrigger batchSize limit",
    "use minMessagesPerTrigger": "minOffsetsPerTrigger",
    "use prefetch": "prefetchCount prefetchSize",
    "use connections": "consumers concurrentConsumers",
    "use durableName": "durable subscriptionName",
    "messages are acknowledged once Spark has committed their batch, see ackAfter": "ack ackMode autoAck",
    "the sender decides. To keep messages of a topic while no query runs, use durableName": "persistent",
    "the sender decides how long a message lives, and the broker discards it then": "ttl expiration",
}
_WRITES: Final = {
    "use destination, as in /queue/orders, or the column destination": "queue queueName topic topicName",
    "use sendHeaders, or the column headers": "headers correlationId replyTo",
    "use persistent": "deliveryMode durable",
    "use ttl": "expiration timeToLive",
    "use dedupKey, which makes an id from columns": "id messageId key",
    "every message is confirmed by the broker's receipt, see receiptWindow and receiptTimeout": "acks",
    "use receiptWindow": "batchSize",
    "use messageType for bytes or text, and to_json(...) or cast(...) for the column body": "format encoding",
    "use deadLetterDestination with onError = deadletter": "deadLetterQueue",
}
# Likeness from 0 to 1, as difflib counts it: a letter or two may be wrong.
_ALIKE: Final = 0.8


def letters(key: str) -> str:
    """A name in lower case, with letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _by_name(*tables: Mapping[str, str]) -> dict[str, str]:
    return {
        letters(name): remedy for table in tables for remedy, names in table.items() for name in names.split()
    }


_FOR_READS: Final = _by_name(_EVERYWHERE, _READS)
REMEDIES: Final[dict[Scope, dict[str, str]]] = {
    "source": _FOR_READS,
    "batch": _FOR_READS,
    "sink": _by_name(_EVERYWHERE, _WRITES),
}
"""What to do instead of an option that another system has; keys are names as :func:`letters` makes them."""


def remedy(key: str, scope: Scope) -> str | None:
    """What to do instead of setting another system's option of this name; None if the name is unknown."""
    return REMEDIES[scope].get(letters(key.lower().removeprefix("kafka.")))


def nearest(key: str, keys: Iterable[str]) -> str | None:
    """The one of ``keys`` that a user who wrote ``key`` most likely meant; None if none is similar."""
    spelt = {letters(known): known for known in keys}
    found = difflib.get_close_matches(letters(key.removeprefix("stomp.")), spelt, n=1, cutoff=_ALIKE)
    return spelt[found[0]] if found else None
