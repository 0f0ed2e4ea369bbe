"""The client half of a session: bytes in, events and bytes out. No socket, no thread, no clock.

::

    connection = ClientConnection(ClientConfig(host="/", login="guest", passcode="guest"))
    connection.connect(now)
    write(connection.data_to_send())
    connection.receive_data(read(), now)
    while (event := connection.next_event()) is not NEED_DATA:
        ...

Two rules for the caller. Pass on all readable bytes before ``tick``: otherwise a broker looks silent because
our own thread was late. Call ``tick`` no later than at ``deadline``.

The class is not thread-safe. One lock around it is enough; events are handled outside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.protocol.decoder import FrameDecoder, ReceiptScanner
from spark_stomp.protocol.encoder import (
    Headers,
    ack_headers,
    encode_acks,
    encode_frame,
    request,
    send_frame,
)
from spark_stomp.protocol.events import (
    Connected,
    Disconnected,
    ErrorReceived,
    Event,
    HeartbeatReceived,
    MessageReceived,
    MessagesScanned,
    ReceiptReceived,
    ReceiptsReceived,
)
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, Limits, Signal
from spark_stomp.protocol.handshake import ClientConfig, HandshakeDecoder, encode_connect
from spark_stomp.protocol.heartbeat import NO_HEARTBEAT, HeartbeatTimer, negotiate_heartbeat, parse_heartbeat
from spark_stomp.protocol.ids import ClientIds, OpenSubscription
from spark_stomp.protocol.malformed import MalformedMessage
from spark_stomp.protocol.scanner import FrameScanner, MessageBlock
from spark_stomp.protocol.session import Session
from spark_stomp.protocol.states import CLIENT_TABLE, ClientState, Local, Machine, Remote
from spark_stomp.protocol.versions import (
    LENIENT,
    ack_modes,
    check_refusal,
    client_version,
    has_heartbeats,
    has_nack,
)
from spark_stomp.quoting import whole_number

_HEARTBEAT_EVENT = HeartbeatReceived()
_OVER = frozenset({ClientState.CLOSED, ClientState.FAILED})


class ClientConnection(Session[ClientState, Local, Remote, Event]):
    """One session with a broker, from CONNECT to its end. Not reusable.

    Every method that sends raises LocalProtocolError, and queues nothing, if the state or the version does
    not allow it, or if the version cannot carry the frame (FrameEncodeError).
    """

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(
            Machine(CLIENT_TABLE, ClientState.IDLE, ClientState.FAILED),
            HandshakeDecoder(config.connect_version, Limits.before_connected(), lenient=config.lenient),
            beating=frozenset({ClientState.CONNECTED}),
            listening=frozenset({ClientState.CONNECTED, ClientState.DISCONNECTING}),
        )
        self._config = config
        self._ids = ClientIds()
        self._disconnect_receipt: str | None = None
        self.server: str | None = None
        self.session: str | None = None

    def new_receipt(self) -> str:
        """An id that no other receipt of this connection has."""
        return self._ids.new_receipt()

    def collect(
        self, *, id_header: str | None, ack_header: str | None = None, time_header: str | None = None
    ) -> None:
        """Collect the raw values of these headers as stable id, as handle of an ACK and as time of the id.

        Which header survives redelivery, and which a producer cannot set, depends on the broker, and
        CONNECTED names the broker. Call this before the first SUBSCRIBE. ``ack_header`` None: what the
        version names.

        Raises:
            LocalProtocolError: the session is not connected, or was not configured to ``scan``.
        """
        if not isinstance(self._source, FrameScanner):
            raise LocalProtocolError("only a connected session that leaves messages as bytes collects ids")
        self._source.collect(id_header=id_header, ack_header=ack_header, time_header=time_header)

    # --- what we send

    def connect(self, now: float) -> None:
        """Queue CONNECT."""
        self._machine.check(Local.CONNECT)
        self._now = now
        data = encode_connect(self._config)
        self._machine.local(Local.CONNECT)
        self._out.append(data)

    def subscribe(
        self,
        subscription_id: str,
        destination: str,
        *,
        ack: str = "client-individual",
        headers: Headers = (),
        receipt: str | None = None,
    ) -> None:
        """Queue SUBSCRIBE. ``ack``: "auto", "client" or, not in 1.0, "client-individual"."""
        self._machine.check(Local.SUBSCRIBE)
        modes = ack_modes(self._negotiated)
        if ack not in modes:
            raise LocalProtocolError(
                f"ack:{ack} is not known to STOMP {self.version}; it has {', '.join(modes)}"
            )
        if not destination:
            raise LocalProtocolError("SUBSCRIBE needs a destination")
        self._ids.check_new_subscription(subscription_id)
        own = (("id", subscription_id), ("destination", destination), ("ack", ack))
        self._queue(Local.SUBSCRIBE, request("SUBSCRIBE", own, headers=headers, receipt=receipt), receipt)
        self._ids.subscriptions[subscription_id] = OpenSubscription(destination, ack)
        if isinstance(self._source, FrameScanner):
            self._source.collect_from(subscription_id)

    def unsubscribe(self, subscription_id: str, *, headers: Headers = (), receipt: str | None = None) -> None:
        """Queue UNSUBSCRIBE. Messages that the broker has sent already still arrive."""
        self._machine.check(Local.UNSUBSCRIBE)
        subscription = self._ids.subscription(subscription_id)
        # A lenient broker may not know ids; it then finds the subscription by its destination.
        destination = subscription.destination if self.version == LENIENT else None
        own = (("id", subscription_id), ("destination", destination))
        self._queue(Local.UNSUBSCRIBE, request("UNSUBSCRIBE", own, headers=headers, receipt=receipt), receipt)
        self._ids.end_subscription(subscription_id)

    def send(
        self,
        destination: str,
        body: bytes,
        *,
        headers: Headers = (),
        receipt: str | None = None,
        transaction: str | None = None,
        content_length: bool = True,
    ) -> None:
        """Queue SEND (see :func:`~spark_stomp.protocol.encoder.send_frame` for ``content_length``)."""
        self._machine.check(Local.SEND)
        self._ids.check_transaction(transaction)
        frame = send_frame(
            destination,
            body,
            headers=headers,
            receipt=receipt,
            transaction=transaction,
            content_length=content_length,
        )
        self._queue(Local.SEND, frame, receipt)

    def send_raw(self, frames: memoryview, receipts: Collection[int]) -> None:
        """Queue whole SEND frames, in bulk. They are not copied, so they must not change until they are sent.

        Args:
            frames: encoded in this session's version, each with a receipt.
            receipts: the numbers of these; ids as ``ClientConfig.receipt_prefix`` has them.
        """
        self._machine.check(Local.SEND)
        self._ids.await_numbers(receipts)
        self._out.append(frames)

    def ack(
        self,
        subscription_id: str,
        handle: str,
        *,
        headers: Headers = (),
        transaction: str | None = None,
        receipt: str | None = None,
    ) -> None:
        """Queue ACK. ``handle`` is the MESSAGE's ``ack`` header in 1.2, its ``message-id`` before that."""
        self._acknowledge(Local.ACK, subscription_id, handle, headers, transaction, receipt)

    def nack(
        self,
        subscription_id: str,
        handle: str,
        *,
        headers: Headers = (),
        transaction: str | None = None,
        receipt: str | None = None,
    ) -> None:
        """Queue NACK; 1.0 has none. Brokers requeue the message, dead-letter it, or even acknowledge it."""
        self._machine.check(Local.NACK)
        if not has_nack(self._negotiated):
            raise LocalProtocolError(f"STOMP {self.version} has no NACK")
        self._acknowledge(Local.NACK, subscription_id, handle, headers, transaction, receipt)

    def ack_raw(self, subscription_id: str, handles: Sequence[bytes], *, receipt: str | None = None) -> None:
        """Queue one ACK per handle, in bulk.

        Args:
            handles: as in ``MessageBlock.acks``: raw, still escaped.
            receipt: asked for with the last ACK.
        """
        self._machine.check(Local.ACK)
        self._ids.check_wants_acks(subscription_id)
        if not handles:
            if receipt is not None:
                raise LocalProtocolError("no ACK to ask a receipt for")
            return
        self._ids.check_new_receipt(receipt)
        self._out.append(encode_acks(subscription_id, handles, self._negotiated, receipt=receipt))
        self._ids.await_receipt(receipt)

    def begin(self, transaction: str, *, receipt: str | None = None) -> None:
        """Queue BEGIN."""
        self._machine.check(Local.BEGIN)
        self._ids.check_new_transaction(transaction)
        self._queue(Local.BEGIN, request("BEGIN", (), transaction=transaction, receipt=receipt), receipt)
        self._ids.transactions.add(transaction)

    def commit(self, transaction: str, *, receipt: str | None = None) -> None:
        """Queue COMMIT."""
        self._end_transaction(Local.COMMIT, transaction, receipt)

    def abort(self, transaction: str, *, receipt: str | None = None) -> None:
        """Queue ABORT."""
        self._end_transaction(Local.ABORT, transaction, receipt)

    def disconnect(self, receipt: str | None = None) -> None:
        """Queue DISCONNECT, the last frame we send. Disconnected follows when its receipt comes."""
        self._queue(Local.DISCONNECT, request("DISCONNECT", (), receipt=receipt), receipt)
        self._disconnect_receipt = receipt

    def _acknowledge(
        self,
        step: Local,
        subscription_id: str,
        handle: str,
        headers: Headers,
        transaction: str | None,
        receipt: str | None,
    ) -> None:
        self._machine.check(step)
        self._ids.check_wants_acks(subscription_id)
        self._ids.check_transaction(transaction)
        if not handle:
            raise LocalProtocolError("a message without message-id cannot be acknowledged")
        own = ack_headers(subscription_id, handle, self._negotiated)
        frame = request(step.value, own, headers=headers, transaction=transaction, receipt=receipt)
        self._queue(step, frame, receipt)

    def _end_transaction(self, step: Local, transaction: str, receipt: str | None) -> None:
        self._machine.check(step)
        self._ids.check_transaction(transaction)
        self._queue(step, request(step.value, (), transaction=transaction, receipt=receipt), receipt)
        self._ids.transactions.discard(transaction)

    def _queue(self, step: Local, frame: Frame, receipt: str | None) -> None:
        """Encode and queue a frame. Receipt and bytes are noted last, so a failure changes nothing."""
        self._ids.check_new_receipt(receipt)
        data = encode_frame(frame, self._negotiated)
        self._machine.local(step)
        self._ids.await_receipt(receipt)
        self._out.append(data)

    # --- what comes

    def _read_event(self) -> Event | Literal[Signal.NEED_DATA]:
        if self.state in _OVER:
            # After ERROR, and after the receipt of DISCONNECT, nothing more is read.
            return NEED_DATA
        event = self._source.next_event()
        if isinstance(event, MessageBlock):
            self._machine.remote(Remote.MESSAGE)
            return MessagesScanned(event)
        if isinstance(event, MalformedMessage):
            self._machine.remote(Remote.MESSAGE)
            return event
        if isinstance(event, list):
            return self._read_numbered(event)
        if isinstance(event, Frame):
            return self._read_frame(event)
        if event is HEARTBEAT:
            self._machine.remote(Remote.HEARTBEAT)
            return _HEARTBEAT_EVENT
        return self._read_end() if self._eof else NEED_DATA

    def _read_end(self) -> Event:
        self._machine.remote(Remote.EOF)
        return Disconnected(confirmed=False)

    def _read_frame(self, frame: Frame) -> Event:
        reader = _READERS.get(frame.command)
        if reader is None:
            raise RemoteProtocolError(f"a broker may not send {frame.command}")
        return reader(self, frame)

    def _read_message(self, frame: Frame) -> Event:
        self._machine.remote(Remote.MESSAGE)
        return MessageReceived(frame)

    def _read_receipt(self, frame: Frame) -> Event:
        receipt = frame.get("receipt-id")
        number = self._number_of(receipt)
        if number is not None:
            return self._read_numbered([number])
        last = self._disconnect_receipt is not None and receipt == self._disconnect_receipt
        self._machine.remote(Remote.DISCONNECT_RECEIPT if last else Remote.RECEIPT)
        receipt = self._ids.take_receipt(receipt)
        return Disconnected() if last else ReceiptReceived(receipt)

    def _read_numbered(self, numbers: list[int]) -> Event:
        self._machine.remote(Remote.RECEIPT)
        self._ids.take_numbers(numbers)
        return ReceiptsReceived(numbers)

    def _number_of(self, receipt: str | None) -> int | None:
        """The number of a receipt with a numbered id; None for any other."""
        prefix = self._config.receipt_prefix
        if prefix is None or receipt is None or not receipt.startswith(prefix):
            return None
        return whole_number(receipt[len(prefix) :])

    def _read_error(self, frame: Frame) -> Event:
        connecting = self.state is ClientState.CONNECTING
        self._machine.remote(Remote.ERROR)
        event = ErrorReceived(frame)
        if connecting:
            check_refusal(self._config.accept_versions, frame.get("version"), event.message)
        return event

    def _read_connected(self, frame: Frame) -> Event:
        self._machine.remote(Remote.CONNECTED)
        version = client_version(self._config.accept_versions, frame.get("version"))
        intervals = NO_HEARTBEAT
        if has_heartbeats(version):
            theirs = parse_heartbeat(frame.get("heart-beat"))
            intervals = negotiate_heartbeat(self._config.heartbeat, theirs)
        self.version = version
        self.server = frame.get("server")
        self.session = frame.get("session")
        self._timer = HeartbeatTimer(intervals, self._now, margin=self._config.receive_margin)
        self._switch_source(self._source_for(version))
        return Connected(version, self.server, self.session, intervals)

    def _source_for(self, version: str) -> FrameDecoder | FrameScanner:
        config = self._config
        if config.receipt_prefix is not None:
            return ReceiptScanner(version, config.limits, config.receipt_prefix)
        if config.scan:
            return FrameScanner(version, config.limits, id_header=config.id_header, tolerant=True)
        return FrameDecoder(version, config.limits)

    @property
    def _negotiated(self) -> str:
        return self.version or self._config.connect_version


_READERS: Mapping[str, Callable[[ClientConnection, Frame], Event]] = {
    "CONNECTED": ClientConnection._read_connected,
    "MESSAGE": ClientConnection._read_message,
    "RECEIPT": ClientConnection._read_receipt,
    "ERROR": ClientConnection._read_error,
}
