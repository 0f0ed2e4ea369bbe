"""Tries a broker out on an empty queue, and says what reading and writing guarantee there.

One connection after the other:

1. subscribes, to see that the queue is empty;
2. sends messages while nobody subscribes;
3. subscribes, ACKs the second message alone, and is cut. If nothing came, some more are sent first, over
   another connection: some brokers deliver nothing to who has sent it;
4. subscribes, and ACKs all that comes.

Messages have numbers, from 0. docs/brokers.md explains each check (Another broker).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple

from spark_stomp.brokers import subscription_id
from spark_stomp.columns import SinkColumns
from spark_stomp.commands import UsageError
from spark_stomp.errors import ReceiptTimeout, StompError
from spark_stomp.options import Endpoint, SinkOptions
from spark_stomp.protocol import ErrorReceived, Event, Frame, ack_headers, ack_modes, handle_header
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.quoting import counted, shown
from spark_stomp.receiver import disconnect
from spark_stomp.sink.rules import send_rules
from spark_stomp.transport import Connection, open_connection

MESSAGES: Final = 8
"""How many messages are sent: more than the broker may deliver without an ACK."""
PREFETCH: Final = 3
"""How many un-acked messages the third connection asks for: one before the one that is ACKed, one after."""
OWN_ID: Final = "spark_stomp_probe"
"""The header with the id that a producer would set."""
PATIENCE: Final = 5.0
"""Seconds to wait for a receipt, or for messages that must come."""
# Seconds of silence after which no more messages are expected.
_SILENCE = 1.0
# Bytes of a body. Artemis limits bytes, and its headers should count for little.
_BODY = 1024
# Deliveries to one connection that are looked at; a broker may repeat them without end.
_TOO_MANY = 5 * MESSAGES

Delivery = tuple[int, Frame]


class Trial:
    """A trial of the broker at ``endpoint`` on ``queue``; it takes up to a minute.

    Attributes:
        dialect, version: of the session.
        individual: whether an ACK is for one message alone; under STOMP 1.0 it is for all before it, too.
        receipts: by command, what came in place of its receipt; "" if the receipt came.
        failed: whether an ACK was answered with an ERROR, or ended a connection.
        first: deliveries of the connection that was cut, before any ACK.
        acked: the message that was ACKed on it, with no ACK of those before; None if it did not come.
        again: deliveries of the next connection. All of them were ACKed.
    """

    def __init__(self, options: SinkOptions, endpoint: Endpoint, queue: str) -> None:
        # Without client id: the one of the connection that was cut may be in use for a while.
        self._connection = replace(options.connection, endpoints=(endpoint,), client_id=None)
        self._options = options
        self._queue = queue
        self._subscription = subscription_id(queue)
        self._token = secrets.token_hex(8)
        self._sent: dict[bytes, int] = {}
        self._deliveries: list[Delivery] = []
        self.receipts: dict[str, str] = {}
        self.acked: int | None = None
        self.failed = False

    def run(self, now: Callable[[str], object]) -> None:
        """Do all of it. All messages of the trial are ACKed in the end, also if it fails.

        ``now`` is told what is done next.

        Raises:
            UsageError: the queue is none, or has messages of others, which are given back.
            StompError: the trial cannot go on: the broker refuses the queue, or ends a connection.
        """
        now("looking whether the queue is empty")
        self._drained(0)
        try:
            now("sending while nobody subscribes")
            with open_connection(self._connection) as connection:
                self._send(connection, range(MESSAGES))
                disconnect(connection, ())
            now("acknowledging one message, and breaking the connection")
            self.first = self._cut()
            now("waiting for what is redelivered")
            self.again = self._drained(len(self.first) - (self.acked is not None))
        except (StompError, KeyboardInterrupt):
            with suppress(StompError, UsageError):
                self._drained(0)
            raise

    @property
    def handle(self) -> str:
        """The header of a MESSAGE by whose value an ACK names it."""
        return handle_header(self.version)

    def _cut(self) -> list[Delivery]:
        with self._subscribed(PREFETCH) as connection:
            self._gather(connection, 1)
            if not self._deliveries:
                with open_connection(self._connection) as other:
                    self._send(other, range(MESSAGES, 2 * MESSAGES))
                    disconnect(other, ())
                connection.beat()
                self._gather(connection, 1)
            first = [*self._deliveries]
            if len(first) > 1:
                self.acked = first[1][0]
                self._ack(connection, first[1:2])
        # The connection was closed without DISCONNECT: that is the cut.
        return first

    def _drained(self, least: int) -> list[Delivery]:
        """All deliveries of a new connection; each is ACKed. ``least`` is as in :meth:`_gather`."""
        with self._subscribed(MESSAGES) as connection:
            done = 0
            self._gather(connection, least)
            # The broker may deliver more only after an ACK, or one message without end.
            while done < len(self._deliveries) < _TOO_MANY:
                fresh = self._deliveries[done:]
                done += len(fresh)
                if not self._ack(connection, fresh):
                    return self._deliveries
                self._gather(connection, 0)
            disconnect(connection, [self._subscription])
        return self._deliveries

    @contextmanager
    def _subscribed(self, prefetch: int) -> Iterator[Connection]:
        """A connection with a subscription. Messages of others are given back before the error is raised."""
        with open_connection(self._connection) as connection:
            session = connection.session
            self.dialect = connection.dialect
            self.version = session.version or "1.0"
            self.individual = "client-individual" in ack_modes(self.version)
            self._deliveries = []
            if self.dialect.is_topic(self._queue):
                raise UsageError(
                    f"{self._queue} is a topic, which keeps no messages; --scratch takes a queue"
                )
            try:
                ack = "client-individual" if self.individual else "client"
                own = (("id", self._subscription), ("destination", self._queue), ("ack", ack))
                window = self.dialect.subscribe_headers(self._queue, prefetch, frame_bytes=_BODY)
                self._request(connection, "SUBSCRIBE", (*own, *window))
                yield connection
            except UsageError:
                disconnect(connection, [self._subscription])
                raise

    def _send(self, connection: Connection, numbers: range) -> None:
        rules = send_rules(self._options, SinkColumns(("body",), True), self.version, self.dialect)
        headers = tuple(rules.defaults(time.time(), to_queue=rules.needs_queue_headers(self._queue)).items())
        # One at a time: CoilMQ 1.1.0 ends a connection if a frame comes to it in two parts.
        for number in numbers:
            name = f"{self._token}-{number}"
            body = f"spark-stomp probe {name} ".ljust(_BODY, "x").encode()
            self._sent[body] = number
            own = (("destination", self._queue), (OWN_ID, name))
            self._request(connection, "SEND", (*own, *headers, ("content-length", str(_BODY))), body)

    def _ack(self, connection: Connection, deliveries: Iterable[Delivery]) -> bool:
        """ACK these deliveries; returns False if that has ended the connection."""
        try:
            for _, frame in deliveries:
                if not (handle := frame.get(self.handle)):
                    return False
                named = ack_headers(self._subscription, handle, self.version)
                self._request(connection, "ACK", named)
        except StompError as error:
            self.receipts["ACK"], self.failed = error.message, True
            return False
        return True

    def _request(self, connection: Connection, command: str, headers: HeaderPairs, body: bytes = b"") -> None:
        """Make a request with a receipt, and note whether the receipt comes."""
        receipt, before = connection.session.new_receipt(), self.receipts.get(command)
        connection.request(command, headers, body, receipt=receipt)
        self.receipts[command] = before or ""
        what, wait = {receipt: f"{command} for {self._queue}"}, _SILENCE if before else PATIENCE
        try:
            connection.await_receipts(what, wait, lambda events: self._take(connection, events))
        except ReceiptTimeout:
            self.receipts[command] = before or f"none came within {PATIENCE:g} s"

    def _gather(self, connection: Connection, least: int) -> None:
        """Read until nothing came for a second, or for PATIENCE if ``least`` messages have not come yet."""
        heard = time.monotonic()
        end = heard + 2 * PATIENCE  # also if the broker never falls silent
        while True:
            before = len(self._deliveries)
            wait = PATIENCE if before < least else _SILENCE
            remaining = min(heard + wait, end) - time.monotonic()
            if remaining <= 0:
                return
            self._take(connection, connection.poll(remaining))
            if len(self._deliveries) > before:
                heard = time.monotonic()

    def _take(self, connection: Connection, events: Iterable[Event]) -> None:
        """Note deliveries. Raises UsageError if a message is not of this trial."""
        for event in events:
            if isinstance(event, ErrorReceived):
                raise connection.error_of(event)
            if not isinstance(event, Frame):
                continue
            number, offset = self._sent.get(event.body), self.dialect.offset_header
            if number is None or (offset and event.get(offset) is not None):
                remark = "; messages of the trial may be left in it" if self._sent else ""
                raise UsageError(
                    f"{self._queue} is a stream, or has messages that this trial did not send. --scratch "
                    f"takes an empty queue that nobody else uses. What was taken was given back{remark}"
                )
            self._deliveries = [*self._deliveries, (number, event)][:_TOO_MANY]


class Finding(NamedTuple):
    """What a check has found: whether it holds, None if that could not be seen; and what was seen."""

    holds: bool | None
    seen: str = ""


HANDLE, KEPT, REDELIVERED = "header for the ACK", "kept while nobody subscribes", "redelivered after a cut"
SINGLE, IDS = "ACK of a single message", "ids that survive"
UNSEEN: Final = Finding(None, "too little was delivered, or redelivered")
_REUSED: Final = Finding(False, "two messages had one message-id: it counts from the start again")
# Not even one more for the trial to ACK alone.
_ONE_BY_ONE: Final = Finding(None, "it delivers one message, and the next one after its ACK")
# Characters of the broker's words about a request. What helps often stands at the end.
_MOST_SAID = 300


def findings(trial: Trial) -> dict[str, Finding]:
    """The finding of each check, by its name."""
    found = {f"receipt of {command}": _receipt(trial, command) for command in ("SUBSCRIBE", "SEND", "ACK")}
    first, again = dict(trial.first), dict(trial.again)
    frames = [frame for _, frame in (*trial.first, *trial.again)]
    named = all(frame.get(trial.handle) for frame in frames)
    seen = trial.handle if named else f"messages have no {trial.handle}"
    found[HANDLE] = Finding(named, seen) if frames else Finding(None, "no message came")
    if trial.failed and trial.acked is not None and again and trial.acked not in again:
        seen = f"obeyed, and answered with an ERROR: {trial.receipts['ACK']}"
        found["receipt of ACK"] = Finding(False, shown(seen, _MOST_SAID))
    count = sum(number < MESSAGES for number in first | again)
    # One that is missing may also have been lost at the cut.
    found[KEPT] = Finding({0: False, MESSAGES: True}.get(count), f"{count} of {MESSAGES} messages")
    order = [*first]
    place = order.index(trial.acked) if trial.acked is not None else len(order)
    before, after = {*order[:place]}, {*order[place + 1 :]}
    # With ACKs that also cover earlier messages, those before it need not be redelivered.
    unacked = after or before
    back = len(unacked & again.keys())
    seen = f"{back} of {counted(len(unacked), 'un-acked message')}"
    found[REDELIVERED] = Finding(back == len(unacked), seen) if unacked else UNSEEN
    found[SINGLE] = _single(trial, before, after)
    found[IDS] = _ids(trial, first, again)
    header = trial.dialect.prefetch_header or trial.dialect.window_header
    asked = f"asked for {PREFETCH} by {header}" if header else "no header for it is known"
    seen = f"{len(first)} of {MESSAGES} came; {asked}" if first else "no message came"
    found["prefetch"] = Finding(bool(header) and len(first) < MESSAGES if first else None, seen)
    return {name: _ONE_BY_ONE if one == UNSEEN and len(first) == 1 else one for name, one in found.items()}


def _receipt(trial: Trial, command: str) -> Finding:
    instead = trial.receipts.get(command, "no message came")
    return Finding(None if command not in trial.receipts else not instead, shown(instead, _MOST_SAID))


def _single(trial: Trial, before: set[int], after: set[int]) -> Finding:
    """Whether the ACK was for its message, and for none of those before it."""
    again = dict(trial.again).keys()
    if not trial.individual:
        return Finding(False, f"STOMP {trial.version} has none")
    if not before or not again & after:
        return UNSEEN
    if not before <= again:
        return Finding(False, "the message before it was ACKed too")
    return Finding(False, "its message was redelivered") if trial.acked in again else Finding(True)


def _ids(trial: Trial, first: dict[int, Frame], again: dict[int, Frame]) -> Finding:
    """Whether redelivered messages are recognised, and what the user must set for it."""
    dialect = trial.dialect
    both = [number for number in first if number in again and number != trial.acked]
    if not both or len(first) == 1:
        return _REUSED if _reuses_ids(first, again) else UNSEEN

    def ids(header: str, frames: Iterable[Frame]) -> list[bytes | None]:
        pairs = [(frame.get(header), frame.get(dialect.id_time_header or "")) for frame in frames]
        columns = zip(*pairs, strict=True)
        return dialect.stable_ids(*([(text or "").encode() for text in column] for column in columns))

    # Those of producers come first: an id of a broker that is not known may begin again at its restart.
    tried = {OWN_ID: "if idHeader names an id that producers set", "message-id": "if idHeader = message-id"}
    known = {dialect.id_header: dialect.id_header} if dialect.id_header else {}
    for header, words in ({**known, **tried} | known).items():
        distinct = len({*ids(header, first.values())} - {None}) == len(first)
        same = ids(header, [first[one] for one in both]) == ids(header, [again[one] for one in both])
        if distinct and same:
            return Finding(True, words)
    return Finding(False, "a redelivered message gives a second row")


def _reuses_ids(first: dict[int, Frame], again: dict[int, Frame]) -> bool:
    """Whether two messages have one ``message-id``."""
    named = {(number, frame.get("message-id")) for one in (first, again) for number, frame in one.items()}
    ids = [name for _, name in named if name]
    return len({*ids}) < len(ids)


def sentences(found: dict[str, Finding], trial: Trial) -> Iterator[tuple[str, bool]]:
    """What reading and what writing guarantees, and whether that is at least once."""
    ids = found[IDS]
    again = "is recognised" if ids.holds else "gives a second row"
    again += f", {ids.seen}" if ids.seen.startswith("if ") else ""
    # Under STOMP 1.0 every ACK is for all before it. The receiver then ACKs in the order of delivery only.
    reading = ["receipt of SUBSCRIBE", "receipt of ACK", HANDLE, KEPT, REDELIVERED, SINGLE][
        : None if trial.individual else 5
    ]
    kept = "a write succeeds once every message is confirmed"
    untried = (
        f"Not tried: a restart of the broker, more than {MESSAGES} messages, messages that wait for long, "
        "and names with wildcards, which a broker may confirm and never serve"
    )
    for what, needs, promise in (
        ("Reading", reading, f"every message gives a row. One that is redelivered {again}"),
        ("Writing", ["receipt of SEND", KEPT], kept),
    ):
        missing = ", ".join(name for name in needs if not found[name].holds)
        yield (
            f"{what}: {f'do not rely on it. Missing, or not seen: {missing}' if missing else promise}.",
            not missing,
        )
    yield f"{untried}.", True
