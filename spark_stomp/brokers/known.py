"""The dialects of the known brokers, and which of them a connection has.

The ``server`` header of CONNECTED says which dialect a broker has. If the broker hides that header, the
option ``broker`` names it. docs/brokers.md says how to add a broker.
"""

from __future__ import annotations

from dataclasses import replace

from spark_stomp.brokers.dialect import Dialect
from spark_stomp.brokers.naming import UNKNOWN_BROKER, Naming
from spark_stomp.brokers.outgoing import ACTIVEMQ, ARTEMIS, DEVBROKER, LASTING, RABBITMQ
from spark_stomp.brokers.subscriptions import DurableTopics
from spark_stomp.options import ConnectionOptions

# Artemis before ActiveMQ: its server header, "ActiveMQ-Artemis/...", also begins with "ActiveMQ".
# tests/interop/test_dialects.py proves these facts on RabbitMQ, ActiveMQ and Artemis.
DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="devbroker",
        server_prefix="spark-stomp-devbroker",
        prefetch_header="prefetch-count",
        id_header="message-id",
        selectors=False,
        browse_headers=(("browser", "true"),),
        naming=Naming(otherwise="queue"),
        durable_topics=DurableTopics("durable-subscription-name", shared=True),
        outgoing=DEVBROKER,
    ),
    Dialect(
        name="rabbitmq",
        server_prefix="rabbitmq",
        prefetch_header="prefetch-count",
        offset_header="x-stream-offset",
        # All that is not ASCII, "%", and "/" within a name. A SEND unquotes only the "/".
        quoted_names=True,
        lasting=LASTING,
        timestamp_unit="s",
        selectors=False,
        naming=Naming(("/queue/", "/amq/queue/"), ("/topic/", "/temp-topic/", "/exchange/")),
        # Destination and id name the queue of the subscription. Without auto-delete:false it would end with
        # its connection, and so would that of /exchange/ from 4.0 on without exclusive:false.
        durable_topics=DurableTopics(
            headers=(("durable", "true"), ("auto-delete", "false"), ("exclusive", "false")),
            shared=True,
            forbidden="@@",
            endless=("/exchange/",),
        ),
        count_limit=20,
        outgoing=RABBITMQ,
    ),
    Dialect(
        name="artemis",
        server_prefix="activemq-artemis",
        window_header="consumer-window-size",
        # The value is "consumer,message". The first part differs for each consumer.
        id_header="message-id",
        id_separator=",",
        # The broker gives ack and message-id the same value. If a producer sets them too, its ack header
        # comes before the broker's, so that it would win, but its message-id header comes after the broker's.
        ack_header="message-id",
        # Two nodes, or one whose data was deleted, use the same numbers. The timestamp of a message by STOMP
        # is the time at which the broker took it; that of any other message is the time at which it was sent,
        # or 0. If a producer sets the header by STOMP, it comes after the broker's.
        id_time_header="timestamp",
        forged_versions=("1.0",),
        # It ignores "browser:true" and would consume the messages.
        browse_headers=None,
        # Without these the destination is an address that keeps no messages, unless the acceptor has
        # prefixes.
        subscribe_kind_header="subscription-type",
        send_kind_header="destination-type",
        # ADDRESS::QUEUE
        naming=Naming(queue_infix="::"),
        durable_topics=DurableTopics(
            "durable-subscription-name", needs_client_id=True, shared=True, by_name_alone=True
        ),
        redelivery_limit=10,
        # Only the first message of a lost connection is marked.
        marks_redelivered=False,
        unsubscribe_returns=True,
        orphans_subscriptions=True,
        outgoing=ARTEMIS,
    ),
    Dialect(
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
        outgoing=ACTIVEMQ,
    ),
    # It has the headers by which RabbitMQ deletes queues, because RabbitMQ can hide its name.
    Dialect(name="generic", lasting=LASTING, unknown=UNKNOWN_BROKER),
)


def dialect_named(name: str) -> Dialect:
    """The dialect of that name. Raises KeyError; the option ``broker`` allows only known names."""
    return {dialect.name: dialect for dialect in DIALECTS}[name]


def dialect_for(server: str | None, broker: str = "auto") -> Dialect:
    """The dialect that the option ``broker`` names; for ``auto``, that of CONNECTED's ``server`` header."""
    if broker != "auto":
        return dialect_named(broker)
    product = (server or "").lower()
    for dialect in DIALECTS:
        if dialect.server_prefix is not None and product.startswith(dialect.server_prefix):
            return dialect
    # A broker without a name may be Artemis, which sends no server header in STOMP 1.0.
    return replace(dialect_named("generic"), forged_versions=() if server else ("1.0",))


def dialect_of(server: str | None, options: ConnectionOptions) -> Dialect:
    """The dialect of :func:`dialect_for`, with what ``destinationType`` says of names that do not say it."""
    dialect = dialect_for(server, options.broker)
    if options.destination_type is None or dialect.naming.otherwise != "unknown":
        return dialect
    return replace(dialect, naming=replace(dialect.naming, otherwise=options.destination_type))
