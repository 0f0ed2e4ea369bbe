"""Other names for these options: of Spark's Kafka source, JMS, STOMP clients, and earlier releases.

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
    "use url, as in stomp://broker.example:61613": (
        "brokerUrl broker_url server servers uri bootstrapServers endpoint address"
    ),
    "it is a part of url, as in stomp://broker.example:61613": "host hosts hostAndPorts port",
    "use a url that begins with stomp+ssl:// or wss://": "ssl tls useSsl useTls securityProtocol",
    "use login": "user userName",
    "use password, which Spark redacts in plans and logs; it would show passcode": "passcode",
    "use password, which Spark redacts in plans and logs": "pass pwd",
    "use password, or secretConnectHeaders if the broker wants a header": "token accessToken",
    "use virtualHost": "vhost vpn",
    "use heartbeat, as in 10s,10s": "heartbeats keepAlive",
    "use connectTimeout": "connectionTimeout",
    "there is one for each kind of wait: connectTimeout, reconnectTimeout and others": "timeout",
    "use reconnectTimeout: it bounds how long the connector tries to reconnect": (
        "retries maxRetries reconnectAttempts reconnectAttemptsMax failover"
    ),
    "use acceptVersions": "version protocolVersion",
    "use tlsCaFile": "caCert caCerts trustStore sslTruststoreLocation",
    "use tlsCertFile": "cert keyStore sslKeystoreLocation",
    "use tlsVerify": "verify verifySsl insecure",
}
_READS: Final = {
    "use destination, as in /queue/orders or /topic/prices": (
        "queue queueName topic topicName topics subscribe"
    ),
    "use destination, with the broker's own wildcards if it has any": ("subscribePattern"),
    "it names partitions, and a queue has none. Use destination": "assign",
    "use startingOffsets, for a stream of RabbitMQ; a queue begins with what is not acknowledged": (
        "startingTimestamp startingOffsetsByTimestamp autoOffsetReset"
    ),
    "STOMP does not say which offset a time has. Use endingOffsets = latest, or filter the rows": (
        "endingTimestamp endingOffsetsByTimestamp"
    ),
    "there are no partitions. Use connections for more of them, and repartition() after load()": (
        "minPartitions numPartitions partitions"
    ),
    "there are no consumer groups: all readers of a queue share its messages. For a topic see durableName": (
        "groupId consumerGroup"
    ),
    "there is nothing to set: the columns headers and header_history have them. Use .schema(...) to choose": (
        "includeHeaders headers"
    ),
    "use .schema(...): the column body is binary, or text with body string": "format encoding charset",
    "use selector": "messageSelector filter",
    "use maxMessagesPerTrigger, or maxMessages in a batch read": (
        "maxOffsetsPerTrigger maxRowsPerTrigger maxFilesPerTrigger maxPollRecords batchSize limit"
    ),
    "use minMessagesPerTrigger": "minOffsetsPerTrigger",
    "use prefetch": "prefetchCount prefetchSize consumerWindowSize",
    "use connections": "consumers concurrency concurrentConsumers",
    "use connections, which counts those of all destinations together": "receivers",
    "they run in the driver, and there is nothing to set": "receiverPlacement",
    "use frameServerHost": "exchangeHost",
    "use frameServerPort": "exchangePort",
    "use frameServerTls": "exchangeTls",
    "use durableName": "durable subscriptionName durableSubscriptionName",
    "use idleTimeout": "receiveTimeout pollTimeout",
    "use .trigger(processingTime=...) on the query": "trigger triggerInterval processingTime",
    "messages are acknowledged once Spark has committed their batch, see ackAfter": (
        "ack acks ackMode acknowledge acknowledgeMode autoAck autoCommit transacted"
    ),
    "receivers pause at maxBufferedBytes, and there are no temporary files": "maxSpillBytes",
    "the sender decides. To keep messages of a topic while no query runs, use durableName": (
        "persistent deliveryMode"
    ),
    "the sender decides how long a message lives, and the broker discards it then": (
        "ttl expiration timeToLive"
    ),
}
_WRITES: Final = {
    "use destination, as in /queue/orders, or the column destination": "queue queueName topic topicName",
    "use sendHeaders, or the column headers": "headers includeHeaders properties",
    'use sendHeaders, as in {"correlation-id": "..."}, or the column correlation_id': "correlationId",
    'use sendHeaders, as in {"reply-to": "..."}, or the column reply_to': "replyTo",
    "use persistent": "deliveryMode durable",
    "use ttl": "expiration expires timeToLive",
    "use dedupKey, which makes an id from columns": "id messageId key",
    "every message is confirmed by the broker's receipt, see receiptWindow and receiptTimeout": (
        "acks ack receipt confirm mandatory"
    ),
    "there are no transactions: a batch has succeeded once every receipt has come": (
        "transacted transaction transactional"
    ),
    "use receiptWindow": "batchSize bufferSize maxInFlight",
    "use receiptTimeout": "sendTimeout deliveryTimeout",
    "there are no partitions: repartition() the rows before they are written": "partitions numPartitions",
    "use messageType for bytes or text, and to_json(...) or cast(...) for the column body": "format encoding",
    "use deadLetterDestination with onError = deadletter": "deadLetterQueue dlq",
}
# Names with a prefix. What follows the prefix is looked up first.
_PREFIXES: Final = {
    "kafka.": "it belongs to Kafka's client. The address of the broker is url",
    "solace.": "it belongs to Solace's own client. STOMP's headers of CONNECT are connectHeaders",
    "activemq.": "it is a header of ActiveMQ: use subscribeHeaders of a read, sendHeaders of a write",
    "jms.": "it belongs to JMS. STOMP has only headers: subscribeHeaders of a read, sendHeaders of a write",
    "spark.": "it belongs to Spark's configuration: set it with SparkSession.builder.config(...)",
}
# Likeness from 0 to 1, as difflib counts it: a letter or two may be wrong. A judgement, not measured.
_ALIKE: Final = 0.8


def plain(key: str) -> str:
    """A name in lower case, with letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _by_name(*tables: Mapping[str, str]) -> dict[str, str]:
    return {
        plain(name): remedy for table in tables for remedy, names in table.items() for name in names.split()
    }


_FOR_READS: Final = _by_name(_EVERYWHERE, _READS)
REMEDIES: Final[dict[Scope, dict[str, str]]] = {
    "source": _FOR_READS,
    "batch": _FOR_READS,
    "sink": _by_name(_EVERYWHERE, _WRITES),
}
"""What to do instead of an option that another system has; keys are :func:`plain` names."""


def remedy(key: str, scope: Scope) -> str | None:
    """What to do instead of setting another system's option of this name; None if the name is unknown."""
    prefix, dot, rest = key.lower().partition(".")
    of_prefix = _PREFIXES.get(prefix + dot)
    return REMEDIES[scope].get(plain(rest if of_prefix else key), of_prefix)


def nearest(key: str, keys: Iterable[str]) -> str | None:
    """The one of ``keys`` that a user who wrote ``key`` most likely meant; None if none is similar."""
    spelt = {plain(known): known for known in keys}
    found = difflib.get_close_matches(plain(key.removeprefix("stomp.")), spelt, n=1, cutoff=_ALIKE)
    return spelt[found[0]] if found else None
