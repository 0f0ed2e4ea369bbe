"""What options are called elsewhere: by Spark's Kafka source, Solace, JMS and the clients of STOMP.

Each name leads to the option of this connector that does the same, or to a sentence that says why there is
none. Names that are only misspelled are not here: for them there is :func:`nearest`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from spark_stomp.options.fields import Scope

_URL: Final = "use url, as in stomp://broker.example:61613"
_ADDRESS: Final = "it is a part of url, as in stomp://broker.example:61613"
_ENCRYPTED: Final = "use a url that begins with stomp+ssl:// or wss://"
_USE_DESTINATION: Final = "use destination, as in /queue/orders or /topic/prices"
_PASSWORD: Final = "use password, which Spark redacts in plans and logs"
_HEARTBEAT: Final = "use heartbeat, as in 10s,10s"
_NO_POSITIONS: Final = (
    "a broker has no positions to start or end at. A query begins with what is not acknowledged yet"
)
_NO_PARTITIONS: Final = (
    "there are no partitions. Use receivers for more connections, and repartition() after load()"
)
_NO_GROUPS: Final = (
    "there are no consumer groups: all who read a queue share its messages. For a topic see durableName"
)
_ACKS: Final = "messages are acknowledged once Spark has committed their batch, see ackAfter"
_TIMEOUTS: Final = "timeout requestTimeout socketTimeout readTimeout operationTimeout"
_RETRIES: Final = (
    "retries maxRetries connectRetries reconnectRetries retryCount numRetries reconnect reconnectAttempts "
    "reconnectAttemptsMax autoReconnect reconnectDelay reconnectSleepInitial reconnectRetryWait "
    "reconnectRetryWaitInMillis retryInterval failover initialReconnectDelay maxReconnectAttempts"
)
_GROUPS: Final = "group groupId groupIdPrefix kafkaGroupId consumerGroup consumerTag subscriptionType"
_ACK_MODES: Final = (
    "ack acks ackMode acknowledge acknowledgement acknowledgeMode acknowledgmentMode autoAck autoCommit "
    "enableAutoCommit ackLastProcessedMessages sessionTransacted transacted transactional"
)
_METRICS: Final = "status metrics metricsFile statusPath"
_BATCH_SIZES: Final = (
    "limit count n maxRows maxRecords maxOffsetsPerTrigger maxRecordsPerTrigger maxRowsPerTrigger "
    "maxEventsPerTrigger maxFilesPerTrigger rowsPerBatch batchSize maxBatchSize maxPollRecords rateLimit "
    "maxRatePerPartition maxMessagesPerBatch"
)
_TLS_NAMES: Final = {
    "tlsCaFile": "cacert cacerts cafile caCertFile sslCaCerts sslCaLocation sslRootCert ssl_ca trustStore "
    "sslTrustStore truststoreLocation sslTruststoreLocation",
    "tlsCertFile": "cert certFile certificate clientCert sslCert sslCertFile sslCertificateLocation keyStore "
    "sslKeyStore sslKeystoreLocation keystoreLocation",
    "tlsKeyFile": "key_file sslKey sslKeyFile sslKeyLocation clientKey privateKey",
    "tlsKeyPassword": "sslKeyPassword sslPassword keyPassword keystorePassword sslKeystorePassword",
    "tlsVerify": "verify verifySsl verifyHostName sslVerify sslEndpointIdentificationAlgorithm insecure",
}

_ALL: Final[dict[str, str]] = {
    _URL: (
        "brokerUrl brokerUri brokerAddress brokers server servers serverUrl uri connectionUrl "
        "connectionString connectionFactory hostAndPorts hostsAndPorts bootstrapServers "
        "kafkaBootstrapServers endpoint address addresses solaceHost jndiUrl providerUrl"
    ),
    _ADDRESS: "host hosts hostName brokerHost port brokerPort portNumber",
    _ENCRYPTED: "ssl tls useSsl useTls sslEnabled tlsEnabled secure scheme transport securityProtocol",
    "use login": "user userName userId brokerUser clientUserName saslUserName principal",
    "use password (which Spark redacts in plans and logs; passcode it would print)": "passcode",
    _PASSWORD: "pass passwd pwd brokerPassword clientPassword saslPassword",
    "use password, or secretConnectHeaders if the broker wants a header": (
        "token accessToken bearer authToken oauthToken oauthAccessToken jwt apiKey"
    ),
    "use login and password: STOMP has no other way to introduce oneself": (
        "saslMechanism saslJaasConfig authType authentication authenticationScheme"
    ),
    "use virtualHost": "vhost vpn vpnName msgVpn messageVpn brokerVhost stompHost",
    _HEARTBEAT: (
        "heartbeats heartbeatInterval heartbeatMs heartbeatTimeout keepAlive keepAliveInterval ping "
        "pingInterval"
    ),
    "use connectTimeout": "connectionTimeout connectTimeoutMs connectTimeoutMillis dialTimeout",
    "use reconnectTimeout: a lost connection is tried again for so long": _RETRIES,
    "use acceptVersions": "version versions stompVersion protocolVersion protocol",
    "use clientId": "client clientIdentifier clientName jmsClientId",
    "use maxFrameBytes": "maxFrameSize maxFrameLength maxMessageSize maxMessageBytes maxDataLength",
    "use connectHeaders, or secretConnectHeaders for what is secret": "connectionHeaders",
    "use logLevel": "log logging loglevels debug verbose",
    "use statusFile": _METRICS,
    **{f"use {key}": names for key, names in _TLS_NAMES.items()},
}
_READS: Final[dict[str, str]] = {
    "there are several: connectTimeout, idleTimeout, maxDrainTime": _TIMEOUTS,
    _USE_DESTINATION: (
        "dest destinations queue queues queueName topic topics topicName destinationName "
        "destinationType subscribe subscription subscriptions channel channels"
    ),
    "a name with wildcards is the broker's: write it as destination, if your broker has any": (
        "subscribePattern topicsPattern topicPattern pattern"
    ),
    "it names partitions, and a queue has none. Use destination": "assign",
    _NO_POSITIONS: (
        "startingOffsets startingTimestamp startingOffsetsByTimestamp "
        "startingOffsetsByTimestampStrategy endingOffsets endingTimestamp endingOffsetsByTimestamp "
        "startingPosition startingTime autoOffsetReset offset offsets offsetIndicator replay "
        "replayFrom"
    ),
    _NO_PARTITIONS: (
        "minPartitions maxPartitions numPartitions partitions partition maxRecordsPerPartition parallelism"
    ),
    "there is nothing to set: the columns headers and header_history have them. Use .schema(...) to choose": (
        "includeHeaders withHeaders header headerMap includeProperties"
    ),
    "use selector": "messageSelector filter where sqlFilter jmsSelector",
    "a message may come twice: the column stable_id tells, see idHeader": (
        "skipDuplicates deduplicate dedup dropDuplicates"
    ),
    "use maxDrainTime": "maxRunTime drainTimeout",
    "use .schema(...): the column body is binary, or text with body string": (
        "format valueFormat bodyFormat messageFormat encoding charset deserializer valueDeserializer "
        "keyDeserializer autoDecode decode inferSchema"
    ),
    "use onMalformed": "mode badRecords badRecordsPath columnNameOfCorruptRecord",
    "what is too old is the broker's to discard": "ttl expiration expires timeToLive maxAge",
}
_STREAMS: Final[dict[str, str]] = {
    "use maxMessagesPerTrigger, or maxMessages in a batch read": _BATCH_SIZES,
    "use minMessagesPerTrigger": "minOffsetsPerTrigger minRecordsPerTrigger minRowsPerTrigger",
    "use prefetch": (
        "prefetchCount prefetchSize prefetchLimit qos basicQos consumerWindowSize windowSize "
        "activemqPrefetchSize maxUnacked maxInFlight receiveBuffer queuePrefetch credit"
    ),
    "use receivers": (
        "consumers numConsumers concurrency concurrentConsumers maxConcurrentConsumers numReceivers "
        "connections sessions threads"
    ),
    "use durableName": (
        "durable durableSubscription durableSubscriptionName durableSubscriberName subscriptionName "
        "subscriptionDurable activemqSubscriptionName persistentSubscription subscriberName"
    ),
    "use idleTimeout": (
        "receiveTimeout queueReceiveWaitTimeout pollTimeout pollTimeoutMs kafkaConsumerPollTimeoutMs "
        "waitTimeout"
    ),
    "it is of .trigger(processingTime=...) on the query": (
        "trigger triggerInterval processingTime interval batchInterval batchDuration"
    ),
    "use checkpointLocation": "checkpoint checkpointDir checkpointDirectory checkpointPath",
    _NO_GROUPS: _GROUPS,
    _ACKS: _ACK_MODES,
    "who sends decides on it. To keep messages of a topic while no query runs, use durableName": (
        "persistent deliveryMode"
    ),
    "use failOnDataLoss": "ignoreDataLoss dataLoss",
}
_BATCHES: Final[dict[str, str]] = {
    "use maxMessages": f"maxMessagesPerTrigger {_BATCH_SIZES}",
    "use idleTimeout": "receiveTimeout queueReceiveWaitTimeout pollTimeout pollTimeoutMs waitTimeout",
    "a batch read looks at the messages and leaves them there, and so loses none": "failOnDataLoss",
    "a batch read looks at the messages and leaves them there; readStream consumes them": (
        f"{_ACK_MODES} ackAfter consume remove browse"
    ),
    "a batch read is of nobody's group: it looks at the messages of a queue": _GROUPS,
    "who sends decides on it": "persistent deliveryMode",
    "a batch read that fails is for Spark to run again": _RETRIES,
    "only a stream has a status": _METRICS,
}
_WRITES: Final[dict[str, str]] = {
    "there are several: connectTimeout, receiptTimeout, blockedTimeout, reconnectTimeout": _TIMEOUTS,
    "use destination, as in /queue/orders, or the column destination": (
        "dest destinations queue queueName topic topicName destinationName destinationType sendTo target"
    ),
    "use sendHeaders, or the column headers": "headers header includeHeaders properties messageProperties",
    "use persistent": (
        "deliveryMode deliveryPersistent durable explicitQosEnabled persistence persist persistentDelivery"
    ),
    "use ttl": "expiration expires expiry timeToLive messageTtl",
    "use priority": "messagePriority jmsPriority",
    "use the column content_type": "contentType",
    "use correlationId": "correlation jmsCorrelationId",
    "use replyTo": "jmsReplyTo",
    "use dedupKey, which makes an id of columns": (
        "id messageId key idColumn keyColumn idempotenceKey enableIdempotence"
    ),
    "use headerColumns": "columns headerColumn propertyColumns",
    "every message is confirmed by the broker's receipt, see receiptWindow and receiptTimeout": (
        "acks ack receipt receipts confirm publisherConfirms waitOnReceipt waitForReceipt mandatory sync"
    ),
    "there are no transactions: a batch has succeeded when every receipt has come": (
        "transacted transactional transaction transactionalId sessionTransacted"
    ),
    "use receiptWindow": "batchSize bufferSize maxInFlight lingerMs maxPending outstanding",
    "use receiptTimeout": "sendTimeout publishTimeout deliveryTimeout confirmTimeout",
    "there are no partitions: repartition() the rows before they are written": (
        "partition partitions numPartitions"
    ),
    "use messageType for bytes or text, and to_json(...) or cast(...) for the column body": (
        "format valueFormat serializer valueSerializer keySerializer encoding messageFormat autoContentLength"
    ),
    "use onError": "failOnError errorMode ignoreErrors badRecords",
    "use deadLetterDestination with onError = deadletter": "deadLetter deadLetterQueue dlq errorQueue",
    "use checkpointLocation": "checkpoint checkpointDir checkpointDirectory checkpointPath",
}
_PREFIXES: Final = {
    "kafka.": "it is of Kafka's client, and this is none. The address of the broker is url",
    "kafkaconsumer.": "it is of Kafka's client, and this is none",
    "fetchoffset.": "it is of Kafka's client, and this is none. A lost connection is tried again for "
    "reconnectTimeout",
    "solace.": "it is of Solace's own client. STOMP's headers of CONNECT are connectHeaders",
    "activemq.": "it is a header of ActiveMQ's: use subscribeHeaders of a read, sendHeaders of a write",
    "jms.": "it is of JMS, and STOMP has only headers: subscribeHeaders of a read, sendHeaders of a write",
    "spark.": "it is of Spark's own configuration: set it with SparkSession.builder.config(...)",
}
# A letter or two wrong, not another word.
_ALIKE: Final = 0.8


def plain(key: str) -> str:
    """A name without regard to case, and to how its words are joined."""
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _by_name(*tables: Mapping[str, str]) -> dict[str, str]:
    """The remedy for each name; of two tables the first one wins."""
    found: dict[str, str] = {}
    for table in tables:
        for remedy, names in table.items():
            for name in names.split():
                found.setdefault(plain(name), remedy)
    return found


REMEDIES: Final[dict[Scope, dict[str, str]]] = {
    "source": _by_name(_STREAMS, _READS, _ALL),
    "batch": _by_name(
        _BATCHES, _READS, {f"{remedy} (stream reads only)": names for remedy, names in _STREAMS.items()}, _ALL
    ),
    "sink": _by_name(_WRITES, _ALL),
}
"""What to do about each name of another system, by :func:`plain` name."""


def remedy(key: str, scope: Scope) -> str | None:
    """What to do about an option that is called so elsewhere; None if nothing here is known by that name."""
    known = REMEDIES[scope].get(plain(key))
    if known is not None:
        return known
    return next((text for prefix, text in _PREFIXES.items() if key.lower().startswith(prefix)), None)


def nearest(key: str, keys: Iterable[str]) -> str | None:
    """That of ``keys`` which ``key`` is most likely a slip of; None if none is near enough to be meant."""
    spelt = {plain(known): known for known in keys}
    found = difflib.get_close_matches(plain(key.removeprefix("stomp.")), spelt, n=1, cutoff=_ALIKE)
    return spelt[found[0]] if found else None
