"""Reads the messages that are in queues now without consuming them, for batch reads and the command line.

If the broker can browse a queue, this browses. Otherwise it takes the messages and gives them back un-acked.
As in a streaming query a receiver reads them, in its own thread; the task takes what it has (:func:`take`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from spark_stomp.brokers import Dialect, dialect_named
from spark_stomp.errors import TooManyMessages
from spark_stomp.frame_batch import FrameBatch, joined
from spark_stomp.logs import get_log, show
from spark_stomp.options import SourceOptions
from spark_stomp.quoting import counted, listed
from spark_stomp.receiver import (
    DISCONNECT_TIMEOUT,
    DedupIndex,
    Deliveries,
    Log,
    ReadReceiver,
    Receiver,
    ReceiverSettings,
)

log = get_log(__name__)

# Seconds after which a task looks again, although its receiver has no news. A judgement, not measured.
_LOOK_AGAIN = 1.0
# Seconds in which more may come before a task takes what has come. With six messages a read, as RabbitMQ
# sends them, that takes 0.8 of the processor time (November 2026).
_GATHER = 0.004


def browse(options: SourceOptions) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Yield up to ``maxMessages`` raw frames of the destinations, in frame batches with the broker's dialect.

    The destinations are read together, until ``idleTimeout`` of silence. Nothing is ACKed. If the broker
    cannot browse, the messages are taken and given back at the end, and each then counts one delivery more.
    The log says so, and it says if the read was cut off.

    Raises TooManyMessages if there are more than ``maxMessages`` and the user did not set that option, and
    UnsupportedError if a destination is a topic.
    """
    show_notes(options)
    # One receiver, so that maxMessages counts all messages.
    settings = read_settings(replace(options, connections=1), options.destinations)
    deliveries = Deliveries(settings.max_buffered_bytes, Log(DedupIndex()), settings.name)
    changed = threading.Event()
    receiver = ReadReceiver(settings, deliveries, changed.set)
    yield from take(receiver, deliveries, changed, receiver.left)
    _warn(options, receiver)
    cut_off_by = f"maxDrainTime ({options.max_drain_time:g}s)" if receiver.is_late else None
    if receiver.too_many:
        _check_capped(options)
        cut_off_by = f"maxMessages ({options.max_messages})"
    else:
        _check_browses(options, receiver)
    if cut_off_by is not None:
        log.warning(
            "the batch read of %s was cut off after %s: there may be more",
            ", ".join(options.destinations),
            cut_off_by,
        )


def show_notes(options: SourceOptions) -> None:
    """Show log lines in this process, and log what the options have to say."""
    show(options.connection.log_level)
    for note in options.notes:
        log.warning("%s", note)


def read_settings(options: SourceOptions, destinations: tuple[str, ...]) -> ReceiverSettings:
    """The settings of the receiver of a batch read."""
    return ReceiverSettings(f"{listed(destinations)}#look", destinations, options)


def take(
    receiver: Receiver,
    deliveries: Deliveries,
    changed: threading.Event,
    left: Callable[[float], float | None],
) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Run ``receiver``, yield what comes in frame batches of up to 1 MiB or one read, and then free it.

    The receiver fills ``deliveries`` and sets ``changed``. ``left`` is called with the monotonic time since
    which the caller waits for frames, and says how many more seconds to wait if nothing comes; None if no
    more are wanted. At the end the receiver disconnects in order. If the caller gives up before, nothing is
    waited for.

    Raises the receiver's error after all that came before it, if more was wanted.
    """
    inbox, timeout, since = deliveries.inbox, 0.0, time.monotonic()
    receiver.start()
    try:
        while True:
            changed.clear()
            # Both first: what came before them is yielded now.
            error, seconds = receiver.failure or receiver.refused, left(since)
            with deliveries.lock:
                deliveries.number(inbox.pending)
            held = deliveries.log
            for batch in joined(held.batches(held.committed, held.end)):
                yield batch, dialect_named(batch.dialect)
                half_full = inbox.room < inbox.memory_bytes
                held.commit(batch.end)
                if half_full:
                    receiver.wake()  # it may be paused, or have asked for no more
                since = time.monotonic()
            if seconds is None:
                break
            if error is not None:
                raise error
            if seconds <= 0:
                break
            if changed.wait(min(seconds, _LOOK_AGAIN)):
                time.sleep(_GATHER)
        timeout = DISCONNECT_TIMEOUT
    finally:
        receiver.stop(timeout)


def _check_capped(options: SourceOptions) -> None:
    """There are more than ``maxMessages`` messages: raise TooManyMessages if the user did not set that."""
    if not options.capped:
        raise TooManyMessages(
            f"{', '.join(options.destinations)}: there are more than {options.max_messages} messages, "
            "and without the option maxMessages a batch read shows all or none. Set maxMessages to more "
            "than there are, or to the number of rows that you want to see"
        )


def _check_browses(options: SourceOptions, receiver: ReadReceiver) -> None:
    """Warn of browses without an end mark. Raise TooManyMessages if more is wanted than the broker shows."""
    limit = receiver.dialect.browse_limit
    for destination in filter(receiver.dialect.browses, options.destinations):
        if destination not in receiver.ended:
            log.warning("the broker did not say that the browse has ended: %s may have more", destination)
        if receiver.taken[destination] == limit and (not options.capped or receiver.room):
            raise TooManyMessages(
                f"{destination}: the broker ended the browse after {limit} messages, which is its "
                "maxBrowsePageSize unless configured otherwise, so there may be more. Raise it in the "
                f"destination policy, or set maxMessages = {receiver.taken.total()} to accept that many"
            )


def _warn(options: SourceOptions, receiver: ReadReceiver) -> None:
    """Warn of destinations that may lose messages, and of what the read has cost."""
    dialect = receiver.dialect
    if dialect.unknown is not None:
        log.warning("%s", dialect.unknown)
    for destination in options.destinations:
        unknown = dialect.unknown_kind(destination)
        if unknown is not None and not options.allow_loss:
            log.warning("%s", unknown)
    if dialect.browse_limit is not None and options.selector is not None:
        log.warning(
            "the batch read of %s with a selector may miss messages: %s looks only at the first "
            "maxBrowsePageSize messages of the queue, %d by default",
            listed(options.destinations),
            dialect.name,
            dialect.browse_limit,
        )
    taken = [one for one in options.destinations if not (dialect.is_topic(one) or dialect.browses(one))]
    if taken:
        cost = "" if dialect.unsubscribe_returns else ". It counts each of them as delivered once more"
        log.warning(
            "the batch read of %s took %s and gives all back un-acked, because this broker cannot browse%s",
            listed(taken),
            counted(sum(receiver.taken[one] for one in taken), "message"),
            cost,
        )
