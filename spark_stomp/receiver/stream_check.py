"""Find out whether a queue of RabbitMQ is a stream, without reading from it.

Every message of a stream has the header ``x-stream-offset``, but a producer may set this header too. So
RabbitMQ is asked, on a separate connection, by a SUBSCRIBE that declares the queue with a type that does not
exist. RabbitMQ refuses it and says which type the queue has. Nothing is declared, and nothing is subscribed.

Tried before (November 2026): a SUBSCRIBE without a prefetch, which a stream refuses. An ordinary queue
accepted it and delivered its messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from spark_stomp.brokers import Dialect, plain_subscription
from spark_stomp.brokers.rabbitmq_errors import difference
from spark_stomp.brokers.subscriptions import stream_refused, stream_suspected
from spark_stomp.errors import BrokerError, ConnectFailed, ReceiptTimeout, StompError, TransportError
from spark_stomp.options import ConnectionOptions, SourceOptions
from spark_stomp.protocol import ErrorReceived, MessageBlock, ReceiptReceived, frame_content
from spark_stomp.receiver.stream_log import at_peer
from spark_stomp.transport import Connection, open_connection

_DECLARED: Final = "/queue/"
_BY_NAME: Final = "/amq/queue/"
_NO_TYPE: Final = "spark-stomp-asks"
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
    """Refuses streams of RabbitMQ that are read as queues. Used by one receiver, or one batch read."""

    def __init__(self, options: SourceOptions, destinations: Sequence[str]) -> None:
        self._options = options
        # The destinations that may be streams, by the ids of their subscriptions.
        queues = destinations if not options.of_streams else ()
        self._open = {plain_subscription(one).id: one for one in queues}

    def at_start(self, dialect: Dialect, peer: str, beat: Callable[[], None]) -> None:
        """Check the destinations before the first SUBSCRIBE.

        Only ``/amq/queue/`` is checked here, because a SUBSCRIBE to ``/queue/`` declares the queue. ``beat``
        is called before each question: it keeps the connection alive that will subscribe. Raises
        UnsupportedError if a destination is a stream.
        """
        if dialect.offset_header is None:
            return
        for destination in [one for one in self._open.values() if one.startswith(_BY_NAME)]:
            beat()
            try:
                stream = _is_stream(self._options.connection, peer, destination.removeprefix(_BY_NAME))
            except StompError:
                # No answer is needed yet: the messages are checked too.
                return
            self._conclude(destination, stream)

    def at_messages(self, dialect: Dialect, peer: str, block: MessageBlock, version: str) -> None:
        """Check the frames of ``block``, of a connection of this ``version``, before they are taken.

        Raises UnsupportedError if some come from a stream. If RabbitMQ does not say what the queue is, it is
        raised too, unless ``allowLoss`` is set. Raises StreamInDoubt if RabbitMQ cannot be asked.
        """
        mark = f"\n{dialect.offset_header}:".encode()
        if dialect.offset_header is None or not self._open or mark not in block.heads:
            return
        for begin, end in pairwise((0, *block.ends)):
            frame = block.data[begin:end]
            if mark in frame:
                # A durable subscription has another id, and its queue is no stream.
                name = frame_content(frame, version)[1]
                for destination in [one for key, one in self._open.items() if name in (key, "")]:
                    self._check(destination, peer)

    def _check(self, destination: str, peer: str) -> None:
        name = _queue_name(destination)
        if name is not None:
            try:
                stream = _is_stream(self._options.connection, peer, name)
            except (TransportError, ReceiptTimeout) as error:
                raise StreamInDoubt(f"{peer} cannot be asked what {destination} is: {error}") from error
            self._conclude(destination, stream)
            if stream is None and not self._options.allow_loss:
                raise stream_suspected(destination)
        self._open.pop(plain_subscription(destination).id, None)

    def _conclude(self, destination: str, stream: bool | None) -> None:
        """Refuse a stream; end the check if the queue is certainly not one."""
        if stream:
            raise stream_refused(destination)
        if stream is False:
            del self._open[plain_subscription(destination).id]


def _queue_name(destination: str) -> str | None:
    """The name of the queue; None for an exchange, for which SUBSCRIBE declares a queue."""
    prefix = next((one for one in (_DECLARED, _BY_NAME) if destination.startswith(one)), None)
    return None if prefix is None else destination.removeprefix(prefix)


def _is_stream(options: ConnectionOptions, peer: str, name: str) -> bool | None:
    """Whether the queue is a stream; None if the broker at ``peer`` does not say."""
    arguments = {"durable": "true", "auto-delete": "false", "x-queue-type": _NO_TYPE}
    for _ in range(_MAX_QUESTIONS):
        try:
            with open_connection(at_peer(options, peer)) as connection:
                answer = _answer(connection, name, arguments, options.connect_timeout)
        except BrokerError:
            # For example, there are too many connections.
            return None
        if answer is None or "RESOURCE_LOCKED" in answer:
            # The SUBSCRIBE was accepted, or the queue is exclusive: neither is possible for a stream.
            return False
        differs = difference(answer)
        if differs is None:
            return None
        if differs.argument == "x-queue-type":
            return differs.current == "stream"
        if differs.argument not in _OF_STREAMS or differs.current is None:
            return False
        arguments[differs.argument] = differs.current
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
