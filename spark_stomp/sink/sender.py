"""Sends encoded frames over one connection at a time, until the broker has confirmed every message."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType

from spark_stomp.brokers import Dialect
from spark_stomp.errors import BrokerError, ConnectionLost, DestinationRefused, ReceiptTimeout, StompError
from spark_stomp.logs import Once, get_log, show
from spark_stomp.options import SinkOptions
from spark_stomp.protocol import ErrorReceived, Event, ReceiptsReceived
from spark_stomp.quoting import counted
from spark_stomp.sink.progress import Outage, ProgressTimer
from spark_stomp.sink.queues import ask_refusal
from spark_stomp.sink.window import RECEIPT_PREFIX, EncodedSlice, ReceiptWindow
from spark_stomp.status.sink import TaskFigures
from spark_stomp.threads import Worker
from spark_stomp.transport import Connection, open_connection
from spark_stomp.transport.retry import is_login_error, may_recover, next_attempt

log = get_log(__name__)

# In this process: a worker runs many tasks.
_once = Once(log)

# How many connections in a row may end at one message that was sent alone, before any receipt, until the log
# says so. A broker that starts again may end one or two.
_MOST_ENDED = 3
_TICK = 0.05  # seconds between two rounds of the pump: so late may the last message be, and a heart-beat
_READ = 256 << 10  # bytes of one read: thousands of receipts, and little memory if other things come


class Sender:
    """Sends the frames of one task.

    Each SEND asks for its own receipt. One receipt for many SENDs would be cheaper, but it only says that the
    earlier frames were *received* (STOMP 1.2, "RECEIPT"): RabbitMQ confirms each SEND separately, in any
    order.

    If the connection breaks, the sender connects again, and sends again what was not confirmed, at first one
    message alone, in the thread that calls the methods. Between two calls, a thread of its own sends what is
    queued, sends heart-beats and receives: the pump. Spark may compute for a long time between two messages.

    The errors of :meth:`open`, :meth:`send` and :meth:`finish` say how many messages were confirmed, and end
    with ``afterwards``. They are:

    - ReceiptTimeout: the broker was blocked for too long.
    - DestinationRefused: the broker refused a message: it named it, or it was alone. Or the queue of a
      message does not exist.
    - LoginRefused, TlsRefused.
    - ConnectionLost: no new connection within ``reconnectTimeout``.

    Args:
        options: the options of the write.
        patient: an earlier batch of the query has connected, so try the first connection again too, up to
            ``reconnectTimeout``; else its failure is an error.
        login_accepted: it had the same login.
        afterwards: what becomes of the messages that are not confirmed, for the error texts.
    """

    def __init__(
        self,
        options: SinkOptions,
        *,
        patient: bool = False,
        login_accepted: bool = False,
        afterwards: str = "Spark sends all of them again",
    ) -> None:
        show(options.connection.log_level)
        self._options = options
        self._afterwards = afterwards
        self._patient = patient
        self._login_accepted = login_accepted
        self._connection: Connection | None = None
        self._speaks: tuple[str, Dialect] | None = None
        self._outage: Outage | None = None
        self.instead: Callable[[Sequence[bytes], StompError], EncodedSlice | None] = lambda frames, error: (
            None
        )
        """What is sent in place of frames to one destination that is refused; None: the task fails."""
        self._refused: str | None = None  # the receipt of the message that the broker refused
        self._ended_alone = 0  # connections in a row
        self._ended_by_message = 0  # connections that ended because of a message that was then left out
        self._there: set[str] = set()  # queues that exist, as this connection was told
        self._silent: set[str] = set()  # addresses that have confirmed nothing since the last receipt
        # While the pump runs, the fields below are used only with this lock held: the pump uses them too.
        self._lock = threading.Lock()
        self._pump: Worker | None = None
        self._window = ReceiptWindow(options.receipt_window, options.receipt_window_bytes)
        self._progress = ProgressTimer(options.receipt_timeout, options.blocked_timeout)
        self._figures = TaskFigures()
        self._unflushed = False
        self._written = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def figures(self) -> TaskFigures:
        """The counts of the messages so far."""
        self._figures.confirmed, self._figures.resent = self._window.confirmed, self._window.resent
        self._figures.blocked_seconds = self._progress.blocked_seconds
        return self._figures

    def open(self) -> tuple[str, Dialect]:
        """Connect, if this sender has not connected yet.

        Returns the STOMP version and the dialect for which frames must be made.
        """
        if self._speaks is None:
            self._until_done(lambda _: None)
        assert self._speaks is not None
        return self._speaks

    def send(self, encoded: EncodedSlice) -> None:
        """Send a slice. Waits while the window is full."""
        with self._lock:
            self._hold(encoded)
        if len(encoded):
            self._until_done(self._send_rest)

    def _hold(self, encoded: EncodedSlice) -> None:
        """The pump does not run, or the lock is held."""
        self._figures.dropped += encoded.dropped
        self._figures.dead_lettered += encoded.dead_lettered
        if len(encoded):
            self._window.add(encoded)

    def finish(self) -> TaskFigures:
        """Wait for every receipt, then DISCONNECT."""
        if self._connection is not None:
            self._until_done(self._await_receipts)
            self._end_outage()
            self._disconnect()
        return self.figures

    def _all_confirmed(self) -> bool:
        """Whether a connection was open, and the broker has confirmed all that it was given."""
        with self._lock:
            return self._speaks is not None and not self._window.unfinished

    # --- over one connection; the lock is held

    def _send_rest(self, connection: Connection) -> None:
        self._require_queues(connection)
        while self._window.unsent:
            sends = self._window.next_sends(time.monotonic())
            if sends is None:
                self._wait(connection)
                continue
            if self._window.in_flight == len(sends.receipts):
                # No receipt was due before these: the wait for progress begins now.
                self._progress.made()
            connection.require_open()
            connection.session.send_raw(*sends)
            self._unflushed = True
            self._poll(connection, 0)

    def _require_queues(self, connection: Connection) -> None:
        """Make sure that the queues exist that no SEND declares (contract S.14)."""
        undeclared = connection.dialect.outgoing.undeclared
        if undeclared is None or not self._window.unsent:
            return
        # Dead letters may be added meanwhile. What was left out needs no queue any more.
        unneeded: set[str] = set()
        while names := self._window.destinations - self._there - unneeded:
            destination = min(names)
            question = undeclared(destination)
            waiting = self._window.sent_to(destination) if question else []
            (self._there if waiting or not question else unneeded).add(destination)
            if question and waiting:
                ask = partial(ask_refusal, self._options.connection, question, connection.peer)
                refusal = connection.beat_while(ask)
                if refusal is not None and not self._leave_out(waiting, refusal):
                    raise refusal

    def _await_receipts(self, connection: Connection) -> None:
        self._send_rest(connection)
        while self._window.in_flight:
            self._wait(connection)
            self._send_rest(connection)

    def _wait(self, connection: Connection) -> None:
        """Wait for progress.

        Receipts are read before a timeout counts, because this process may have been suspended meanwhile.

        Raises:
            ReceiptTimeout: no progress for ``receiptTimeout`` and then ``blockedTimeout``; or for
                ``receiptTimeout``, and an unknown broker has never sent a receipt. Passing, if there is an
                address that has not been tried since the last receipt.
        """
        due = self._progress.due_in()
        self._poll(connection, max(0.0, due))
        if due > 0 or self._progress.due_in() > 0:
            return
        self._judge_silence(connection)

    def _judge_silence(self, connection: Connection) -> None:
        """The broker confirms nothing: it counts as blocked from now on, or an error is raised."""
        progress, options, dialect = self._progress, self._options, connection.dialect
        silent = (
            f"{connection.peer} confirmed nothing for {progress.silence:.0f} s (receiptTimeout "
            f"{options.receipt_timeout:g}s"
        )
        if progress.blocked:
            raise ReceiptTimeout(f"{silent} and blockedTimeout {options.blocked_timeout:g}s)")
        if dialect.unknown_warning and not self._window.confirmed:
            sent = counted(self._window.in_flight, "message")
            raise ReceiptTimeout(
                f"{connection.peer} confirmed none of {sent} within receiptTimeout "
                f"({options.receipt_timeout:g}s). This broker is not known, and perhaps sends no receipts; "
                "without them the sink cannot write to it. Find out with spark-stomp probe --scratch"
            )
        progress.blocked = True
        if self._is_first_silence(connection.peer):
            elsewhere = ReceiptTimeout(f"{silent}); it is sent again over another address of url")
            elsewhere.verdict = "passes"
            raise elsewhere
        log.warning(
            "%s has confirmed nothing for %.0f s%s: it counts as blocked. The task waits for it up to "
            "blockedTimeout (%gs); without a receipt yet: %s. Find out why: %s",
            connection.peer,
            progress.silence,
            " and takes no more bytes" if connection.has_unsent else "",
            options.blocked_timeout,
            counted(self._window.unconfirmed, "message"),
            dialect.blocked_advice,
        )

    def _is_first_silence(self, peer: str) -> bool:
        """Whether another address may confirm what ``peer`` has not: each is tried once.

        The leader of a queue may hang, and the node that we talk to. If all are blocked, they are left alone.
        """
        again = peer in self._silent
        self._silent.add(peer)
        return not again and any(
            one.address not in self._silent for one in self._options.connection.endpoints
        )

    def _poll(self, connection: Connection, timeout: float) -> None:
        """Write and read. Wait up to ``timeout`` seconds if there is nothing to read or write."""
        events = connection.poll(timeout, _READ)
        if self._unflushed and connection.written > self._written:
            self._made_progress(connection)
        self._written = connection.written
        self._unflushed = self._unflushed and connection.has_unsent
        self._handle(connection, events)

    def _handle(self, connection: Connection, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, ReceiptsReceived):
                self._figures.count_latencies(self._window.confirm(event.numbers, time.monotonic()))
                self._made_progress(connection)
                self._silent.clear()
                self._ended_alone = 0
                self._end_outage()
            elif isinstance(event, ErrorReceived):
                destination = self._window.destination(event.receipt_id)
                self._refused = None if destination is None else event.receipt_id
                what = "" if destination is None else f"SEND to {destination}"
                raise connection.error_of(event, what, self._window.destinations)

    def _made_progress(self, connection: Connection) -> None:
        blocked = self._progress.made()
        if blocked:
            log.warning("%s takes messages again; it was blocked for %.0f s", connection.peer, blocked)

    def _end_outage(self) -> None:
        """Log the end of an outage, once: the new connection works."""
        if self._outage is not None:
            log.warning("%s", self._outage.summary())
            self._outage = None

    def _keep_alive(self, connection: Connection) -> None:
        """What the pump does. Whoever has the lock moves bytes, so it need not be woken."""
        while self._pump is not None and self._pump.goes_on(_TICK):
            with self._lock:
                self._poll(connection, 0)

    # --- one connection after the other

    def _until_done(self, step: Callable[[Connection], None]) -> None:
        """Do ``step`` on a connection. If that breaks, do it again on the next one, if anything is left.

        If all is confirmed, neither a connection that broke nor one that cannot be had is an error: Spark
        would only send all again.
        """
        while not self._all_confirmed():
            try:
                connection = self._connected()
                with self._lock:
                    if self._pump is not None and self._pump.failure is not None:
                        raise self._pump.failure
                    step(connection)
                    return
            except StompError as error:
                if self._connection is not None:
                    self._connection.failed(error)
                self._close()
                if not self._all_confirmed():
                    self._recover(error)

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = open_connection(self._options.connection, receipt_prefix=RECEIPT_PREFIX)
            self._connection = connection
            self._begin(connection)
            self._pump = Worker(f"stomp-sender-{connection.peer}", partial(self._keep_alive, connection))
            self._pump.start()
        return self._connection

    def _begin(self, connection: Connection) -> None:
        """Use a new connection. The pump does not run yet.

        Raises:
            ConnectionLost: the frames of this task were made for another version or another kind of broker.
        """
        speaks = str(connection.session.version), connection.dialect
        if self._speaks not in (None, speaks):
            raise ConnectionLost(
                f"{connection.peer} is another kind of broker, or speaks another version of STOMP, than the "
                "one for which the messages of this task were encoded"
            )
        self._speaks = speaks
        self._figures.connections += 1
        self._progress.made()
        self._there.clear()
        self._unflushed = False
        self._written = connection.written
        if self._outage is not None:
            self._outage.connected(time.monotonic())

    def _recover(self, error: StompError) -> None:
        """Wait until the next attempt to connect. If there is none left, raise the error of the task."""
        error = self._judged(error)
        if self._leave_out_refused(error):
            return
        if not self._may_recover(error):
            raise self._failure(error) from error
        self._window.begin_again()
        now = time.monotonic()
        lost = self._speaks is not None
        # Until the broker confirms a message, all failures are one outage and one warning, and one more if it
        # is always the same message. A refused login is a warning each time, because a person has to correct
        # it.
        is_news = self._outage is None or is_login_error(error) or self._ended_alone == _MOST_ENDED
        self._outage = self._outage or Outage(
            self._options.reconnect, now, self._window.unconfirmed, lost=lost
        )
        self._outage.failed(now)
        retry = self._outage.retry
        delay = retry.next_delay(error, now)
        if delay is None:
            last = retry.out_of_time(error, self._window.first_destination(), now)
            raise self._failure(last) from error
        log.log(
            logging.WARNING if is_news else logging.DEBUG,
            "%s: %s; %s; without a receipt yet: %s",
            "connection lost" if lost else "no connection",
            error,
            next_attempt(error, delay),
            counted(self._window.unconfirmed, "message"),
        )
        time.sleep(delay)

    def _judged(self, error: StompError) -> StompError:
        """``error``, or a DestinationRefused if it shows that the broker refuses a message.

        RabbitMQ's ERROR does not name the message. Then every new connection ends by it, and after a lost
        connection the message soon goes alone. Of a connection that ends without a word, or by words that are
        not known, that proves nothing: a queue that is full and one whose node is away look the same, and
        both may pass.
        """
        if not isinstance(error, ConnectionLost | BrokerError) or self._speaks is None:
            return error
        if error.verdict in {"passes", "either"}:
            # The broker says that it is in trouble: this proves nothing about the message, however often it
            # comes, nor do the connections that ended just before.
            self._ended_alone = 0
            return error
        alone = self._window.in_flight == 1 and not isinstance(error, DestinationRefused)
        if alone and error.verdict is not None and not error.unasked:  # the sink has no subscription
            self._refused = self._window.first_receipt()
            refused = DestinationRefused(
                f"the broker refused the message that was sent alone to {self._window.first_destination()}: "
                f"{error.message}"
            )
            refused.verdict = error.verdict
            return refused
        self._ended_alone += alone
        why = ". ".join((error.message, *(self._hints() if isinstance(error, ConnectionLost) else ())))
        if alone and self._ended_alone >= _MOST_ENDED:
            why = (
                f"{self._ended_alone} connections in a row have ended after the same message alone was sent "
                f"to {self._window.first_destination()}, and before its receipt came: the broker refuses it, "
                f"or the node of its queue is away. {why}"
            )
        return error if why == error.message else type(error)(why)

    def _hints(self) -> Iterator[str]:
        """Why the broker may have ended the connection without a word, as far as that is known."""
        assert self._speaks is not None, "there was a connection"
        outgoing, largest = self._speaks[1].outgoing, self._window.largest_in_flight()
        if outgoing.frame_limit is not None and largest > outgoing.frame_limit[0]:
            yield f"A message without a receipt has {largest} bytes as a frame, and {outgoing.frame_limit[1]}"
        # One connection may break for any reason.
        elif outgoing.silent_refusal and self._figures.connections > 1 and self._window.in_flight:
            yield outgoing.silent_refusal

    def _leave_out_refused(self, error: StompError) -> bool:
        """Leave out the message that the broker refused, if it did. Returns whether that was done."""
        receipt, self._refused = self._refused, None
        if receipt is None or not isinstance(error, DestinationRefused):
            return False
        # What is refused because of its destination is refused each time.
        receipts = self._window.alike(receipt) if error.verdict == "stays" else [receipt]
        if not self._leave_out(receipts, error):
            return False
        self._window.begin_again()
        self._ended_alone = 0
        self._ended_by_message += 1
        if self._ended_by_message > 1 and not self._all_confirmed():
            time.sleep(self._options.reconnect.first_delay)
        return True

    def _leave_out(self, receipts: Sequence[str], error: StompError) -> bool:
        """Hold these messages no more, if they are problems of their rows. Returns whether they are."""
        encoded = self.instead([self._window.frame(one) for one in receipts], error)
        if encoded is not None:
            self._window.take_out(receipts)
            self._hold(encoded)
        return encoded is not None

    def _may_recover(self, error: StompError) -> bool:
        """Whether another connection may succeed."""
        if self._speaks is None and not (self._patient or error.verdict == "passes"):
            return False
        accepted = self._speaks is not None or self._login_accepted
        # A broker that was blocked for too long would also be blocked on the next connection.
        blocked = isinstance(error, ReceiptTimeout) and error.verdict != "passes"
        return may_recover(error, login_accepted=accepted) and not blocked

    def _failure(self, error: StompError) -> StompError:
        """``error`` with how far the task has come; ``error`` itself if nothing was sent."""
        waiting = self._window.unconfirmed
        if not waiting and not self._window.confirmed:
            return error
        confirmed = counted(self._window.confirmed, "message")
        which = f", the first to {self._window.first_destination()}" if waiting else ""
        return type(error)(
            f"{error.message}; the broker confirmed {confirmed} of this task, and "
            f"{counted(waiting, 'message')} without a receipt may still arrive{which}; {self._afterwards}"
        )

    def _disconnect(self) -> None:
        self._stop_pump()
        if self._connection is None:
            return  # it was lost after the last receipt
        self._progress.made()
        # Every message is confirmed. If the task failed here, Spark would only send all of them again.
        try:
            self._connection.disconnect()
        except ReceiptTimeout as error:
            self._connection.failed(error)
            self._progress.blocked = True
            self._progress.made()
            # Of each task it may be the same.
            _once.warning(
                str(error),
                "%s, after it had confirmed every message: it counts as blocked. A broker whose memory or "
                "disk is full reads nothing more of a connection that sends",
                error,
            )
        except StompError as error:
            log.info("the sink did not end with an orderly DISCONNECT: %s", error)
        self._close()

    def _close(self) -> None:
        self._stop_pump()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _stop_pump(self) -> None:
        if self._pump is not None:
            self._pump.stop(60.0)  # a round waits for nothing
            self._pump = None
