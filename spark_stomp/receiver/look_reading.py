"""What a batch read of queues does over its connection: it shows what is there, and gives it back.

It differs from a streaming query in four ways. It ACKs nothing, so no message needs a handle or an id. It
takes ``maxMessages`` at most, of all destinations together. Its first connection is its last, because another
one would bring the same messages again. And it makes nothing: of RabbitMQ it names a queue so that SUBSCRIBE
declares none.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final

from spark_stomp.brokers import Subscription, subscription_id
from spark_stomp.brokers.rabbitmq import BY_NAME, NO_QUEUE, stream_name
from spark_stomp.deadline import Deadline
from spark_stomp.errors import DestinationRefused, UnsupportedError
from spark_stomp.protocol import MalformedMessage, MessageBlock, read_message
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.quoting import counted, listed
from spark_stomp.receiver.reading import Reading, ReceiverState
from spark_stomp.receiver.stream_offsets import frame_range
from spark_stomp.receiver.turns import Turn
from spark_stomp.transport import Connection
from spark_stomp.transport.queues import QueueMissing

# A look is refused so many deliveries before a quorum queue drops what it shows: the refused one counts too.
_SPARED: Final = 5


class LookReading(Reading):
    """The only connection of a batch read of queues.

    Attributes:
        taken: how many messages of each destination were taken.
        ended: destinations whose browse has ended.
        too_many: whether there are, or may be, more than ``maxMessages`` messages.
        complete: whether nothing more is taken.
        is_late: whether the read ended because of ``maxDrainTime``.
        delivered_before: how often a message was delivered before, at most, in a queue that counts.
    """

    retries = False

    def __init__(self, receiver: ReceiverState, turn: Turn, before: Reading | None = None) -> None:
        super().__init__(receiver, turn, before)
        self._deadline = Deadline.after(self._options.max_drain_time)
        self._destination_of = {subscription_id(one).encode(): one for one in turn.destinations}
        self.taken: Counter[str] = Counter()
        self.ended: set[str] = set()
        self.too_many = self.complete = self.is_late = False
        self.delivered_before = 0

    @property
    def room(self) -> int:
        """How many more messages may be taken."""
        return self._options.max_messages - self.taken.total()

    def seconds_left(self, since: float) -> float | None:
        """How many seconds the read goes on if nothing comes; None once it is complete.

        It ends at ``max_drain_time``, or after ``idle_timeout`` of silence. Silence before the monotonic time
        ``since`` does not count. Any thread may call this.
        """
        if not self._state.connections.connected:
            return math.inf
        if self.complete:
            return None
        silent = max(since, self._reader.active_at(self.last_active)) + self._options.idle_timeout
        seconds_left = min(silent, self._deadline.at) - time.monotonic()
        self.is_late = seconds_left <= 0 and self._deadline.at < silent
        return seconds_left

    # Everything below runs in the receiver's thread.

    def _subscription(self, destination: str) -> Subscription:
        options, dialect = self._options, self.dialect
        selector = () if options.selector is None else (("selector", options.selector),)
        headers = selector + options.subscribe_headers
        dialect.check_batch_read(destination, headers, allow_loss=options.allow_loss)
        # A topic takes nothing back. In another mode its window would fill, because nothing is ACKed.
        ack = "auto" if dialect.is_topic(destination) else ""
        return Subscription(subscription_id(destination), headers, ack)

    def subscribe(self, connection: Connection) -> None:
        try:
            super().subscribe(connection)
        except DestinationRefused as error:
            if NO_QUEUE not in error.message:
                raise
            names = listed(self._settings.destinations)
            raise QueueMissing(
                f"{names} is not there, and a look makes no queue. Correct the name"
            ) from error

    def _address(self, destination: str) -> str:
        # It declares nothing, and needs no right to.
        named = self.dialect.offset_header is not None and destination.startswith("/queue/")
        return BY_NAME + stream_name(destination) if named else destination

    def _id_header(self) -> None:
        """Nothing comes twice over one connection."""

    def _choose_window(self) -> None:
        """Nothing is ACKed, so of a queue it is ``maxMessages``. What is risked is said at the end."""

    def _prefetch_headers(self, destination: str) -> HeaderPairs:
        if self.dialect.is_topic(destination):
            return self.dialect.batch_read_headers(destination, self._options.prefetch)
        # One more than wanted: the end mark of a browse, or a message too many, which is an error.
        after_last = 0 if self._options.capped and not self.dialect.browses(destination) else 1
        return self.dialect.batch_read_headers(destination, self._options.max_messages + after_last)

    def _take_malformed(self, connection: Connection, message: MalformedMessage) -> None:
        if self._options.on_malformed == "fail":
            raise message.as_error(self._settings.what)
        self._take(connection, MessageBlock.of_malformed(message))

    def _take(self, connection: Connection, block: MessageBlock) -> None:
        if self.complete or self._state.stopping.deadline is not None:
            return
        self._state.queues.at_messages(block)
        self._refuse_a_last_look(block.delivery_count)
        version, destinations = connection.session.version or "1.0", self._settings.destinations
        # A message that names no subscription is of the only one.
        came = [self._destination_of.get(name or b"", destinations[0]) for name in block.subscriptions]
        block, came = self._without_marks(block, came, version)
        shown = min(len(came), self.room)
        if shown:
            now = time.time_ns() // 1_000
            block = frame_range(block, 0, shown)
            self._deliveries.receive(block, received_at=now, version=version, dialect=self.dialect.name)
        self.taken.update(came[:shown])
        self.last_active = time.monotonic()
        all_ended = len(self.ended) == len(destinations)
        self.too_many = shown < len(came) or (self._options.capped and not self.room and not all_ended)
        self.complete = self.too_many or all_ended

    def _refuse_a_last_look(self, count: int) -> None:
        """What this connection has counts as delivered once more, even if it is not shown."""
        self.delivered_before = max(self.delivered_before, count)
        limit = self.dialect.quorum_delivery_limit
        if limit is None or self._options.allow_loss or not limit - _SPARED <= count <= limit:
            return
        raise UnsupportedError(
            f"messages of {self._settings.what} were delivered {counted(count, 'time')} before "
            "(x-delivery-count), each look is one more delivery, and a quorum queue drops or dead-letters a "
            f"message after its delivery-limit: from RabbitMQ 4.0 on {limit} unless a policy says otherwise. "
            'Set a policy with {"delivery-limit": -1}, and keep what a look shows, with .cache() for '
            "example: each action of Spark looks again. allowLoss = true shows them all the same, as is fine "
            "where a policy takes the limit away"
        )

    def _without_marks(
        self, block: MessageBlock, came: list[str], version: str
    ) -> tuple[MessageBlock, list[str]]:
        """Take the end marks of browses out of ``block``, and note whose they are.

        ``came`` are the destinations of the frames; those of the frames that remain are returned too.
        """
        if block.malformed or self.dialect.browse_headers is None or b"browser:end" not in block.heads:
            return block, came
        parts, remaining = [], []
        for (begin, end), destination in zip(pairwise([0, *block.ends]), came, strict=True):
            frame = read_message(block.data[begin:end], version)
            if self.dialect.end_of_browse(frame.get("browser"), frame.get("message-id")):
                self.ended.add(destination)
            else:
                parts.append(block.data[begin:end])
                remaining.append(destination)
        rest = replace(block, data=b"".join(parts), ends=list(accumulate(map(len, parts))))
        return rest, remaining
