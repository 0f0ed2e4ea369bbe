"""Asks the broker what the queues are that a query is about to read, and whether they are there.

A stream that is read as a queue is refused: what is published while nobody reads would be lost. Every message
of a stream has the header ``x-stream-offset``, but a producer may set this header too. So it only says that
RabbitMQ has to be asked.

A SUBSCRIBE to ``/queue/NAME`` declares the queue. So a name with a typing error would be read for ever, and
one that is deleted while it is read would come back empty and without its bindings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from spark_stomp.brokers import Dialect, subscription_id
from spark_stomp.brokers.rabbitmq import BY_NAME
from spark_stomp.errors import ConnectFailed, StompError, UnsupportedError
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.stream_offsets import has_offset
from spark_stomp.transport import Connection
from spark_stomp.transport.queues import QueueMissing, ask_if_queue
from spark_stomp.transport.standing import ask_standing

log = get_log(__name__)

# Most queues that are asked for before SUBSCRIBE declares them, because each question is a connection.
_MOST_ASKED: Final = 20


class QueueCheck:
    """Checks the queues that one receiver reads, on each of its connections. Its methods raise

    - UnsupportedError: one is a stream; or ``failOnMissingQueue`` is set, and the broker does not tell.
    - ConnectFailed: RabbitMQ does not say what it is, so nothing of this connection may be taken.
    - DestinationRefused: it is not there.

    ``declares``: whether SUBSCRIBE to ``/queue/NAME`` does.

    Attributes:
        missing: the queues that were not there, and have brought no message yet: since when, in seconds since
            1970, if they were deleted, and None if they were not there at the start. It is replaced, and not
            changed.
    """

    def __init__(self, options: SourceOptions, *, declares: bool = True) -> None:
        self.missing: Mapping[str, float | None] = {}
        self._options = options
        self._declares = declares
        self._connection: Connection
        # By the ids of their subscriptions, until each has brought a message.
        self._unseen: dict[bytes, str] = {}
        # Of other brokers than RabbitMQ: what was there, and does not go by itself.
        self._lasting: set[str] = set()

    def begin(
        self, dialect: Dialect, connection: Connection, destinations: Sequence[str], *, first: bool
    ) -> None:
        """The receiver is about to subscribe to ``destinations``, over its ``first`` connection or another.

        Check them: a stream may send nothing for long, and SUBSCRIBE declares what is not there.
        :attr:`missing` has it.
        """
        self._connection = connection
        queues = () if self._options.streams else [*filter(dialect.is_queue, destinations)]
        has_streams = dialect.offset_header is not None
        self._unseen = {subscription_id(one).encode(): one for one in queues} if has_streams else {}
        if has_streams and first:
            self._ask_rabbitmq(queues)
        elif has_streams:
            # A missing /amq/queue/NAME is refused anyway.
            self._ask_again([one for one in queues if one.startswith("/queue/")], self._ask_if_queue)
        elif first and self._options.fail_on_missing_queue:
            self._require_others(dialect, queues)
        else:
            self._ask_again(
                [one for one in queues if one in self._lasting], partial(self._others_have, dialect)
            )

    def _ask_again(self, queues: Sequence[str], ask: Callable[[str], object]) -> None:
        """After a lost connection, which may have ended because a queue was deleted. No answer is no error.

        ActiveMQ goes on with a queue that is deleted, and makes it again (6.3.1, November 2026).
        """
        for destination in queues[:_MOST_ASKED]:
            try:
                ask(destination)
            except QueueMissing as error:
                if self._options.fail_on_missing_queue:
                    raise _deleted(destination) from error
                self.missing = {**self.missing, destination: time.time()}
                log.warning(
                    "%s was deleted while this query ran. The subscription makes it anew, empty, without its "
                    "bindings and arguments: declare it as it was",
                    destination,
                )
            except StompError as error:
                log.info("it is not known whether %s is still there: %s", destination, error)
                return

    def _ask_rabbitmq(self, queues: Sequence[str]) -> None:
        required = self._options.fail_on_missing_queue
        declared = [one for one in queues if one.startswith("/queue/")][:_MOST_ASKED]
        for destination in queues:
            # Without an answer the first message is soon enough.
            if required:
                self._require_in_rabbitmq(destination)
            elif destination.startswith(BY_NAME) or not self._declares:
                self._ask_if_queue(destination)
            elif destination in declared and not self._warn_if_missing(destination):
                declared = []  # no answer, and connectTimeout is spent

    def _require_in_rabbitmq(self, destination: str) -> None:
        try:
            found = self._ask_if_queue(destination)
        except QueueMissing as error:
            raise _missing_error(destination) from error
        if not found:
            raise _not_told(destination, "the login may not read from it, or may have no second connection")

    def _require_others(self, dialect: Dialect, queues: Sequence[str]) -> None:
        for destination in queues:
            try:
                self._others_have(dialect, destination)
            except UnsupportedError as error:
                raise _not_told(destination, error.message) from error

    def _others_have(self, dialect: Dialect, destination: str) -> None:
        """Raises QueueMissing, and UnsupportedError if the broker does not tell."""
        ask = partial(ask_standing, self._options.connection, dialect, destination, self._connection.peer)
        answer = self._connection.beat_while(ask)
        if not answer.is_there:
            raise _missing_error(destination)
        if not answer.passing:
            self._lasting.add(destination)

    def _warn_if_missing(self, destination: str) -> bool:
        """Whether RabbitMQ has answered."""
        try:
            self._ask_if_queue(destination)
        except QueueMissing:
            self.missing = {**self.missing, destination: None}
            log.warning(
                "RabbitMQ has no queue %s: the subscription declares it, and it is empty. Check the name if "
                "you did not expect that",
                destination,
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
            seen = self._unseen.pop(name)
            self.missing = {name: since for name, since in self.missing.items() if name != seen}

    def _require_queue(self, destination: str) -> None:
        if not self._ask_if_queue(destination):
            raise ConnectFailed(
                f"{self._connection.peer} does not say whether {destination} is a stream, as the header "
                "x-stream-offset of its first message may mean. Give the login a second connection"
            )

    def _ask_if_queue(self, destination: str) -> bool:
        ask = partial(ask_if_queue, self._options.connection, destination, self._connection.peer)
        return self._connection.beat_while(ask)


def _not_told(destination: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"failOnMissingQueue = true is given, and whether {destination} is there cannot be known: {why}. "
        "Leave it out, or set the broker so that it makes no queues by itself"
    )


def _missing_error(destination: str) -> QueueMissing:
    return QueueMissing(
        f"{destination} is not there, and failOnMissingQueue = true is given. Correct the name, declare the "
        "queue, or leave the option out"
    )


def _deleted(destination: str) -> QueueMissing:
    return QueueMissing(
        f"{destination} was deleted while this query ran, and failOnMissingQueue = true is given. Declare "
        "it as it was, with its bindings, and start the query again"
    )
