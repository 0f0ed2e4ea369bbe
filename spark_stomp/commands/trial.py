"""Tries a broker out on an empty queue, and says what reading and writing guarantee there.

One connection after the other:

1. subscribes, to see that the queue is empty;
2. sends messages while nobody subscribes;
3. subscribes, ACKs the second message alone, and is cut. If nothing came, it sends some more first;
4. subscribes, and ACKs all that comes;
5. does so with a selector, which one of two more messages matches;
6. does so again: nothing of the trial is left.

Messages have numbers, from 0. docs/broker-requirements.md explains each check.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from spark_stomp.brokers import dialect_of, plain_subscription
from spark_stomp.columns import SinkColumns
from spark_stomp.commands import UsageError
from spark_stomp.errors import BrokerError, ReceiptTimeout, StompError
from spark_stomp.options import Endpoint, SinkOptions
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    Frame,
    MalformedMessage,
    MessageBlock,
    ack_headers,
    ack_modes,
    handle_header,
)
from spark_stomp.protocol.decoder import frames_in
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.quoting import counted, shown
from spark_stomp.receiver import disconnect
from spark_stomp.sink.rules import send_rules
from spark_stomp.transport import Connection, open_connection

MESSAGES: Final = 8
"""How many messages are sent: more than the broker may deliver without an ACK. A judgement, not measured."""
PREFETCH: Final = 3
"""How many un-acked messages the third connection asks for: one before the one that is ACKed, one after."""
MATCHED, OTHER = 2 * MESSAGES, 2 * MESSAGES + 1
"""The numbers of the message that the selector matches, and of the one that it does not."""
OWN_ID: Final = "spark_stomp_probe"
"""The header with the id that a producer would set. Selectors can name it."""
PATIENCE: Final = 5.0
"""Seconds to wait for a receipt, or for messages that must come. A judgement, not measured."""
# Seconds of silence after which no more messages are expected. A judgement, not measured.
_SILENCE = 1.0
# Bytes of a body. Artemis limits bytes, and its headers should count for little.
_BODY = 1024
# Which delivery is ACKed, from 0.
_ACKED = 1
# Deliveries to one connection that are looked at; a broker may repeat them without end. A judgement.
_TOO_MANY = 5 * MESSAGES
_BODY_TEXT = re.compile(rb"spark-stomp probe ([0-9a-f]+) (\d+) x*")

Delivery = tuple[int, Frame]


class Trial:
    """A trial of the broker at ``endpoint`` on ``queue``; it takes up to a minute.

    Attributes:
        dialect, version, heartbeat: of the session.
        receipts: by command, what came in place of its receipt; "" if the receipt came.
        first: deliveries of the connection that was cut, before any ACK.
        acked: the message that was ACKed on it, with no ACK of those before; None if it did not come.
        again: deliveries of the next connection. All of them were ACKed.
        selected: deliveries of the connection with the selector; None if the broker refused it.
        late: deliveries of the last connection.
    """

    def __init__(self, options: SinkOptions, endpoint: Endpoint, queue: str) -> None:
        # Without client id: the one of the connection that was cut may be in use for a while.
        self._connection = replace(options.connection, endpoints=(endpoint,), client_id=None)
        self._options = options
        self._queue = queue
        self._subscription = plain_subscription(queue).id
        self._token = secrets.token_hex(8)
        self._deliveries: list[Delivery] = []
        self.receipts: dict[str, str] = {}
        self.acked: int | None = None
        self.selected: list[Delivery] | None = None

    def run(self) -> None:
        """Do all of it. All messages of the trial are ACKed in the end, also if it fails.

        Raises:
            UsageError: the queue is none, or has messages of others, which are given back.
            StompError: the trial cannot go on: the broker refuses the queue, or ends a connection.
        """
        with open_connection(self._connection) as connection:
            session = connection.session
            self.dialect = dialect_of(session.server, self._connection)
            self.version, self.heartbeat = session.version or "1.0", session.heartbeat
            connection.disconnect()
        if self.dialect.is_topic(self._queue):
            raise UsageError(f"{self._queue} is a topic, which keeps no messages; --scratch takes a queue")
        # Under STOMP 1.0 an ACK is for all messages before it, too.
        self.individual = "client-individual" in ack_modes(self.version)
        self._drained(0)
        try:
            with open_connection(self._connection, scan=True) as connection:
                self._send(connection, range(MESSAGES))
                disconnect(connection, self.dialect, ())
            self.first = self._cut()
            self.again = self._drained(len(self.first) - (self.acked is not None))
            selector = ("selector", f"{OWN_ID} = '{self._own_id(MATCHED)}'")
            with contextlib.suppress(BrokerError):
                self.selected = self._drained(1, (selector,), (MATCHED, OTHER))
        except (StompError, KeyboardInterrupt):
            with contextlib.suppress(StompError, UsageError):
                self._drained(0)
            raise
        self.late = self._drained(0)

    def _cut(self) -> list[Delivery]:
        with self._subscribed(PREFETCH) as connection:
            self._gather(connection, 1)
            if not self._deliveries:
                self._send(connection, range(MESSAGES, 2 * MESSAGES))
                self._gather(connection, 1)
            first = [*self._deliveries]
            if len(first) > _ACKED:
                self.acked, frame = first[_ACKED]
                self._ack(connection, [frame])
        # Left without DISCONNECT: that is the cut.
        return first

    def _drained(self, least: int, headers: HeaderPairs = (), numbers: Sequence[int] = ()) -> list[Delivery]:
        """All deliveries of a new connection; each is ACKed. ``least`` is as in :meth:`_gather`.

        The messages with ``numbers`` are sent once it is subscribed.
        """
        with self._subscribed(MESSAGES, headers) as connection:
            done = 0
            if numbers:
                self._send(connection, numbers)
            self._gather(connection, least)
            # The broker may deliver more only after an ACK, or one message without end.
            while done < len(self._deliveries) < _TOO_MANY:
                fresh = self._deliveries[done:]
                done += len(fresh)
                if not self._ack(connection, [frame for _, frame in fresh]):
                    return self._deliveries
                self._gather(connection, 0)
            disconnect(connection, self.dialect, (self._subscription,))
        return self._deliveries

    @contextmanager
    def _subscribed(self, prefetch: int, headers: HeaderPairs = ()) -> Iterator[Connection]:
        """A connection with a subscription. Messages of others are given back before the error is raised."""
        dialect = self.dialect
        with open_connection(self._connection, scan=True) as connection:
            self._deliveries = []
            try:
                ack = "client-individual" if self.individual else "client"
                own = (("id", self._subscription), ("destination", self._queue), ("ack", ack))
                window = dialect.subscribe_headers(self._queue, prefetch, frame_bytes=_BODY)
                self._request(connection, "SUBSCRIBE", [(*own, *window, *headers)])
                yield connection
            except UsageError:
                disconnect(connection, dialect, (self._subscription,))
                raise

    def _own_id(self, number: int) -> str:
        return f"{self._token}-{number}"

    def _send(self, connection: Connection, numbers: Iterable[int]) -> None:
        rules = send_rules(self._options, SinkColumns(("body",), True), self.version, self.dialect)
        headers = tuple(rules.defaults(time.time(), to_queue=rules.is_queue(self._queue)).items())
        # One at a time: CoilMQ 1.1.0 ends a connection if a frame comes to it in two parts.
        for number in numbers:
            body = f"spark-stomp probe {self._token} {number} ".ljust(_BODY, "x").encode()
            own = (("destination", self._queue), (OWN_ID, self._own_id(number)))
            self._request(connection, "SEND", [(*own, *headers, ("content-length", str(_BODY)))], body)

    def _ack(self, connection: Connection, frames: Sequence[Frame]) -> bool:
        """ACK these deliveries; returns False if that has ended the connection."""
        name = handle_header(self.version)
        try:
            handles = (frame.get(name) or "" for frame in frames)
            named = [ack_headers(self._subscription, handle, self.version) for handle in handles]
            self._request(connection, "ACK", named)
        except StompError as error:
            self.receipts["ACK"] = error.message
            return False
        return True

    def _request(
        self, connection: Connection, command: str, requests: Sequence[HeaderPairs], body: bytes = b""
    ) -> None:
        """Make requests with these headers, each with its own receipt, and note whether all receipts come."""
        names, receipts = {}, self.receipts
        for headers in requests:
            receipt = connection.session.new_receipt()
            connection.session.request(command, headers, body, receipt=receipt)
            names[receipt] = f"{command} for {self._queue}"
        missing = ""
        wait = _SILENCE if receipts.get(command) else PATIENCE
        try:
            connection.await_receipts(names, wait, lambda events: self._take(connection, events))
        except ReceiptTimeout:
            missing = f"none came within {PATIENCE:g} s"
        receipts[command] = receipts.get(command) or missing

    def _gather(self, connection: Connection, least: int) -> None:
        """Read until nothing has come for a second, but wait for ``least`` messages for PATIENCE."""
        begun = heard = time.monotonic()
        end = begun + 2 * PATIENCE  # also if the broker never falls silent
        while True:
            wait = PATIENCE if len(self._deliveries) < least else _SILENCE
            remaining = min(heard + wait, end) - time.monotonic()
            if remaining <= 0:
                return
            before = len(self._deliveries)
            self._take(connection, connection.poll(remaining))
            if len(self._deliveries) > before:
                heard = time.monotonic()

    def _take(self, connection: Connection, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, ErrorReceived):
                raise connection.error_of(event)
            if isinstance(event, (MalformedMessage, Frame)):
                raise self._not_ours()
            if isinstance(event, MessageBlock):
                frames = frames_in(bytes(event.data), self.version)
                self._deliveries += [(self._number(frame), frame) for frame in frames]
                del self._deliveries[_TOO_MANY:]

    def _number(self, frame: Frame) -> int:
        """The number of a message of this trial. Raises UsageError for any other message."""
        found = _BODY_TEXT.fullmatch(frame.body)
        offset = self.dialect.offset_header
        if found is None or found[1] != self._token.encode() or (offset and frame.get(offset) is not None):
            raise self._not_ours()
        return int(found[2])

    def _not_ours(self) -> UsageError:
        left = "; messages of the trial may be left in it" if "SEND" in self.receipts else ""
        return UsageError(
            f"{self._queue} is a stream, or has messages that this trial did not send. --scratch takes an "
            f"empty queue that nobody else uses. What was taken was given back{left}"
        )


class Finding(NamedTuple):
    """What a check has found: whether it holds, None if that could not be seen; and what was seen."""

    holds: bool | None
    seen: str = ""


SUBSCRIBED, SENT, ACKED = "receipt of SUBSCRIBE", "receipt of SEND", "receipt of ACK"
KEPT, REDELIVERED = "kept while nobody subscribes", "redelivered after a cut"
SINGLE, GONE, IDS = "ACK of a single message", "gone after its ACK", "ids that survive"
UNSEEN: Final = Finding(None, "too little was delivered, or redelivered")
# What "at least once" needs.
READING, WRITING = (SUBSCRIBED, ACKED, KEPT, REDELIVERED, SINGLE), (SENT, KEPT)


def findings(trial: Trial) -> dict[str, Finding]:
    """The finding of each check, by its name."""
    beats = trial.heartbeat[1]
    return {
        "heart-beats": Finding(beats > 0, f"every {beats / 1000:g} s" if beats else "none"),
        SUBSCRIBED: _receipt(trial, "SUBSCRIBE"),
        SENT: _receipt(trial, "SEND"),
        ACKED: _receipt(trial, "ACK"),
        KEPT: _kept(trial),
        REDELIVERED: _redelivered(trial),
        SINGLE: _single(trial),
        GONE: _gone(trial),
        IDS: _ids(trial),
        "prefetch": _prefetch(trial),
        "selector": _selector(trial),
    }


def _receipt(trial: Trial, command: str) -> Finding:
    instead = trial.receipts.get(command)
    return Finding(None, "no message came") if instead is None else Finding(not instead, shown(instead, 50))


def _kept(trial: Trial) -> Finding:
    came = [*trial.first, *trial.again, *(trial.selected or ()), *trial.late]
    count = len({number for number in _numbers(came) if number < MESSAGES})
    # One that is missing may also have been lost at the cut.
    return Finding({0: False, MESSAGES: True}.get(count), f"{count} of {MESSAGES} messages")


def _redelivered(trial: Trial) -> Finding:
    before, after = _around_the_acked(trial)
    # With ACKs that also cover earlier messages, those before it need not be redelivered.
    unacked = after or before
    if not unacked:
        return UNSEEN
    count = len(unacked & _numbers(trial.again))
    return Finding(count == len(unacked), f"{count} of {counted(len(unacked), 'un-acked message')}")


def _single(trial: Trial) -> Finding:
    if not trial.individual:
        return Finding(False, f"STOMP {trial.version} has none")
    before, after = _around_the_acked(trial)
    again = _numbers(trial.again)
    if not before or not again & after:
        return UNSEEN
    return Finding(before <= again, "" if before <= again else "the message before it was ACKed too")


def _gone(trial: Trial) -> Finding:
    if trial.acked is None:
        return UNSEEN
    if trial.receipts.get("ACK"):
        return Finding(None, "no ACK was confirmed")
    later = [number for number, _ in (*(trial.selected or ()), *trial.late) if number < MATCHED]
    back = [number for number, _ in trial.again if number == trial.acked] + later
    return Finding(not back, f"redelivered {counted(len(back), 'time')}" if back else "")


def _ids(trial: Trial) -> Finding:
    """Whether redelivered messages are recognised, and what the user must set for it."""
    first, again, dialect = dict(trial.first), dict(trial.again), trial.dialect
    both = [number for number in first if number in again and number != trial.acked]
    if not both or len(first) == 1:
        return UNSEEN

    def ids(frames: Iterable[Frame], header: str) -> list[bytes | None]:
        pairs = [(one.get(header) or "", one.get(dialect.id_time_header or "") or "") for one in frames]
        return dialect.stable_ids(*([text.encode() for text in texts] for texts in zip(*pairs, strict=True)))

    known = {dialect.id_header: dialect.id_header} if dialect.id_header else {}
    unknown = {"message-id": "if idHeader = message-id", OWN_ID: "if idHeader names an id that producers set"}
    for header, remedy in (known | unknown | known).items():
        once = ids((first[number] for number in both), header)
        distinct = len({*ids(first.values(), header)} - {None}) == len(first)
        if distinct and once == ids((again[number] for number in both), header):
            return Finding(True, remedy)
    return Finding(False, "a redelivered message gives a second row")


def _prefetch(trial: Trial) -> Finding:
    header = trial.dialect.prefetch_header or trial.dialect.window_header
    count = len(_numbers(trial.first))
    if not count:
        return Finding(None, "no message came")
    asked = "no header for it is known" if header is None else f"asked for {PREFETCH} by {header}"
    return Finding(header is not None and count < MESSAGES, f"{count} of {MESSAGES} came; {asked}")


def _selector(trial: Trial) -> Finding:
    if trial.selected is None:
        return Finding(False, "the broker refused it")
    came = {MATCHED, OTHER} & _numbers(trial.selected)
    if OTHER in came:
        return Finding(False, "ignored: a message that it does not match came")
    return Finding(True) if came else Finding(None, "no message came")


def _numbers(deliveries: list[Delivery]) -> set[int]:
    return {number for number, _ in deliveries}


def _around_the_acked(trial: Trial) -> tuple[set[int], set[int]]:
    """The messages that were delivered before and after the one that was ACKed, and were not ACKed."""
    order = [number for number, _ in trial.first]
    if trial.acked is None:
        return set(order), set()
    at = order.index(trial.acked)
    return set(order[:at]), set(order[at + 1 :])


def table(found: Mapping[str, Finding], *, markdown: bool) -> Iterator[tuple[str, bool]]:
    """The lines of the table, and whether each shows no fault."""
    words = {True: "yes", False: "no", None: "not seen"}
    rows = [("check", "holds", "what was seen")]
    rows += [(name, words[one.holds], one.seen.replace("|", "\\|")) for name, one in found.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if markdown:
        rows.insert(1, ("-" * widths[0], "-" * widths[1], "-" * widths[2]))
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield f"| {' | '.join(cells)} |" if markdown else "  ".join(cells).rstrip(), row[1] != "no"


def sentences(found: Mapping[str, Finding], trial: Trial) -> Iterator[tuple[str, bool]]:
    """What reading and what writing guarantees, and whether that is at least once."""
    ids = found[IDS]
    again = "is recognised" if ids.holds else "gives a second row"
    again += f", {ids.seen}" if ids.seen.startswith("if ") else ""
    # Under STOMP 1.0 every ACK is for all before it. The receiver then ACKs in the order of delivery only.
    reading = [name for name in READING if trial.individual or name != SINGLE]
    redelivered = f"every message gives a row. One that is redelivered {again}"
    kept = "a write succeeds once every message is confirmed, and the broker keeps them"
    for what, needs, promise in (("Reading", reading, redelivered), ("Writing", WRITING, kept)):
        missing = [name for name in needs if not found[name].holds]
        if missing:
            yield f"{what}: do not rely on it. Missing, or not seen: {', '.join(missing)}.", False
        else:
            yield f"{what}: {promise}.", True
