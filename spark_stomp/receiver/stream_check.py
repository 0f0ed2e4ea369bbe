"""Asks RabbitMQ whether a destination is a stream: a producer, too, may set the header that says so."""

from __future__ import annotations

from spark_stomp.brokers import Dialect, streams
from spark_stomp.brokers.durable import Subscription
from spark_stomp.errors import DestinationRefused
from spark_stomp.options import ConnectionOptions
from spark_stomp.protocol.versions import ack_modes
from spark_stomp.transport import open_connection


def may_be_stream(dialect: Dialect, data: bytes) -> bool:
    """Whether frames have the header that each message of a stream has."""
    return dialect.offset_header is not None and f"\n{dialect.offset_header}:".encode() in data


def require_queue(options: ConnectionOptions, destination: str, subscription: Subscription) -> None:
    """Raise UnsupportedError if ``destination`` is a stream; ``subscription`` is how it is subscribed to.

    It subscribes once more, without a prefetch, which RabbitMQ refuses for a stream. What a queue delivers
    meanwhile goes back when this connection ends, as after any other that breaks.
    """
    with open_connection(options) as connection:
        session = connection.session
        individual = "client-individual" in ack_modes(session.version or "1.0")
        receipt = session.new_receipt()
        session.subscribe(
            subscription.id,
            destination,
            ack="client-individual" if individual else "client",
            headers=subscription.headers,
            receipt=receipt,
        )
        try:
            connection.await_receipt(receipt, options.connect_timeout, f"SUBSCRIBE to {destination}")
        except DestinationRefused as error:
            if streams.says_stream(error):
                raise streams.refused(destination) from None
            raise
