"""What a task reads: ranges of a streaming batch, the messages of queues, or a stream of RabbitMQ.

A task of a streaming batch fetches frames from the reader process. A batch read, and the commands ``peek``
and ``tail``, have a receiver in a thread of its own, as a streaming query has; the task takes what came
(:func:`take`). Nothing is ACKed of a queue. If the broker can browse it, the receiver browses; otherwise it
takes the messages and gives them back un-acked.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from spark_stomp.arrow import Flaw, OnError, RowRules, decode_frames
from spark_stomp.brokers import Dialect, dialect_named
from spark_stomp.columns import MALFORMED, Projection
from spark_stomp.deadline import Deadline
from spark_stomp.errors import OptionError, StompError, StreamTimeout, StreamTruncated, TooManyMessages
from spark_stomp.frame_batch import FrameBatch, joined
from spark_stomp.frameserver import FrameServerAddress, RangeTicket, fetch, report
from spark_stomp.logs import get_log, show
from spark_stomp.options import SourceOptions
from spark_stomp.options.kinds import StreamPositions
from spark_stomp.quoting import counted, listed
from spark_stomp.receiver import (
    DISCONNECT_TIMEOUT,
    FIRST,
    DedupIndex,
    Deliveries,
    Log,
    LookReading,
    Receiver,
    ReceiverSettings,
    StreamDeliveries,
    StreamProgress,
    StreamReading,
    StreamStart,
    ask_stream_ends,
    began_anew,
    stream_start,
    unknowns,
)
from spark_stomp.transport.standing import ask_standing

log = get_log(__name__)


@dataclass(frozen=True)
class FrameRanges:
    """Ranges of raw frames and where to fetch them. The ``repr`` does not show the token.

    ``streams`` has the names of the streams among their logs, by id.
    """

    address: FrameServerAddress
    tickets: tuple[RangeTicket, ...]
    streams: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowSettings:
    """How frames become rows: all that a task needs of the options."""

    projection: Projection
    id_header: str | None
    body_decode_errors: OnError
    decodes_amqp: bool = True

    @classmethod
    def of(cls, options: SourceOptions, projection: Projection) -> RowSettings:
        """The settings of a query.

        Raises OptionError if an option asks for the column ``malformed`` and the schema does not name it.
        """
        asked = {"onMalformed": options.on_malformed, "bodyDecodeErrors": options.body_decode_errors}
        without = [key for key, value in asked.items() if value == "column"]
        if without and MALFORMED not in projection.columns:
            raise OptionError(
                f"{key} = column needs the column `{MALFORMED}`: name it in .schema(...), as in "
                f'.schema("destination string, body binary, {MALFORMED} string")'
                for key in without
            )
        decodes_amqp = options.amqp_bodies == "decoded"
        return cls(projection, options.id_header, options.body_decode_errors, decodes_amqp)

    def rules(self, dialect: Dialect, stream: str | None = None) -> RowRules:
        """The rules for frames from a broker of this dialect, of the stream with this name or of queues.

        The option ``idHeader`` has priority over the dialect.
        """
        return RowRules(
            id_header=self.id_header or dialect.id_header,
            timestamp_unit=dialect.timestamp_unit,
            body_decode_errors=self.body_decode_errors,
            id_separator=None if self.id_header else dialect.id_separator,
            id_time_header=None if self.id_header else dialect.id_time_header,
            stream=stream,
            offset_header=dialect.offset_header,
            quoted_names=dialect.quoted_names,
            content_types=dialect.content_types,
            marks=dialect.bodies if self.decodes_amqp else dialect.bodies.of_raw(),
        )


def read_ranges(ranges: FrameRanges, settings: RowSettings) -> Iterator[pa.RecordBatch]:
    """Fetch the frames of ``ranges`` and decode them. Yields a record batch for about each MiB of frames."""
    flaws: Counter[Flaw] = Counter()
    for ticket in ranges.tickets:
        for batch in fetch(ranges.address, ticket):
            rules = settings.rules(dialect_named(batch.dialect), ranges.streams.get(ticket.log))
            yield decode_frames(batch, settings.projection, rules, flaws)
    if flaws:
        report(ranges.address, [(*flaw, count) for flaw, count in flaws.items()])


# Seconds after which a task looks again, although its receiver has no news.
_LOOK_AGAIN = 1.0
# Queues of which the broker is asked how much waits there.
_MOST_ASKED = 5
# Seconds between two log lines of a batch read that takes long.
_LOG_EVERY = 10.0
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
    settings = batch_read_settings(replace(options, connections=1), options.destinations)
    deliveries = Deliveries(settings.max_buffered_bytes, Log(DedupIndex()), settings.name)
    changed = threading.Event()
    receiver = Receiver(settings, deliveries, changed.set, LookReading)
    look = receiver.reading
    assert isinstance(look, LookReading)
    withheld = Counter[str]()

    def seconds_left(since: float) -> float | None:
        seconds = look.seconds_left(since)
        if seconds is not None and seconds <= 0.0 and not look.is_late:
            withheld.update(_withheld(options, look, receiver.status().connection.peer))
        return seconds

    yield from run_receiver(receiver, deliveries, changed, seconds_left)
    _warn(options, look)
    if withheld:
        log.warning(
            "the batch read lacks %s that wait there and that nobody has, in %s: %s",
            counted(withheld.total(), "message"),
            listed([*withheld]),
            look.dialect.asks.why_withheld(options.selector),
        )
    _check_whole(options, look)


def _check_whole(options: SourceOptions, look: LookReading) -> None:
    """Warn of what cut the read off. Raise TooManyMessages if more is wanted than the limits allow."""
    # The commands put their argument in place of "maxMessages (10)" (commands/main.py).
    cut_off_by = f"maxDrainTime ({options.max_drain_time:g}s)" if look.is_late else None
    if look.too_many:
        _check_capped(options)
        cut_off_by = f"maxMessages ({options.max_messages})"
    else:
        _check_browses(options, look)
    if cut_off_by is not None:
        log.warning(
            "the batch read of %s was cut off after %s: there may be more",
            ", ".join(options.destinations),
            cut_off_by,
        )


def _withheld(options: SourceOptions, look: LookReading, peer: str) -> dict[str, int]:
    """How many messages of each queue the broker does not give, as far as it tells.

    While the look has messages, figures that are not those of now would count these.
    """
    found = {}
    for queue in options.destinations[:_MOST_ASKED]:
        try:
            asked_at = time.monotonic()
            figures = ask_standing(options.connection, look.dialect, queue, peer, options.selector)
        except StompError as error:
            log.debug("how much waits in %s is not known: %s", queue, error)
            break
        settled = asked_at >= look.last_active + look.dialect.asks.settling
        if figures.withheld and (settled or not look.taken.total()):
            found[queue] = figures.withheld
    return found


def refuse_topics(options: SourceOptions) -> None:
    """Raise UnsupportedError if a name is a topic on any broker, before a task finds out.

    Of an error while it plans Spark shows a few lines, of one in a task a hundred.
    """
    dialect = options.connection.dialect(None)
    for one in filter(dialect.is_topic, options.destinations):
        dialect.check_batch_read(one, options.subscribe_headers, allow_loss=options.allow_loss)


def batch_read(options: SourceOptions, stream: str | None) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Read ``stream``, or the queues if it is None. How much has come is logged every ten seconds."""
    begun = time.monotonic()
    count, due = 0, begun + _LOG_EVERY
    ends = "after idleTimeout without a message" if stream is None else "where the stream ended at the start"
    for batch, dialect in browse(options) if stream is None else read_stream(options, stream):
        yield batch, dialect
        count += len(batch.ends)
        if (now := time.monotonic()) >= due:
            due = now + _LOG_EVERY
            log.info(
                "the batch read of %s has %s so far, %.0f a second; it ends %s, at maxMessages or at "
                "maxDrainTime",
                stream or listed(options.destinations),
                counted(count, "message"),
                count / (now - begun),
                ends,
            )


def show_notes(options: SourceOptions) -> None:
    """Show log lines in this process, and log what the options have to say."""
    show(options.connection.log_level)
    for note in options.notes:
        log.warning("%s", note)


def batch_read_settings(options: SourceOptions, destinations: tuple[str, ...]) -> ReceiverSettings:
    """The settings of the receiver of a batch read."""
    return ReceiverSettings(f"{listed(destinations)}#look", destinations, options, of_batch=True)


def run_receiver(
    receiver: Receiver,
    deliveries: Deliveries,
    changed: threading.Event,
    seconds_left: Callable[[float], float | None],
) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Run ``receiver``, yield what comes in frame batches of up to 2 MiB or one read, and then free it.

    The receiver fills ``deliveries`` and sets ``changed``. ``seconds_left`` is called with the monotonic time
    since which the caller waits for frames, and says how many more seconds to wait if nothing comes; None if
    no more are wanted. At the end the receiver disconnects in order. If the caller gives up before, nothing
    is waited for.

    Raises the receiver's error after all that came before it, if more was wanted.
    """
    inbox, timeout, since = deliveries.inbox, 0.0, time.monotonic()
    receiver.start()
    try:
        while True:
            changed.clear()
            # Read both first, so that all that came before them is yielded.
            error, seconds = receiver.failure or inbox.refused, seconds_left(since)
            with deliveries.lock:
                deliveries.number(inbox.pending)
            messages = deliveries.log
            for batch in joined(messages.batches(messages.committed, messages.end)):
                yield batch, dialect_named(batch.dialect)
                half_full = inbox.room < inbox.memory_bytes
                messages.commit(batch.end)
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
        receiver.stop(Deadline.after(timeout))


def _check_capped(options: SourceOptions) -> None:
    """There are more than ``maxMessages`` messages: raise TooManyMessages if the user did not set that."""
    if not options.capped:
        raise TooManyMessages(
            f"{', '.join(options.destinations)}: there are more than {options.max_messages} messages, "
            "and without the option maxMessages a batch read shows all or none. Set maxMessages to more "
            "than there are, or to the number of rows that you want to see"
        )


def _check_browses(options: SourceOptions, look: LookReading) -> None:
    """Warn of browses without an end mark. Raise TooManyMessages if more is wanted than the broker shows."""
    limit = look.dialect.browse_limit
    for destination in filter(look.dialect.browses, options.destinations):
        if destination not in look.ended:
            log.warning("the broker did not say that the browse has ended: %s may have more", destination)
        if look.taken[destination] == limit and (not options.capped or look.room):
            raise TooManyMessages(
                f"{destination}: the broker ended the browse after {limit} messages, which is its "
                "maxBrowsePageSize unless configured otherwise, so there may be more. Raise it in the "
                f"destination policy, or set maxMessages = {look.taken.total()} to accept that many"
            )


def _warn(options: SourceOptions, look: LookReading) -> None:
    """Warn of destinations that may lose messages, and of what the read has cost."""
    dialect = look.dialect
    for unknown in unknowns(dialect, options.destinations, allow_loss=options.allow_loss):
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
        log.warning(
            "the batch read of %s took %s and gives all back un-acked, because this broker cannot browse%s",
            listed(taken),
            counted(sum(look.taken[one] for one in taken), "message"),
            _cost(dialect, look.delivered_before),
        )


def _cost(dialect: Dialect, delivered_before: int) -> str:
    """What it costs messages that they were taken and given back; empty if nothing."""
    cost = "" if dialect.unsubscribe_returns else ". It counts each of them as delivered once more"
    if dialect.quorum_delivery_limit is not None and delivered_before >= dialect.quorum_delivery_limit // 2:
        cost += (
            f", the {delivered_before + 1}th time (x-delivery-count). A quorum queue drops or "
            f"dead-letters a message after {dialect.quorum_delivery_limit} unless a policy says otherwise "
            "(RabbitMQ from 4.0 on). Each action of Spark looks again: keep what it shows with .cache()"
        )
    return cost


def read_stream(options: SourceOptions, destination: str) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Yield the frames from ``startingOffsets`` to ``endingOffsets``; if ``maxMessages`` is given, so many.

    Raises StreamTruncated if some of these offsets are gone or not there yet, or logs that with
    ``failOnDataLoss=false``. Raises StreamTimeout if they have not all come by ``maxDrainTime``.
    """
    show_notes(options)
    begin, end = _bounds(options, destination)
    if end <= (begin.offset or 0):
        return
    receiver, deliveries, changed = _receiver(options, destination, begin)
    deadline = Deadline.after(options.max_drain_time)
    most = options.max_messages if options.capped else end

    def seconds_left(_: float) -> float | None:
        return None if _is_complete(deliveries, end, most) else deadline.left()

    count = 0
    for batch, dialect in run_receiver(receiver, deliveries, changed, seconds_left):
        upto = min(batch.end, end, batch.first_number + most - count)
        if upto > batch.first_number:
            count += upto - batch.first_number
            yield batch.part(batch.first_number, upto), dialect
    if not _is_complete(deliveries, end, most):
        raise StreamTimeout(
            f"the batch read of the stream {destination} did not reach offset {end} within maxDrainTime "
            f"({options.max_drain_time:g}s). The next offset is {deliveries.stream.next or 'its first one'}"
        )


def tail_stream(
    options: SourceOptions, destination: str, count: int, *, follows: bool
) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Yield the newest frames, up to ``count``, and if it ``follows``, without an end what comes then.

    If it does not, it also ends after ``idleTimeout`` of silence: RabbitMQ may filter or delete the last one.

    Raises StreamTruncated if some are deleted that come after those that this has yielded, or logs that with
    ``failOnDataLoss=false``.
    """
    show_notes(options)
    options = replace(options, starting_offsets=StreamPositions("latest"))
    end = ask_stream_ends(options, [destination]).get(destination, 0)
    begin = max(0, end - count)
    if begin == end and not follows:
        return
    # Not a number, which would be the first one wanted: retention may have deleted that.
    receiver, deliveries, changed = _receiver(options, destination, StreamStart(f"offset={begin}"))

    def seconds_left(since: float) -> float | None:
        status = receiver.status()
        if follows or not status.subscribed:
            return math.inf
        silent = max(since, status.last_active) + options.idle_timeout
        return None if _is_complete(deliveries, end, count) else silent - time.monotonic()

    for batch, dialect in run_receiver(receiver, deliveries, changed, seconds_left):
        upto = batch.end if follows else min(batch.end, end)
        if upto > batch.first_number:
            yield batch.part(batch.first_number, upto), dialect


def _receiver(
    options: SourceOptions, destination: str, begin: StreamStart
) -> tuple[Receiver, StreamDeliveries, threading.Event]:
    """What :func:`run_receiver` runs for a read from ``begin`` on."""
    settings, changed = batch_read_settings(options, (destination,)), threading.Event()
    deliveries = StreamDeliveries(settings.max_buffered_bytes, settings.name)
    deliveries.begin_at(begin)
    return Receiver(settings, deliveries, changed.set, StreamReading), deliveries, changed


def _bounds(options: SourceOptions, destination: str) -> tuple[StreamStart, int]:
    """Where the read begins, and the offset before which it ends."""
    assert options.ending_offsets is not None
    end = ask_stream_ends(options, [destination]).get(destination, 0)
    begin = stream_start(options, destination)
    if began_anew(options, destination, StreamProgress(begin), end):
        begin = FIRST
    wanted = options.ending_offsets.of(destination)
    if not isinstance(wanted, int):
        return begin, end
    if wanted > end:
        text = f"endingOffsets has {wanted} for the stream {destination}, which ends at offset {end}"
        if options.fail_on_data_loss:
            raise StreamTruncated(f"{text}. To read what is there, set failOnDataLoss = false")
        log.error("failOnDataLoss=false: %s", text)
    return begin, min(wanted, end)


def _is_complete(deliveries: StreamDeliveries, end: int, most: int) -> bool:
    """Whether ``most`` messages came, or all below the offset ``end``."""
    return deliveries.stream.has_all_below(end) or deliveries.inbox.received >= most
