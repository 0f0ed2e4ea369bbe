"""Asks RabbitMQ what the queues are that a query is about to read.

A stream that is read as a queue is refused: what is published while nobody reads would be lost. Every message
of a stream has the header ``x-stream-offset``, but a producer may set this header too. So it only says that
RabbitMQ has to be asked.

A SUBSCRIBE to ``/queue/NAME`` declares the queue. So a name with a typing error would be read for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_stomp.brokers import Dialect, subscription_id
from spark_stomp.brokers.rabbitmq import BY_NAME
from spark_stomp.errors import ConnectFailed, StompError, UnsupportedError
from spark_stomp.logs import get_log
from spark_stomp.options import ConnectionOptions
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.stream_log import has_offset
from spark_stomp.transport import Connection
from spark_stomp.transport.queues import QueueMissing, is_queue

log = get_log(__name__)

# Most queues that are asked for before SUBSCRIBE declares them, because each question is a connection. A
# judgement, not measured.
_MOST_ASKED: Final = 20


class QueueCheck:
    """Checks the queues among the ``destinations`` of one ``connection``. Its methods raise

    - UnsupportedError: one is a stream.
    - ConnectFailed: RabbitMQ does not say what it is, so nothing of this connection may be taken.
    - DestinationRefused: it is not there.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        dialect: Dialect,
        connection: Connection,
        destinations: Sequence[str],
    ) -> None:
        self._options = options
        self._connection = connection
        queues = filter(dialect.is_queue, destinations) if dialect.offset_header is not None else ()
        # By the ids of their subscriptions, until each has brought a message.
        self._unseen = {subscription_id(one).encode(): one for one in queues}

    def at_start(self) -> None:
        """Check them before SUBSCRIBE, because a stream may send nothing for long.

        Warn of queues that SUBSCRIBE will declare.
        """
        declared = [one for one in self._unseen.values() if one.startswith("/queue/")][:_MOST_ASKED]
        for destination in self._unseen.values():
            # Many are asked for one after the other. This connection must not seem dead meanwhile.
            self._connection.beat()
            # Without an answer the first message is soon enough.
            if destination.startswith(BY_NAME):
                self._is_queue(destination)
            elif destination in declared and not self._warn_if_missing(destination):
                declared = []  # no answer, and connectTimeout is spent

    def _warn_if_missing(self, destination: str) -> bool:
        """Whether RabbitMQ has answered."""
        try:
            self._is_queue(destination)
        except QueueMissing:
            log.warning(
                "RabbitMQ has no queue %s: the subscription declares it, and it is empty. Check the name if "
                "you did not expect that",
                destination.removeprefix("/queue/"),
            )
        except UnsupportedError:
            raise
        except StompError as error:
            log.info("it is not known whether RabbitMQ had %s before: %s", destination, error)
            return False
        return True

    def at_messages(self, block: MessageBlock) -> None:
        """Check the first message of each subscription, before it is taken.

        That is done on each connection, because a queue may be replaced by a stream. Its consumers are then
        cut off.
        """
        for name in self._unseen.keys() & set(block.subscriptions) if self._unseen else ():
            at = block.subscriptions.index(name)
            if has_offset(block.data[block.ends[at - 1] if at else 0 : block.ends[at]]):
                self._require_queue(self._unseen[name])
            del self._unseen[name]

    def _require_queue(self, destination: str) -> None:
        if not self._is_queue(destination):
            raise ConnectFailed(
                f"{self._connection.peer} does not say whether {destination} is a stream, as the header "
                "x-stream-offset of its first message may mean. Give the login a second connection"
            )

    def _is_queue(self, destination: str) -> bool:
        return is_queue(self._options, destination, self._connection.peer)
