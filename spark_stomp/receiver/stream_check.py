"""Find out whether a queue of RabbitMQ is a stream, without reading from it.

Every message of a stream has the header ``x-stream-offset``, but a producer may set this header too. So
RabbitMQ is asked, on a separate connection, by a SUBSCRIBE that declares the queue with a type that does not
exist. RabbitMQ refuses it and says which type the queue has. Nothing is declared, and nothing is subscribed.

Tried before (November 2026): a SUBSCRIBE without a prefetch, which a stream refuses. An ordinary queue
accepted it and delivered its messages.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Final

from spark_stomp.brokers import Dialect
from spark_stomp.brokers.subscriptions import stream_refused, stream_suspected
from spark_stomp.errors import BrokerError, ConnectFailed, ReceiptTimeout, StompError, TransportError
from spark_stomp.options import ConnectionOptions, SourceOptions
from spark_stomp.protocol import ErrorReceived, ReceiptReceived
from spark_stomp.transport import Connection, open_connection

_DECLARED: Final = "/queue/"
_BY_NAME: Final = "/amq/queue/"
_NO_TYPE: Final = "spark-stomp-asks"
# RabbitMQ compares the arguments one after the other, and names the first one that differs.
_DIFFERS = re.compile(
    r"inequivalent arg '([\w-]+)' for queue .* current is (?:the value )?'?(.*?)'?(?: of type .*)?$", re.S
)
# The arguments that a stream may have besides its type. If RabbitMQ names any other argument, the queue is
# not a stream.
_OF_STREAMS: Final = frozenset(
    {
        "x-initial-cluster-size",
        "x-max-age",
        "x-max-length-bytes",
        "x-queue-leader-locator",
        "x-stream-filter-size-bytes",
        "x-stream-max-segment-size-bytes",
    }
)
# Each answer settles one argument; the last one is the type.
_MAX_QUESTIONS: Final = len(_OF_STREAMS) + 1


class StreamInDoubt(ConnectFailed):
    """RabbitMQ could not be asked what the queue is, so the messages of this connection are not taken."""


class StreamCheck:
    """Refuses ``destination`` if it is a stream of RabbitMQ. Used by one receiver, or one batch read."""

    def __init__(self, options: SourceOptions, destination: str) -> None:
        self._options = options
        self._destination = destination
        self._name = _queue_name(destination)
        self._done = False

    def at_start(self, dialect: Dialect, peer: str) -> None:
        """Check the destination before the first SUBSCRIBE.

        Only ``/amq/queue/`` is checked here, because a SUBSCRIBE to ``/queue/`` declares the queue. Raises
        UnsupportedError if the destination is a stream.
        """
        if dialect.offset_header is None or self._done or not self._destination.startswith(_BY_NAME):
            return
        try:
            stream = _is_stream(self._options.connection, peer, self._name or "")
        except StompError:
            # No answer is needed yet: the messages are checked too.
            return
        self._conclude(stream)

    def at_messages(self, dialect: Dialect, peer: str, data: bytes) -> None:
        """Check the frames ``data`` before they are taken.

        Raises UnsupportedError if they come from a stream. If RabbitMQ does not say what the queue is, it is
        raised too, unless ``allowLoss`` is set. Raises StreamInDoubt if RabbitMQ cannot be asked.
        """
        header = dialect.offset_header
        if self._done or header is None or f"\n{header}:".encode() not in data:
            return
        if self._name is not None:
            try:
                stream = _is_stream(self._options.connection, peer, self._name)
            except (TransportError, ReceiptTimeout) as error:
                raise StreamInDoubt(f"{peer} cannot be asked what {self._destination} is: {error}") from error
            self._conclude(stream)
            if not self._done and not self._options.allow_loss:
                raise stream_suspected(self._destination)
        self._done = True

    def _conclude(self, stream: bool | None) -> None:
        """Refuse a stream; end the check if the queue is certainly not one."""
        if stream:
            raise stream_refused(self._destination)
        self._done = stream is False


def _queue_name(destination: str) -> str | None:
    """The name of the queue; None for an exchange, for which SUBSCRIBE declares a queue."""
    prefix = next((one for one in (_DECLARED, _BY_NAME) if destination.startswith(one)), None)
    return None if prefix is None else destination.removeprefix(prefix)


def _is_stream(options: ConnectionOptions, peer: str, name: str) -> bool | None:
    """Whether the queue is a stream; None if the broker at ``peer`` does not say."""
    here = tuple(one for one in options.endpoints if f"{one.host}:{one.port}" == peer)
    arguments = {"durable": "true", "auto-delete": "false", "x-queue-type": _NO_TYPE}
    for _ in range(_MAX_QUESTIONS):
        try:
            with open_connection(replace(options, endpoints=here)) as connection:
                answer = _answer(connection, name, arguments, options.connect_timeout)
        except BrokerError:
            # For example, there are too many connections.
            return None
        if answer is None or "RESOURCE_LOCKED" in answer:
            # The SUBSCRIBE was accepted, or the queue is exclusive: neither is possible for a stream.
            return False
        found = _DIFFERS.search(answer)
        if found is None:
            return None
        argument, value = found.groups()
        if argument == "x-queue-type":
            return value == "stream"
        if argument not in _OF_STREAMS:
            return False
        arguments[argument] = value
    return None


def _answer(connection: Connection, name: str, arguments: dict[str, str], timeout: float) -> str | None:
    """The text of the broker's ERROR if it refuses this SUBSCRIBE; None if it accepts the SUBSCRIBE."""
    session = connection.session
    receipt, until = session.new_receipt(), time.monotonic() + timeout
    headers = (("prefetch-count", "1"), *arguments.items())
    session.subscribe("0", _DECLARED + name, ack="client", headers=headers, receipt=receipt)
    while (left := until - time.monotonic()) > 0:
        for event in connection.poll(left):
            if isinstance(event, ErrorReceived):
                return event.detail or event.message
            if event == ReceiptReceived(receipt):
                return None
    raise ReceiptTimeout(f"{connection.peer} did not say of which type the queue {name} is")
