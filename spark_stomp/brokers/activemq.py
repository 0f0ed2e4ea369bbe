"""ActiveMQ Classic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from spark_stomp.brokers.bodies import LOST_CONTENT, BodyMarks
from spark_stomp.brokers.destinations import DurableTopics
from spark_stomp.brokers.dialect import Dialect, ErrorTexts
from spark_stomp.brokers.outgoing import (
    DELIVERY,
    EXPIRES,
    GROUPS,
    JMS,
    NOT_TEMPORARY,
    PRIORITY,
    TIMESTAMP,
    Outgoing,
    never_to,
)
from spark_stomp.brokers.sentences import of_message, passes, stays
from spark_stomp.brokers.standing import Asks, ByStomp, Question, Standing, StompAnswers
from spark_stomp.protocol.encoder import HeaderNames, ValueRule

# ActiveMQ and Artemis distinguish upper and lower case in these names.
_LEFT_OUT = HeaderNames(
    DELIVERY
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
    ("AMQ_", "ActiveMQ.", JMS),
    GROUPS,
)
_REPLY_TO = ValueRule(
    "reply-to",
    r"(?s:(?:.*,)?[\x00-\x20]*/(?:queue|topic|remote-temp-queue|remote-temp-topic)/[\x00-\x20]*(?:,.*)?)",
    "have a name after the kind of destination",
    allowed=False,
)
_NAMED = never_to(
    r"(?s:(?:.*,)?[\x00-\x20]*/(?:queue|topic|remote-temp-queue|remote-temp-topic)/[\x00-\x20]*"
    r"|[\x00-\x20]*(?:\?.*)?|.*,[\x00-\x20]*,.*)",
    "have a name, each of several: ActiveMQ ends the connection without a word",
)

# Seen with 6.3.1, or in its source (November 2026). The body begins with the class of an exception, which is
# in jakarta.jms from 6.0 on, and in javax.jms before.
_SENTENCES = (
    passes(
        r"BrokerStopp|^Broker .*(?:is being|has been) stopped\b",
        "org.apache.activemq.broker.BrokerStoppedException: Broker b is being stopped",
        "the broker stops",
    ),
    passes(
        r"ResourceAllocationException\b",
        "Usage Manager Memory Limit reached. - jakarta.jms.ResourceAllocationException: Usage "
        "Manager Memory Limit reached.",
        "a queue, the memory or the store is full, with sendFailIfNoSpace",
    ),
    passes(
        r"^Durable consumer is in use\b",
        "Durable consumer is in use for client: c and subscriptionName: s",
        "the last connection still has the durable subscription",
    ),
    passes(
        r"^Unexpected ACK received for message-id\b",
        "Unexpected ACK received for message-id [null]",
        "two messages of one subscription have one id, because one SEND went to several queues",
        unasked=True,
        remedy="ActiveMQ says so if one subscription, to a wildcard or to several names, brings two messages "
        "with one id, as a SEND to several queues makes them: name each queue by itself in destination, as a "
        "list",
    ),
    stays(
        r"^User .*is not authorized to \w+",
        "User u is not authorized to read from: queue://q",
        "the login lacks a right",
    ),
    stays(
        r"Invalid(?:Destination|Selector)Exception\b",
        "a = - jakarta.jms.InvalidSelectorException: a =",
        "the selector is not valid, or the temporary queue is that of another connection",
    ),
    stays(
        r"^(?:Invalid empty or '' Destination header|SEND received without a Destination|"
        r"Invalid Subscription: )",
        "Invalid empty or 'null' Destination header",
        "the destination has no name, or a queue is to have a durable subscription",
    ),
    stays(
        r"^Can't add (?:consumer|producer) .*at maximum limit",
        "Can't add consumer on connection ID:a: at maximum limit: 1",
        "the connector allows no more consumers",
    ),
    of_message(
        r"^The maximum (?:header length|number of headers|data length|frame size) was exceeded",
        "The maximum data length was exceeded",
        "the message is too large (wireFormat.maxDataLength), or has too many or too long headers",
    ),
    of_message(
        r"^(?:Specified content-length\b|Unsupported message type\b)|\bDestinationDoesNotExistException\b",
        "Unsupported message type ''",
        "a header has a wrong value, or the temporary queue is gone",
    ),
)

# The default of maxPageSize in the destination policy.
_PAGE: Final = 200
# The percentage of a limit of memory or disk at which producers wait.
_FULL: Final = 100
_STATISTICS: Final = "/topic/ActiveMQ.Statistics."
_ENTRY: Final = re.compile(r"<entry>\s*<string>(\w+)</string>\s*<\w+>([^<]*)</\w+>\s*</entry>")


def _questions(destination: str, _: str | None) -> dict[str, Question]:
    """It answers nothing about a queue that it does not have, so a question follows that it always answers.

    They go to topics: without the plugin, nothing of them is left.
    """
    names = ",".join(f"queue://{one.removeprefix('/queue/')}" for one in destination.split(","))
    return {
        "queue": Question(f"{_STATISTICS}Destination.{names}"),
        "broker": Question(f"{_STATISTICS}Broker"),
    }


def _standing(answers: StompAnswers, selector: str | None) -> Standing:
    """The sums of the queues of a wildcard, or of several names (seen with 6.3.1 in November 2026)."""
    every, (broker,) = (
        [dict(_ENTRY.findall(one.decode())) for one in answers[name]] for name in ("queue", "broker")
    )
    alarm = _alarm(every, broker)
    if not every:
        return Standing(is_there=False, alarm=alarm)
    unacked = sum(int(figures["inflightCount"]) for figures in every)
    ready = sum(int(figures["size"]) for figures in every) - unacked
    # Each consumer of a wildcard is one of every queue.
    consumers = max(int(figures["consumerCount"]) for figures in every)
    # It does not say how many the selector wants. It has looked at a page of them.
    wanted = None if selector is None else ready if ready > _PAGE else 0
    return Standing(True, ready, unacked, consumers, alarm, wanted=wanted)


def _alarm(queues: Iterable[Mapping[str, str]], broker: Mapping[str, str]) -> str | None:
    if any(int(figures.get("memoryPercentUsage", 0)) >= _FULL for figures in queues):
        return "the queue has reached its memoryLimit (producer flow control)"
    limits = {"memory": "memoryPercentUsage", "store": "storePercentUsage", "temp": "tempPercentUsage"}
    full = [name for name, key in limits.items() if int(broker.get(key, 0)) >= _FULL]
    return f"the limit of {' and '.join(full)} is reached (systemUsage)" if full else None


ACTIVEMQ = Dialect(
    name="activemq",
    server_prefix="activemq",
    prefetch_header="activemq.prefetchSize",
    page_size=_PAGE,
    id_header="message-id",
    own_queues=("/queue/",),
    browse_headers=(("browser", "true"),),
    # The default of maxBrowsePageSize in the destination policy.
    browse_limit=400,
    # If a producer sets a property message-id by OpenWire, it replaces the broker's header, which an ACK
    # names in these versions.
    forged_versions=("1.0", "1.1"),
    # Without a client id the broker accepts the header and keeps no messages.
    durable_topics=DurableTopics(
        "activemq.subscriptionName",
        needs_client_id=True,
        alternative=", or let several read from a queue that the broker fills from a virtual topic "
        "(/queue/Consumer.NAME.VirtualTopic.TOPIC)",
    ),
    one_connection_per_client=True,
    # Wildcards, and several queues in one name (seen with 6.3.1 in November 2026).
    sleeping=re.compile("[*>,]"),
    outgoing=Outgoing(
        expires_header="expires",
        text_without_length=True,
        left_out=_LEFT_OUT,
        values=(PRIORITY, EXPIRES, TIMESTAMP, _REPLY_TO, _NAMED, NOT_TEMPORARY),
        # Bytes. After a longer line it ends the connection (seen in November 2026).
        max_header_line=10 << 10,
        unescapes_always=True,
    ),
    # A connector amqp:// without options keeps messages as they are encoded (seen with 6.3.1, November 2026).
    content_types=("content-type", "JMS_AMQP_ContentType"),
    bodies=BodyMarks(
        message="JMS_AMQP_NATIVE",
        lost_content=LOST_CONTENT,
        hollow=True,
        hollow_without_length=True,
        remedy='Set subscribeHeaders = {"transformation": "jms-xml"} to have maps and objects as XML',
    ),
    errors=ErrorTexts(
        sentences=_SENTENCES,
        # "Broker: b - Client: c already connected from tcp://..."
        client_id_in_use=r"(?i:client.*\balready (been )?(connected|in use|set))",
    ),
    asks=Asks(
        ByStomp(
            replies=(("destination", "/temp-queue/standing"),),
            questions=_questions,
            standing=_standing,
            only="ActiveMQ tells it only with its plugin <statisticsBrokerPlugin/>",
        ),
        withheld="the queue is paused, or another consumer has it or their groups for itself (exclusive)",
        unselected="the selector wants none of them, or those that it wants stand behind more others than "
        "ActiveMQ looks at (maxPageSize, 200 by default; with lazyDispatch the prefetch)",
        forgets="ActiveMQ does so if abortSlowAckConsumerStrategy or abortSlowConsumerStrategy takes a "
        "consumer away: let maxTimeSinceLastAck be longer than the longest batch, or set abortConnection = "
        "true",
    ),
    head_of_queue="Browse it in the web console, and remove it or move it to another queue there",
    blocked_advice="look for Usage Manager in the broker's log: producers wait at the queue's memoryLimit "
    "and at systemUsage (memory, store)",
    listener="ActiveMQ: a stomp transport connector",
)
