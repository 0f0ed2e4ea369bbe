"""Ask RabbitMQ what the queue of ``/amq/queue/NAME`` is, without taking anything from it."""

from __future__ import annotations

from spark_stomp.brokers.rabbitmq import (
    BY_NAME,
    LOCKED,
    NO_QUEUE,
    NO_RIGHT,
    NO_STREAM,
    STREAM_QUESTION,
    stream_name,
    stream_refused,
)
from spark_stomp.deadline import Deadline
from spark_stomp.errors import ConnectFailed, DestinationRefused, LoginRefused, ReceiptTimeout, TransportError
from spark_stomp.options import ConnectionOptions
from spark_stomp.protocol import Disconnected, ErrorReceived, ReceiptReceived
from spark_stomp.transport.connect import at_peer, open_connection
from spark_stomp.transport.connection import Connection


class QueueMissing(DestinationRefused):
    """There is no queue of this name."""


def ask_if_stream(options: ConnectionOptions, destination: str, peer: str) -> bool | None:
    """Whether ``destination``, a ``/amq/queue/NAME`` of the broker at ``peer``, is a stream.

    It subscribes, on a connection of its own, behind the end of a stream. RabbitMQ refuses that if the queue
    is no stream, and delivers nothing of it. None if this login is not told, because it may not read from the
    queue, or may have no second connection.

    Raises QueueMissing if there is no such queue, ConnectFailed if RabbitMQ does not answer, and
    BrokerError if it answers anything else, as while it starts.
    """
    try:
        with open_connection(at_peer(options, peer), login_accepted=True) as connection:
            return _ask(connection, destination, options.connect_timeout)
    except LoginRefused:
        return None
    except (TransportError, ReceiptTimeout) as error:
        raise ConnectFailed(f"{peer} cannot be asked what {destination} is: {error}") from error


def ask_if_queue(options: ConnectionOptions, destination: str, peer: str) -> bool:
    """Whether what ``destination`` names, however it is written, is known to be a queue.

    False if this login is not told. Raises UnsupportedError if it is a stream, and what
    :func:`ask_if_stream` raises.
    """
    stream = ask_if_stream(options, BY_NAME + stream_name(destination), peer)
    if stream:
        raise stream_refused(destination)
    return stream is False


def _ask(connection: Connection, destination: str, timeout: float) -> bool | None:
    answer = _answer(connection, destination, timeout)
    if answer is None:
        return True
    # In the text as it came, because a secret may be a part of these words, and at its beginning, because it
    # quotes the name of the queue.
    if answer.detail.startswith((NO_STREAM, LOCKED)):
        return False
    error = connection.error_of(answer, f"SUBSCRIBE to {destination}")
    # The server that knows the rights may be away.
    if answer.detail.startswith(NO_RIGHT) and error.verdict != "passes":
        return None
    if not answer.detail.startswith(NO_QUEUE):
        raise error
    missing = QueueMissing(error.message)
    missing.verdict = error.verdict
    raise missing


def _answer(connection: Connection, destination: str, timeout: float) -> ErrorReceived | None:
    """The ERROR that refuses the subscription; None if RabbitMQ accepts it.

    RabbitMQ sends ERROR, then RECEIPT for a SUBSCRIBE that it refuses, and Spring's relay may turn the two
    round. Only after an accepted one does RabbitMQ confirm DISCONNECT.
    """
    session, deadline = connection.session, Deadline.after(timeout)
    receipt = session.new_receipt()
    own = (("id", "0"), ("destination", destination))
    connection.request("SUBSCRIBE", (*own, *STREAM_QUESTION), receipt=receipt)
    while not deadline.passed:
        events = connection.poll(deadline.left())
        for event in events:
            if isinstance(event, ErrorReceived):
                return event
            if isinstance(event, Disconnected) and event.confirmed:
                return None
        if ReceiptReceived(receipt) in events and not connection.ended:
            connection.request("DISCONNECT", receipt=session.new_receipt())
    raise ReceiptTimeout(f"{connection.peer} did not say what the queue of {destination} is")
