"""Tries a broker out on an empty queue: sends messages, acknowledges one, and cuts the connection.

What the broker did is a :class:`Seen`; ``requirements`` says what that means. Messages have numbers, from 0.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from spark_stomp.brokers import Dialect, dialect_of, plain_subscription
from spark_stomp.columns import SinkColumns
from spark_stomp.commands import UsageError
from spark_stomp.errors import ReceiptTimeout, StompError
from spark_stomp.options import Endpoint, SinkOptions
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    Frame,
    MalformedMessage,
    MessageReceived,
    MessagesScanned,
    ack_modes,
)
from spark_stomp.protocol.decoder import frames_in
from spark_stomp.sink.rules import send_rules
from spark_stomp.source.browse import disconnect
from spark_stomp.transport import Connection, open_connection

MESSAGES: Final = 8
"""How many messages are sent: more than the broker may deliver without an ACK. A judgement, not measured."""
PREFETCH: Final = 3
"""How many un-acked messages the first subscription asks for: one before the one that is ACKed, one after."""
OWN_ID: Final = "spark-stomp-probe-id"
"""The header with the id that a producer would set."""
PATIENCE: Final = 5.0
"""Seconds to wait for a receipt, or for messages that must come. A judgement, not measured."""
# Seconds of silence after which no more messages are expected. A judgement, not measured.
_SILENCE = 1.0
# Bytes of a body. Artemis limits bytes, and its headers should count for little.
_BODY = 1024
_VERSIONS = ("1.0", "1.1", "1.2")
# Which delivery is ACKed, from 0.
_ACKED = 1
# Deliveries to one connection that are looked at; a broker may repeat them without end. A judgement.
_TOO_MANY = 5 * MESSAGES
_BODY_TEXT = re.compile(rb"spark-stomp probe ([0-9a-f]+) (\d+) x*")

Delivery = tuple[int, Frame]


@dataclass
class Seen:
    """What a broker did in a trial.

    Attributes:
        dialect, server, version, heartbeat: of the session.
        versions: STOMP versions that the broker speaks.
        receipts: by command, what came in place of its receipt; "" if the receipt came.
        first: deliveries of the connection that was cut, before any ACK.
        acked: the message that was ACKed on it, with no ACK of those before; None if it did not come.
        again: deliveries of the next connection. All of them were ACKed.
        late: deliveries of the connection after that.
    """

    dialect: Dialect
    server: str | None
    version: str
    heartbeat: tuple[int, int]
    versions: tuple[str, ...]
    receipts: dict[str, str] = field(default_factory=dict)
    first: list[Delivery] = field(default_factory=list)
    acked: int | None = None
    again: list[Delivery] = field(default_factory=list)
    late: list[Delivery] = field(default_factory=list)

    @property
    def individual(self) -> bool:
        """Whether the STOMP version has ACKs of single messages."""
        return "client-individual" in ack_modes(self.version)


def try_out(options: SinkOptions, endpoint: Endpoint, queue: str) -> Seen:
    """Try the broker at ``endpoint`` out on ``queue``; takes up to a minute.

    All messages of the trial are ACKed in the end, also if it fails.

    Raises:
        UsageError: ``queue`` is no queue, or has messages of others, which are given back.
        StompError: the trial cannot go on: the broker refuses the queue, or ends a connection.
    """
    # Without client id: the one of the connection that was cut may be in use for a while.
    connection = replace(options.connection, endpoints=(endpoint,), client_id=None)
    return _Trial(replace(options, connection=connection), queue).run()


class _Trial:
    def __init__(self, options: SinkOptions, queue: str) -> None:
        self._options = options
        self._queue = queue
        self._subscription = plain_subscription(queue).id
        self._token = secrets.token_hex(8)
        self._deliveries: list[Delivery] = []
        self._seen: Seen

    def run(self) -> Seen:
        with open_connection(self._options.connection) as connection:
            self._seen = self._seen_at_login(connection)
            connection.disconnect()
        try:
            self._send_and_cut()
            self._seen.again = self._drained(MESSAGES - (self._seen.acked is not None))
        except (StompError, KeyboardInterrupt):
            with contextlib.suppress(StompError, UsageError):
                self._clean()
            raise
        self._clean()
        return self._seen

    def _seen_at_login(self, connection: Connection) -> Seen:
        session, options = connection.session, self._options.connection
        dialect = dialect_of(session.server, options)
        if dialect.is_topic(self._queue):
            raise UsageError(f"{self._queue} is a topic, which keeps no messages; --scratch takes a queue")
        versions = tuple(filter(self._speaks, _VERSIONS))
        return Seen(dialect, session.server, session.version or "1.0", session.heartbeat, versions)

    def _speaks(self, version: str) -> bool:
        """Whether the broker accepts a connection of this STOMP version."""
        try:
            with open_connection(replace(self._options.connection, accept_versions=(version,))) as connection:
                connection.disconnect()
        except StompError:
            return False
        return True

    def _send_and_cut(self) -> None:
        seen = self._seen
        with self._subscribed(PREFETCH) as connection:
            self._gather(connection, 0)
            self._send(connection)
            self._gather(connection, 1)
            seen.first = [*self._deliveries]
            if len(seen.first) > _ACKED:
                seen.acked, frame = seen.first[_ACKED]
                self._ack(connection, [frame])
        # Left without DISCONNECT: that is the cut.

    def _clean(self) -> None:
        """ACK what is still delivered; nothing should be."""
        self._seen.late = self._drained(0)

    def _drained(self, least: int) -> list[Delivery]:
        """All deliveries of a new connection; each is ACKed. ``least`` is as in :meth:`_gather`."""
        with self._subscribed(MESSAGES) as connection:
            done = 0
            self._gather(connection, least)
            # The broker may deliver more only after an ACK, or one message without end.
            while done < len(self._deliveries) < _TOO_MANY:
                fresh = self._deliveries[done:]
                done += len(fresh)
                if not self._ack(connection, [frame for _, frame in fresh]):
                    return self._deliveries
                self._gather(connection, 0)
            disconnect(connection, self._seen.dialect, (self._subscription,))
        return self._deliveries

    @contextmanager
    def _subscribed(self, prefetch: int) -> Iterator[Connection]:
        """A connection with a subscription. Messages of others are given back before the error is raised."""
        dialect = self._seen.dialect
        with open_connection(self._options.connection, scan=True) as connection:
            self._deliveries = []
            try:
                headers = dialect.subscribe_headers(self._queue, prefetch, frame_bytes=_BODY)
                ack = "client-individual" if self._seen.individual else "client"
                subscribe = partial(connection.session.subscribe, self._subscription, self._queue)
                self._request(connection, "SUBSCRIBE", [partial(subscribe, ack=ack, headers=headers)])
                yield connection
            except UsageError:
                disconnect(connection, dialect, (self._subscription,))
                raise

    def _send(self, connection: Connection) -> None:
        session, options = connection.session, self._options
        rules = send_rules(options, SinkColumns(("body",), True), self._seen.version, self._seen.dialect)
        headers = tuple(rules.defaults(time.time(), to_queue=rules.is_queue(self._queue)).items())
        requests = []
        for number in range(MESSAGES):
            body = f"spark-stomp probe {self._token} {number} ".ljust(_BODY, "x").encode()
            own = (OWN_ID, f"{self._token}-{number}")
            requests.append(partial(session.send, self._queue, body, headers=(*headers, own)))
        self._request(connection, "SEND", requests)

    def _ack(self, connection: Connection, frames: Sequence[Frame]) -> bool:
        """ACK these deliveries; returns False if that has ended the connection."""
        name = "ack" if self._seen.version == "1.2" else "message-id"
        ack = partial(connection.session.ack, self._subscription)
        try:
            self._request(connection, "ACK", [partial(ack, frame.get(name) or "") for frame in frames])
        except StompError as error:
            self._seen.receipts["ACK"] = error.message
            return False
        return True

    def _request(self, connection: Connection, command: str, requests: Sequence[Callable[..., None]]) -> None:
        """Make requests, each with its own receipt, and note whether all receipts come."""
        names = {}
        for request in requests:
            receipt = connection.session.new_receipt()
            request(receipt=receipt)
            names[receipt] = f"{command} for {self._queue}"
        missing = ""
        try:
            connection.await_receipts(names, PATIENCE, lambda events: self._take(connection, events))
        except ReceiptTimeout:
            missing = f"none within {PATIENCE:g} s"
        self._seen.receipts[command] = self._seen.receipts.get(command) or missing

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
            if isinstance(event, (MalformedMessage, MessageReceived)):
                raise self._not_ours()
            if isinstance(event, MessagesScanned):
                frames = frames_in(bytes(event.block.data), self._seen.version)
                self._deliveries += [(self._number(frame), frame) for frame in frames]
                del self._deliveries[_TOO_MANY:]

    def _number(self, frame: Frame) -> int:
        """The number of a message of this trial. Raises UsageError for any other message."""
        found = _BODY_TEXT.fullmatch(frame.body)
        offset = self._seen.dialect.offset_header
        if found is None or found[1] != self._token.encode() or (offset and frame.get(offset) is not None):
            raise self._not_ours()
        return int(found[2])

    def _not_ours(self) -> UsageError:
        left = "; messages of the trial may be left in it" if "SEND" in self._seen.receipts else ""
        return UsageError(
            f"{self._queue} is a stream, or has messages that this trial did not send. --scratch takes an "
            f"empty queue that nobody else uses. What was taken was given back{left}"
        )
