"""Whether a queue of RabbitMQ is a stream; RabbitMQ is asked, and nothing is read from the queue.

Every message of a stream has the header ``x-stream-offset``, but a producer may set that too. So RabbitMQ is
asked by a SUBSCRIBE, on a connection of its own, that declares the queue with a type that does not exist. It
declares nothing and subscribes to nothing: RabbitMQ refuses it, and says which type the queue has.
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
# RabbitMQ compares the arguments one after the other, and names the first that differs.
_DIFFERS = re.compile(
    r"inequivalent arg '([\w-]+)' for queue .* current is (?:the value )?'?(.*?)'?(?: of type .*)?$", re.S
)
# The arguments that a stream may have, besides its type. If another one differs, it is none.
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
_MOST_QUESTIONS: Final = len(_OF_STREAMS) + 1


class StreamInDoubt(ConnectFailed):
    """RabbitMQ could not be asked, so that the messages of this connection are not taken."""


class StreamCheck:
    """Refuses ``destination`` if it is a stream; for one receiver, or one batch read."""

    def __init__(self, options: SourceOptions, destination: str) -> None:
        self._options = options
        self._destination = destination
        self._name = _queue_name(destination)
        self._done = False

    def at_start(self, dialect: Dialect, peer: str) -> None:
        """Before the first SUBSCRIBE. What that declares is no stream: only a queue that it merely names may
        be one."""
        if dialect.offset_header is None or self._done or not self._destination.startswith(_BY_NAME):
            return
        try:
            stream = _is_stream(self._options.connection, peer, self._name or "")
        except StompError:
            # It need not be asked yet.
            return
        self._believe(stream)

    def at_messages(self, dialect: Dialect, peer: str, data: bytes) -> None:
        """These frames came.

        Raises UnsupportedError if they are of a stream, or if they may be and RabbitMQ does not say, unless
        loss is accepted; StreamInDoubt if it cannot be asked.
        """
        header = dialect.offset_header
        if self._done or header is None or f"\n{header}:".encode() not in data:
            return
        if self._name is not None:
            try:
                stream = _is_stream(self._options.connection, peer, self._name)
            except (TransportError, ReceiptTimeout) as error:
                raise StreamInDoubt(f"{peer} cannot be asked what {self._destination} is: {error}") from error
            self._believe(stream)
            if not self._done and not self._options.allow_loss:
                raise stream_suspected(self._destination)
        self._done = True

    def _believe(self, stream: bool | None) -> None:
        if stream:
            raise stream_refused(self._destination)
        self._done = stream is False


def _queue_name(destination: str) -> str | None:
    """The name of the queue; None for what is bound to an exchange: its queue is declared by SUBSCRIBE."""
    prefix = next((one for one in (_DECLARED, _BY_NAME) if destination.startswith(one)), None)
    return None if prefix is None else destination.removeprefix(prefix)


def _is_stream(options: ConnectionOptions, peer: str, name: str) -> bool | None:
    """Whether the queue is a stream; None if the broker at ``peer`` does not say."""
    here = tuple(one for one in options.endpoints if f"{one.host}:{one.port}" == peer)
    arguments = {"durable": "true", "auto-delete": "false", "x-queue-type": _NO_TYPE}
    for _ in range(_MOST_QUESTIONS):
        try:
            with open_connection(replace(options, endpoints=here)) as connection:
                answer = _answer(connection, name, arguments, options.connect_timeout)
        except BrokerError:
            # A limit of connections, for example.
            return None
        if answer is None or "RESOURCE_LOCKED" in answer:
            # It took the SUBSCRIBE, or the queue is exclusive: a stream does neither.
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
    """What the broker says against such a SUBSCRIBE; None if it takes it."""
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
