"""The receiver: a thread that keeps its subscriptions open, one connection after the other.

Goal: messages arrive as fast as the broker sends them, whatever Spark does meanwhile, and none is lost
(contract 4, 5 and 7). Heart-beats go out in time, and a lost connection is replaced.

Plan: the thread has one connection at a time, with a subscription for each destination that it reads.
``Reading`` is what it does over one of them. The rules for messages are in deliveries.py, back-pressure and
deadlines for receipts in pause.py, what the broker is asked for in subscription.py, and what is read after a
message that the broker cannot deliver in turns.py.

Invariants:

- Only this thread drives the connection. Others read the status, wake the thread, or stop it. One other
  thread, which asks the broker how much waits, also gives up a connection and adds forgetful queues.
- If the thread fails, its error is in the status, and the query fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from spark_stomp.deadline import Deadline
from spark_stomp.errors import (
    ConnectFailed,
    MessageUndeliverable,
    StompError,
    SubscriptionForgotten,
)
from spark_stomp.logs import about, get_log
from spark_stomp.quoting import listed
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.reading import Reading, ReceiverState
from spark_stomp.receiver.status import ReceiverStatus
from spark_stomp.receiver.subscription import ReceiverSettings, no_progress
from spark_stomp.receiver.turns import Turns
from spark_stomp.threads import Worker
from spark_stomp.transport import open_connection
from spark_stomp.transport.retry import Retry, is_login_error, may_recover, next_attempt

log = get_log(__name__)

# Seconds for which stop() waits beyond its timeout, because the thread may be in a call.
_JOIN_MARGIN = 0.5


class Receiver:
    """One connection at a time, and its thread. It fills ``deliveries``.

    Call :meth:`start` once and :meth:`stop` once; the other public methods may be called from any thread.
    ``on_news`` is called whenever :meth:`status` may have changed. ``reading_class`` is what is done over
    each connection. ``failure`` is that of :class:`ReceiverStatus`, now; ``reading`` is the present or the
    next connection.
    """

    def __init__(
        self,
        settings: ReceiverSettings,
        deliveries: Deliveries,
        on_news: Callable[[], None] = lambda: None,
        reading_class: type[Reading] = Reading,
    ) -> None:
        self._settings = settings
        self._options = settings.options
        self._deliveries = deliveries
        self._state = ReceiverState(settings, deliveries, on_news)
        self._login_accepted: float | None = None
        self._failure: StompError | None = None
        self._turns = Turns(settings.destinations)
        self._reading_class = reading_class
        self.reading = reading_class(self._state, self._turns.current)
        self._worker = Worker(f"stomp-receiver-{settings.name}", self._run, ended=self._state.notify)

    def start(self) -> None:
        """Start the thread, which connects and subscribes; failures appear in :meth:`status`."""
        self._worker.start()

    @property
    def failure(self) -> StompError | None:
        return self._failure or self._worker.failure

    def status(self) -> ReceiverStatus:
        """A snapshot of the receiver, over one connection."""
        while True:
            reading = self.reading
            status = self._status(reading)
            if self.reading is reading:
                return status

    def _status(self, reading: Reading) -> ReceiverStatus:
        deliveries, reader = self._deliveries, self._state.reader
        connection, inbox = self._state.connections, deliveries.inbox
        # Before last_active: a receipt that comes in between begins the silence anew.
        acks_pending = deliveries.acks_pending
        return ReceiverStatus(
            name=self._settings.name,
            subscribed=connection.connected,
            pending=inbox.pending,
            received=inbox.received,
            acked=deliveries.acked,
            ackable=inbox.ackable,
            last_active=time.monotonic() if reading.is_partial else reader.active_at(reading.last_active),
            window_full=reading.is_full(),
            failure=self.failure,
            acks_pending=acks_pending,
            paused_since=reader.paused_since,
            buffered=inbox.memory_bytes,
            unacked=deliveries.acks.unacked,
            connection=connection,
            counts=deliveries.counts,
            window=reading.window.prefetch,
            window_bytes=reading.window.bytes or self._settings.max_buffered_bytes,
            destinations=self._settings.destinations,
            heard_at=reader.heard_at,
            head_errors=reading.turn.errors,
            missing=self._state.queues.missing,
            subscriptions=reading.subscriptions,
            came_by=deliveries.came_by,
            # Read last: then all values above are from the connection after whose messages it comes.
            refused=inbox.refused,
        )

    def wake(self) -> None:
        """Wake the receiver's thread: ACKs may be due."""
        connection = self.reading.connection
        if connection is not None:
            connection.wake()

    def give_up(self, number: int, error: StompError) -> None:
        """End the connection with this number, of those that were subscribed: it is lost by ``error``."""
        reading = self.reading
        if self._state.connections.connected and self._state.connections.connections == number:
            reading.useless = error
            self.wake()

    def add_forgetful(self, queues: frozenset[str]) -> None:
        """What comes by these queues stays if the connection breaks. They stay known."""
        self._state.forgetful |= queues

    def stop(self, deadline: Deadline) -> None:
        """End the receiver by then: ACK what is committed, await receipts, DISCONNECT."""
        self._state.stopping.deadline = deadline
        self._state.stopping.set()
        self.wake()
        self._worker.stop(deadline.left() + _JOIN_MARGIN)
        self._deliveries.close()

    # Everything below runs in the receiver's thread.

    def _run(self) -> None:
        about(receiver=self._settings.name)
        clock, stopping = self._state.reader.clock, self._state.stopping
        retry = Retry(self._options.reconnect, clock())
        try:
            while stopping.deadline is None:
                try:
                    self._use_one_connection()
                    retry.ended(0.0, clock(), achieved=True)
                except StompError as error:
                    self._wait_to_reconnect(error, retry)
        except MessageUndeliverable as error:
            self._deliveries.refuse(error)
            log.error("ended: %s", error)
        except StompError as error:
            log.error("ended: %s", error)
            raise

    def _use_one_connection(self) -> None:
        """Open a connection, subscribe, and receive until its turn or the receiver ends, or raise why not."""
        reading, state = self.reading, self._state
        try:
            with open_connection(self._options.connection, scan=True) as connection:
                reading.connection = connection
                self._login_accepted = self._login_accepted or state.reader.clock()
                reading.subscribe(connection)
                self._note_subscribed(connection.peer)
                reading.receive(connection)
                reading.end(connection)
        finally:
            if reading.connection is not None and reading.connection.rested:
                # It was paused, and a broker may close a connection that is not read.
                state.busy = len(self._settings.destinations)
            reading.connection = None
        if reading.turn_state.is_over:
            self._turns.next()
            state.connections = state.connections.after_turn(time.time())
            self._disconnected()
            state.stopping.wait(self._turns.current.pause)

    def _note_subscribed(self, peer: str) -> None:
        before, now = self._state.connections, time.time()
        self._state.connections = before.after_subscribe(now, self.reading.dialect, peer)
        if before.is_lost:
            log.warning("connected again after %.1f s", now - before.since)
        log.info("subscribed to %s at %s", listed([*self.reading.subscriptions.values()]), peer)
        self._state.notify()

    def _wait_to_reconnect(self, error: StompError, retry: Retry) -> None:
        """Wait for the next attempt; re-raise ``error`` if none is left."""
        reading, state = self.reading, self._state
        if not reading.retries:
            if state.stopping.deadline is None:
                self._failure, state.stopping.deadline = error, Deadline.after(0.0)
            return
        now, was_connected = state.reader.clock(), state.connections.connected
        # Before :meth:`_disconnected`, which forgets the ACKs and makes the next reading of the next turn.
        end = reading.how_it_ended(error)
        if was_connected:
            nothing_acked = (end.acks_sent and not end.achieved) or isinstance(error, ConnectFailed)
            begun = state.reader.clock(reading.subscribed_since)
            retry.ended(begun, now, achieved=end.achieved > 0, nothing_acked=nothing_acked)
        turn = self._turns.ended(end) if reading.subscriptions else reading.turn
        handles = self._deliveries.acks.unconfirmed
        state.connections = state.connections.after_failure(error, time.time())
        self._disconnected(forgotten=isinstance(error, SubscriptionForgotten))
        self._require_another_attempt(error, now)
        if state.stopping.deadline is not None:
            log.info("the connection did not end in order: %s", error)
            return
        delay = retry.next_delay(error, now)
        # What is not known may also pass, as long as there is time.
        if turn.has_failed and (error.verdict is not None or delay is None):
            raise no_progress(reading.dialect, turn, handles, error, of_stream=self._settings.of_stream)
        if delay is None:
            raise retry.out_of_time(error, self._settings.what, now) from None
        delay = max(delay, self._turns.current.pause)
        what = "connection lost" if was_connected else "no connection"
        level = logging.WARNING if state.connections.newly_failed or is_login_error(error) else logging.DEBUG
        log.log(level, "%s: %s; %s%s", what, error, next_attempt(error, delay), self._turns.current)
        state.stopping.wait(delay)

    def _require_another_attempt(self, error: StompError, now: float) -> None:
        """Re-raise ``error``, after which no attempt makes sense."""
        login_accepted = None if self._login_accepted is None else now - self._login_accepted
        connect = self._options.connection
        # Each address may accept the login, and then not answer.
        limit = connect.connect_timeout * len(connect.endpoints)
        may_try = self._state.connections.may_try_again(error, login_accepted, limit)
        if not may_recover(error, login_accepted=login_accepted is not None) or not may_try:
            raise error

    def _disconnected(self, *, forgotten: bool = False) -> None:
        """Nothing of the connection is left. The broker redelivers what is not ACKed, if it can."""
        ended = self.reading
        self._state.reader.resume()
        # A malformed message that it refused is redelivered, behind the messages that are not ACKed.
        self.reading = self._reading_class(self._state, self._turns.current, ended)
        ended.turn_state.take()  # its memory: the error may keep the ended one alive
        lost = ended.lost
        redelivers = len(lost) < len(ended.subscriptions)
        self._deliveries.disconnected(redelivers=redelivers, but=lost, forgotten=forgotten)
        self._state.notify()
