"""One client of the dev broker, without its socket: its session, and how its frames are obeyed."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import partial

from spark_stomp.devbroker.core import Broker, Member, Refused
from spark_stomp.devbroker.queues import Message, Subscription
from spark_stomp.errors import RemoteProtocolError
from spark_stomp.logs import get_log
from spark_stomp.protocol import (
    NEED_DATA,
    ConnectRequested,
    Disconnected,
    Frame,
    ServerConfig,
    ServerConnection,
    ack_modes,
)
from spark_stomp.quoting import quoted, shown, whole_number

log = get_log(__name__)

HIGH_WATER = 1 << 20
"""Bytes. No message is delivered to a client while this much waits for it."""

_UNSUPPORTED = ("selector", "durable", "activemq.subscriptionName")
_DURABLE = "durable-subscription-name"
_Fields = Mapping[str, str]
# Most characters of a log line that come from a client.
_MOST_SAID = 200


@dataclass
class Faults:
    """Faults that the dev broker makes on purpose, to test a client.

    The fields can be set at any time; they apply from the next frame on.

    Args:
        refuse: destinations whose SUBSCRIBE and SEND are answered by an ERROR.
        withhold_receipts: commands ("SEND", "ACK", ...) that are obeyed without a receipt.
        answer_nothing: read everything, but obey nothing and send nothing, not even heart-beats.
        drop_after_frames: close a connection without an ERROR after this many frames, CONNECT not counted.
        undeliverable: bodies of messages that are not delivered. An ERROR ends the connection at each
            attempt, and the message stays where it is.
        client_ids_in_use: CONNECT with one of these is answered by an ERROR, as if the broker had not noticed
            yet that an earlier connection with this ``client-id`` is gone.
    """

    refuse: Container[str] = ()
    withhold_receipts: Container[str] = ()
    answer_nothing: bool = False
    drop_after_frames: int | None = None
    undeliverable: Container[bytes] = ()
    client_ids_in_use: Container[str] = ()


@dataclass
class Peer:
    """Obeys one client.

    ``room`` is how many more bytes of messages the client takes. ``finished`` means: send what is left, then
    close. ``dropped`` means: close at once, without sending.
    """

    broker: Broker
    config: ServerConfig
    users: Mapping[str, str] | None
    faults: Faults
    session: str
    room: int = HIGH_WATER
    version: str = ""
    finished: bool = False
    dropped: bool = False
    _frames: int = 0
    _member: Member | None = None
    _client_id: str | None = None
    connection: ServerConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = ServerConnection(self.config)

    @property
    def connected(self) -> bool:
        """Whether CONNECT was accepted, and the session is not over."""
        return self._member is not None

    def deliver(self, data: bytes) -> None:
        """Queue one encoded MESSAGE frame. The broker calls this."""
        self.connection.message_raw(data)
        self.room -= len(data)

    def can_take(self, message: Message) -> bool:
        """Whether a message can be delivered; otherwise the session ends with an ERROR."""
        if message.body not in self.faults.undeliverable:
            return True
        text = "a message cannot be delivered"
        self.connection.error(text, detail=text)
        self._leave()
        return False

    def has_room(self) -> None:
        """Deliver again: the client has room for more messages."""
        if self._member is not None:
            self.broker.ready(self._member)

    def receive(self, data: bytes, now: float) -> None:
        """Obey the frames in these bytes. Never raises."""
        if self.faults.answer_nothing or self.finished:
            return
        self.connection.receive_data(data, now)
        self._obey(now)

    def receive_eof(self, now: float) -> None:
        """The client has closed its side of the connection."""
        self.connection.receive_eof(now)
        self._obey(now)
        self._leave()

    def tick(self, now: float) -> None:
        """Send a heart-beat if one is due. Drop the client if its heart-beats are missing."""
        if self.faults.answer_nothing:
            return
        try:
            self.connection.tick(now)
        except RemoteProtocolError:
            self.drop()

    def drop(self) -> None:
        """Close at once, without an ERROR."""
        self.dropped = True
        self._leave()

    def _leave(self) -> None:
        self.finished = True
        member, self._member = self._member, None
        if member is not None:
            log.info("%s: disconnected", self.session)
            self.broker.leave(member)

    def _obey(self, now: float) -> None:
        try:
            while not self.finished and (event := self.connection.next_event()) is not NEED_DATA:
                if isinstance(event, Frame) and self._member is not None:
                    self._obey_frame(self._member, event)
                elif isinstance(event, ConnectRequested):
                    self._admit(event, now)
                elif isinstance(event, Disconnected):
                    self._leave()
        except RemoteProtocolError:
            # The session has queued the ERROR frame.
            self._leave()

    def _admit(self, request: ConnectRequested, now: float) -> None:
        client_id = dict(reversed(request.headers)).get("client-id")
        refusal = self._refusal(request, client_id)
        if refusal is not None:
            message, detail = refusal
            log.info("%s: refused: %s", self.session, shown(detail, _MOST_SAID))
            self.connection.error(message, detail=detail)
            self._leave()
            return
        self.connection.accept(now, session=self.session)
        self.version = self.connection.version or ""
        self.broker.connects += 1
        self._member = Member(self)
        self._client_id = client_id
        log.info("%s: connected, STOMP %s, login %s", self.session, self.version, quoted(request.login))

    def _refusal(self, request: ConnectRequested, client_id: str | None) -> tuple[str, str] | None:
        """Why a client is not let in: the header ``message`` and the body of the ERROR; None if it is."""
        if not self._known(request):
            user = quoted(request.login)
            words = f"no user {user} with this password (passcode); this broker was started with other users"
            return "Access refused", words
        if client_id is not None and client_id in self.faults.client_ids_in_use:
            return "Client id in use", f"the client {quoted(client_id)} is already connected"
        return None

    def _known(self, request: ConnectRequested) -> bool:
        if self.users is None:
            return True
        return request.login is not None and self.users.get(request.login, object()) == request.passcode

    def _obey_frame(self, member: Member, frame: Frame) -> None:
        # Of repeated headers the first wins (STOMP 1.2, "Repeated Header Entries").
        fields = dict(reversed(frame.headers))
        try:
            self._do(member, fields, frame)
        except Refused as refusal:
            log.info("%s: %s refused: %s", self.session, frame.command, shown(str(refusal), _MOST_SAID))
            text = f"refused: {refusal}"
            self.connection.error(text, detail=text, receipt_id=fields.get("receipt"))
            self._leave()
            return
        receipt = fields.get("receipt")
        if receipt is not None and frame.command not in self.faults.withhold_receipts:
            self.connection.receipt(receipt)
        if frame.command == "DISCONNECT":
            self._leave()
        self._frames += 1
        if self.faults.drop_after_frames is not None and self._frames >= self.faults.drop_after_frames:
            # The connection closes after the frames that came with this one are obeyed. Nothing is delivered.
            self.dropped = True
            self.room = 0

    def _do(self, member: Member, fields: _Fields, frame: Frame) -> None:
        match frame.command:
            case "SEND":
                self._send(member, fields, frame)
            case "SUBSCRIBE":
                self._subscribe(member, fields)
            case "UNSUBSCRIBE":
                self._unsubscribe(member, fields)
            case "ACK" | "NACK" as command:
                obey = self.broker.acknowledge if command == "ACK" else self.broker.reject
                member.do(partial(obey, *self._named(member, fields)), fields.get("transaction"))
            case "BEGIN":
                member.begin(fields["transaction"])
            case "COMMIT":
                member.commit(fields["transaction"])
            case "ABORT":
                member.abort(fields["transaction"])
            case "DISCONNECT":
                self.broker.disconnects += 1

    def _send(self, member: Member, fields: _Fields, frame: Frame) -> None:
        destination = self._allowed(fields["destination"])
        publish = partial(self.broker.publish, destination, frame.body, frame.headers)
        member.do(publish, fields.get("transaction"))

    def _subscribe(self, member: Member, fields: _Fields) -> None:
        destination = self._allowed(fields["destination"])
        for header in _UNSUPPORTED:
            if fields.get(header, "false") != "false":
                raise Refused(f"this development broker does not support the header {header!r}")
        ack = fields.get("ack", "auto")
        what = "browses" if fields.get("browser") == "true" else "subscribes to"
        log.info("%s: %s %s, ack:%s", self.session, what, quoted(destination), shown(ack))
        modes = ack_modes(self.version)
        if ack not in modes:
            raise Refused(f"ack:{ack} is not one of {', '.join(modes)} (STOMP {self.version})")
        self.broker.subscribe(
            member,
            fields.get("id", destination),
            destination,
            ack=ack,
            window=_window(fields),
            named="id" in fields,
            browse=fields.get("browser") == "true",
            durable=self._durable_name(fields),
        )

    def _unsubscribe(self, member: Member, fields: _Fields) -> None:
        name = fields.get("id") or fields.get("destination")
        if name is None:
            raise Refused("UNSUBSCRIBE needs an id or a destination")
        log.info("%s: unsubscribes %s", self.session, quoted(name))
        self.broker.unsubscribe(member, name, self._durable_name(fields))

    def _durable_name(self, fields: _Fields) -> str | None:
        """The durable subscription's name, after the ``client-id`` if there is one; None if none is named."""
        name = fields.get(_DURABLE)
        return name if name is None or self._client_id is None else f"{self._client_id}.{name}"

    def _named(self, member: Member, fields: _Fields) -> tuple[Subscription, str]:
        """The subscription and the ack handle that an ACK or NACK names. Raises Refused.

        STOMP 1.2 names them by ``id``, older versions by ``message-id`` and, if given, ``subscription``.
        """
        if self.version == "1.2":
            return member.holding(fields["id"]), fields["id"]
        handle = fields["message-id"]
        if "subscription" not in fields:
            return member.holding(handle), handle
        subscription = member.subscription(fields["subscription"])
        if handle not in subscription.unacked:
            raise Refused(f"subscription {subscription.name!r} has no un-acked message {handle!r}")
        return subscription, handle

    def _allowed(self, destination: str) -> str:
        if destination in self.faults.refuse:
            raise Refused(f"access to {destination!r} refused")
        return destination


def _window(fields: _Fields) -> int:
    """The un-acked window that SUBSCRIBE asks for, in messages, or no limit. Raises Refused."""
    value = fields.get("prefetch-count") or fields.get("activemq.prefetchSize")
    if value is None:
        return sys.maxsize
    number = whole_number(value)
    if not number:
        raise Refused(f"the prefetch {value[:20]!r} must be a whole number of at least 1")
    return number
