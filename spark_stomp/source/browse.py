"""Reads the messages that are in queues now without consuming them, for batch reads and the command line.

If the broker can browse a queue, this browses. Otherwise it takes the messages and gives them back un-acked.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from spark_stomp.brokers import Dialect, dialect_of, plain_subscription
from spark_stomp.errors import StompError, TooManyMessages
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.logs import get_log, show
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    MalformedMessage,
    MessageBlock,
    MessageReceived,
    MessagesScanned,
    ack_modes,
)
from spark_stomp.protocol.decoder import frames_in
from spark_stomp.quoting import counted, listed
from spark_stomp.receiver.stream_check import StreamCheck
from spark_stomp.transport import Connection, Pump, open_connection

log = get_log(__name__)

# The most bytes to read before the receipt of DISCONNECT. The buffers of both sockets hold less, so a broker
# that sends more ignores DISCONNECT. A judgement; without it, a hostile broker was read for 5 s (November
# 2026).
_DISCONNECT_MAX_BYTES = 32 << 20


def browse(
    options: SourceOptions, check: Callable[[Dialect, str], object] = lambda dialect, destination: None
) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Yield up to ``maxMessages`` raw frames of the destinations, in frame batches with the broker's dialect.

    The destinations are read together, until ``idleTimeout`` of silence. Nothing is ACKed. If the broker
    cannot browse, the messages are taken and given back at the end, and each then counts one delivery more.
    The log says so, and it says if the read was cut off. ``check`` is called with the broker's dialect and
    each destination before anything is taken from it, and may raise.

    Raises TooManyMessages if there are more than ``maxMessages`` and the user did not set that option, and
    UnsupportedError if a destination is a topic.
    """
    return _BatchRead(options, check).batches()


class _BatchRead:
    """One batch read of all destinations, on one connection."""

    def __init__(self, options: SourceOptions, check: Callable[[Dialect, str], object]) -> None:
        self._options = options
        self._check = check
        self._what = listed(options.destinations)
        self._deadline = time.monotonic() + options.max_drain_time
        # Held while the connection is used, because the pump's thread uses it too.
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()  # messages by the id of their subscription
        self._cut_off_by: str | None = None
        self._warned_of_stray = False

    def batches(self) -> Iterator[tuple[FrameBatch, Dialect]]:
        show(self._options.connection.log_level)
        for note in self._options.notes:
            log.warning("%s", note)
        with open_connection(self._options.connection, scan=True) as connection:
            connection.require_open()
            yield from self._read(connection)
        if self._cut_off_by is not None:
            log.warning(
                "the batch read of %s was cut off after %s: there may be more",
                ", ".join(self._options.destinations),
                self._cut_off_by,
            )

    @property
    def _room(self) -> int:
        return self._options.max_messages - self._taken.total()

    @property
    def _cap(self) -> str:
        return f"maxMessages ({self._options.max_messages})"

    def _read(self, connection: Connection) -> Iterator[tuple[FrameBatch, Dialect]]:
        options, version = self._options, connection.session.version or "1.0"
        dialect = dialect_of(connection.session.server, options.connection)
        dialect.check_version(version)
        for destination in options.destinations:
            self._check(dialect, destination)
        check = StreamCheck(options.connection, dialect, connection, options.destinations)
        check.at_start()
        subscriptions = {plain_subscription(one).id: one for one in options.destinations}
        browsed = {name for name, one in subscriptions.items() if dialect.browses(one)}
        first, too_many, ended = next(iter(subscriptions)), False, set[str]()
        early = _subscribe(connection, options, dialect, subscriptions, self._room)
        # The pump sends heart-beats while Spark works on a batch of rows.
        with Pump(connection, connection.beat, self._lock, "stomp-batch-read"):
            for block in self._blocks(connection, early):
                check.at_messages(block)
                names = _subscriptions_of(block, first)
                block, names = (
                    _without_marks(block, names, version, dialect, ended) if browsed else (block, names)
                )
                shown = min(len(names), self._room)
                if shown:
                    yield batch_of(block, shown, version, self._what, self._taken.total()), dialect
                self._taken.update(names[:shown])
                all_ended = ended == subscriptions.keys()
                too_many = shown < len(names) or (options.capped and not self._room and not all_ended)
                if all_ended or too_many:
                    break
        self._warn(dialect, subscriptions, browsed)
        disconnect(connection, dialect, subscriptions)
        if too_many:
            self._end_early()
            return
        for name in browsed:
            if name not in ended:
                log.warning(
                    "the broker did not say that the browse has ended: %s may have more", subscriptions[name]
                )
            if self._taken[name] == dialect.browse_limit:
                self._check_browse(subscriptions[name], dialect.browse_limit)

    def _check_browse(self, destination: str, limit: int) -> None:
        """Raise TooManyMessages if the user wants more than ``limit``, the most that the broker shows."""
        if not self._options.capped or self._room:
            raise TooManyMessages(
                f"{destination}: the broker ended the browse after {limit} messages, which is its "
                "maxBrowsePageSize unless configured otherwise, so there may be more. Raise it in the "
                f"destination policy, or set maxMessages = {self._taken.total()} to accept that many"
            )

    def _end_early(self) -> None:
        """End the read because there are, or may be, more than ``maxMessages`` messages.

        Raises TooManyMessages if the user did not set that option.
        """
        options = self._options
        if not options.capped:
            raise TooManyMessages(
                f"{', '.join(options.destinations)}: there are more than {options.max_messages} messages, "
                "and without the option maxMessages a batch read shows all or none. Set maxMessages to more "
                "than there are, or to the number of rows that you want to see"
            )
        self._cut_off_by = self._cap

    def _blocks(self, connection: Connection, early: list[Event]) -> Iterator[MessageBlock]:
        """Yield blocks of messages until ``maxDrainTime``, or until no frame byte came for ``idleTimeout``.

        Raises the error of an ERROR frame, and with ``onMalformed=fail`` that of a malformed message.
        """
        events, begun = early, time.monotonic()
        while True:
            for event in events:
                if isinstance(event, ErrorReceived):
                    raise connection.error_of(event)
                if isinstance(event, MalformedMessage):
                    if self._options.on_malformed == "fail":
                        raise event.as_error(self._what)
                    event = MessagesScanned(MessageBlock.of_malformed(event))
                if isinstance(event, MessageReceived):
                    self._warn_of_stray(event)
                elif isinstance(event, MessagesScanned):
                    yield event.block
                    begun = time.monotonic()
            silent_until = max(begun, connection.last_frame_byte) + self._options.idle_timeout
            remaining = min(silent_until, self._deadline) - time.monotonic()
            if remaining <= 0:
                if self._deadline < silent_until:
                    self._cut_off_by = f"maxDrainTime ({self._options.max_drain_time:g}s)"
                return
            with self._lock:
                events = connection.poll(remaining)

    def _warn(self, dialect: Dialect, subscriptions: Mapping[str, str], browsed: set[str]) -> None:
        """Warn of destinations that may lose messages, and of what the read has cost."""
        if dialect.unknown is not None:
            log.warning("%s", dialect.unknown)
        for destination in subscriptions.values():
            unknown = dialect.unknown_kind(destination)
            if unknown is not None and not self._options.allow_loss:
                log.warning("%s", unknown)
        if dialect.browse_limit is not None and self._options.selector is not None:
            log.warning(
                "the batch read of %s with a selector may miss messages: %s looks only at the first "
                "maxBrowsePageSize messages of the queue, %d by default",
                self._what,
                dialect.name,
                dialect.browse_limit,
            )
        taken = [
            name for name, one in subscriptions.items() if not dialect.is_topic(one) and name not in browsed
        ]
        if taken:
            cost = "" if dialect.unsubscribe_returns else ". It counts each of them as delivered once more"
            log.warning(
                "the batch read of %s took %s and gives all back un-acked, because this broker cannot "
                "browse%s",
                listed([subscriptions[name] for name in taken]),
                counted(sum(self._taken[name] for name in taken), "message"),
                cost,
            )

    def _warn_of_stray(self, event: MessageReceived) -> None:
        if not self._warned_of_stray:
            self._warned_of_stray = True
            log.warning("%s", event.stray)


def _subscribe(
    connection: Connection,
    options: SourceOptions,
    dialect: Dialect,
    subscriptions: Mapping[str, str],
    room: int,
) -> list[Event]:
    session = connection.session
    selector = () if options.selector is None else (("selector", options.selector),)
    further = selector + options.subscribe_headers
    for destination in subscriptions.values():
        dialect.check_batch_read(destination, further, allow_loss=options.allow_loss)
    # Never `auto`, not even to browse: a broker that ignores the browse header would count all as consumed.
    individual = "client-individual" in ack_modes(session.version or "1.0")
    requests: dict[str, str] = {}
    # End marks of browses are no messages.
    early = _EarlyEvents(room + len(subscriptions))
    for name, destination in subscriptions.items():
        if dialect.orphans_subscriptions:
            connection.await_receipts(requests, options.connection.connect_timeout, early.take)
            requests.clear()
        # Nothing is ACKed, so the window must also have room for what comes after the last message: the end
        # mark of a browse, or the one message too many that is an error.
        after_last = 0 if options.capped and not dialect.browses(destination) else 1
        receipt = session.new_receipt()
        requests[receipt] = f"SUBSCRIBE to {destination}"
        session.subscribe(
            name,
            destination,
            ack="client-individual" if individual else "client",
            headers=dialect.batch_read_headers(destination, room + after_last) + further,
            receipt=receipt,
        )
    connection.await_receipts(requests, options.connection.connect_timeout, early.take)
    return early.events


class _EarlyEvents:
    """The messages that come before all subscriptions are confirmed.

    A broker may send them without end. So this keeps only enough messages to show that there are more than
    ``room``, and one of another subscription.
    """

    def __init__(self, room: int) -> None:
        self.events: list[Event] = []
        self._room = room
        self._stray = False

    def take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, (MessagesScanned, MalformedMessage)) and self._room >= 0:
                self.events.append(event)
                self._room -= len(event.block.ends) if isinstance(event, MessagesScanned) else 1
            elif isinstance(event, MessageReceived) and not self._stray:
                self.events.append(event)
                self._stray = True


def _subscriptions_of(block: MessageBlock, only: str) -> list[str]:
    """The subscription of each frame; ``only`` for those that name none."""
    return [only if name is None else name.decode() for name in block.subscriptions]


def _without_marks(
    block: MessageBlock, names: list[str], version: str, dialect: Dialect, ended: set[str]
) -> tuple[MessageBlock, list[str]]:
    """The block without the end marks of browses, whose subscriptions are added to ``ended``.

    ``names`` are the subscriptions of the frames; those of the frames that are left are returned too.
    """
    if block.malformed or b"browser:end" not in block.data:
        return block, names
    kept, ends = [], [0, *block.ends]
    for index, frame in enumerate(frames_in(block.data, version)):
        if dialect.end_of_browse(frame.get("browser"), frame.get("message-id")):
            ended.add(names[index])
        else:
            kept.append(index)
    parts = [block.data[ends[index] : ends[index + 1]] for index in kept]
    rest = replace(block, data=b"".join(parts), ends=list(accumulate(map(len, parts))))
    return rest, [names[index] for index in kept]


def batch_of(block: MessageBlock, count: int, version: str, what: str, first: int) -> FrameBatch:
    """The first ``count`` frames of ``block``, numbered from ``first``, for a batch read of ``what``."""
    return FrameBatch(
        data=block.data[: block.ends[count - 1]],
        ends=np.asarray(block.ends[:count], dtype=np.int64),
        version=version,
        received_at=time.time_ns() // 1_000,
        receiver=f"{what}#look",
        first_number=first,
        malformed=block.malformed,
    )


def disconnect(connection: Connection, dialect: Dialect, subscriptions: Iterable[str]) -> None:
    """End a batch read whose rows are complete."""
    try:
        for name in subscriptions if dialect.unsubscribe_returns else ():
            connection.session.unsubscribe(name)
        connection.disconnect(most=_DISCONNECT_MAX_BYTES)
    except StompError as error:
        # The rows are complete, and without DISCONNECT the broker also keeps the un-acked messages.
        log.info("the batch read did not end with an orderly DISCONNECT: %s", error)
