"""End the durable subscriptions that a query has left on the broker.

The broker then keeps no more messages for it, and DELETES THOSE THAT WAIT.
Stop the query first, and give its destination, durableName, clientId and, if it
has one, -o selector=...

examples:
  spark-stomp unsubscribe stomp://rabbit:61613 /topic/prices --durable-name etl
"""

from __future__ import annotations

import argparse
import sys

from spark_stomp.brokers import Dialect, Subscription
from spark_stomp.commands import FINE
from spark_stomp.commands.connecting import add_broker_arguments, option_texts
from spark_stomp.errors import BrokerError, LoginRefused, UnsupportedError
from spark_stomp.logs import set_level
from spark_stomp.options import SourceOptions, parse_source_options
from spark_stomp.quoting import line
from spark_stomp.receiver import disconnect
from spark_stomp.receiver.subscription import ReceiverSettings, choose_subscription
from spark_stomp.transport import Connection, open_connection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker_arguments(parser)
    parser.add_argument("destination", metavar="DESTINATION", help="the topic, or a list, as in load(...)")
    parser.add_argument("--durable-name", required=True, metavar="NAME", help="durableName of the query")
    parser.add_argument("--client-id", metavar="ID", help="clientId of the query, if it has one")


def run(arguments: argparse.Namespace) -> int:
    given = {"destination": arguments.destination, "durableName": arguments.durable_name, "connections": "1"}
    if arguments.client_id is not None:
        given["clientId"] = arguments.client_id
    refused = dict.fromkeys(("durableName", "clientId"), "it is an argument")
    refused["connections"] = "one connection is enough"
    options = parse_source_options(option_texts(arguments, refused, **given))
    set_level(options.connection.log_level)
    try:
        _unsubscribe(options)
    except BrokerError as error:
        if type(error) is LoginRefused:
            raise
        raise type(error)(
            "the durable subscription has not ended: a query is still connected, which you stop first, or "
            f"there is none of this name. {error.message}"
        ) from error
    return FINE


def _unsubscribe(options: SourceOptions) -> None:
    with open_connection(options.connection) as connection:
        for topic, subscription in _subscriptions(connection.dialect, options).items():
            _end(connection, topic, subscription, options.connection.connect_timeout)
            # Only ActiveMQ says whether there was one.
            text = f"{topic}: the broker has no durable subscription {options.durable_name} any more"
            sys.stdout.write(line(text) + "\n")
        disconnect(connection, ())


def _subscriptions(dialect: Dialect, options: SourceOptions) -> dict[str, Subscription]:
    """The durable subscription of each topic. A queue in the list keeps its messages without one.

    Raises UnsupportedError if the broker would say that it has ended one, and keep it.
    """
    (settings,) = ReceiverSettings.of(options)
    chosen = {one: choose_subscription(dialect, settings, one) for one in settings.destinations}
    for topic in chosen:
        if dialect.durable_topics is not None and topic.startswith(dialect.durable_topics.endless):
            raise UnsupportedError(
                f"this broker ({dialect.name}) does not end a durable subscription to {topic} by STOMP. "
                "Find its queue with rabbitmqctl list_bindings, and delete it with rabbitmqctl delete_queue"
            )
    return {topic: subscription for topic, subscription in chosen.items() if not dialect.is_queue(topic)}


def _end(connection: Connection, topic: str, subscription: Subscription, timeout: float) -> None:
    session, dialect = connection.session, connection.dialect
    # Brokers that do not know a subscription by client id and name end the one that is open.
    if dialect.durable_topics is not None and not dialect.durable_topics.needs_client_id:
        receipt = session.new_receipt()
        own = (("id", subscription.id), ("destination", topic), ("ack", "client"))
        headers = (*own, *dialect.subscribe_headers(topic, 1), *subscription.headers)
        connection.request("SUBSCRIBE", headers, receipt=receipt)
        connection.await_receipts({receipt: f"SUBSCRIBE to {topic}"}, timeout)
    receipt = session.new_receipt()
    connection.request("UNSUBSCRIBE", (("id", subscription.id), *subscription.headers), receipt=receipt)
    connection.await_receipts({receipt: f"UNSUBSCRIBE from {topic}"}, timeout)
