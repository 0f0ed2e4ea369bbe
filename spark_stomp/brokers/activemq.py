"""ActiveMQ Classic."""

from __future__ import annotations

import re

from spark_stomp.brokers.bodies import LEFT_OUT, BodyMarks
from spark_stomp.brokers.destinations import DurableTopics
from spark_stomp.brokers.dialect import Dialect, ErrorTexts
from spark_stomp.brokers.outgoing import DELIVERY, EXPIRES, GROUPS, JMS, PRIORITY, TIMESTAMP, Outgoing
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

ACTIVEMQ = Dialect(
    name="activemq",
    server_prefix="activemq",
    prefetch_header="activemq.prefetchSize",
    # The default of maxPageSize in the destination policy.
    page_size=200,
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
        values=(PRIORITY, EXPIRES, TIMESTAMP, _REPLY_TO),
        # Bytes. After a longer line it ends the connection (seen in November 2026).
        max_header_line=10 << 10,
        unescapes_always=True,
    ),
    # A connector amqp:// without options keeps messages as they are encoded (seen with 6.3.1, November 2026).
    content_types=("content-type", "JMS_AMQP_ContentType"),
    bodies=BodyMarks(
        message="JMS_AMQP_NATIVE",
        left_out=LEFT_OUT,
        hollow=True,
        hollow_without_length=True,
        remedy='Set subscribeHeaders = {"transformation": "jms-xml"} to have maps and objects as XML',
    ),
    errors=ErrorTexts(
        stopping=r"(?i:BrokerStopp)",
        # With sendFailIfNoSpace.
        passing=r"ResourceAllocationException\b",
        # "Broker: b - Client: c already connected from tcp://..."
        client_id_in_use=r"(?i:client.*\balready (been )?(connected|in use|set))",
    ),
    head_of_queue="Browse it in the web console, and remove it or move it to another queue there",
    blocked="look for Usage Manager in the broker's log: producers wait at the queue's memoryLimit and at "
    "systemUsage (memory, store)",
    listener="ActiveMQ: a stomp transport connector",
)
