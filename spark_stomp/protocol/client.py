"""The client half of a session: bytes in, events and bytes out. No socket, no thread, no clock.

::

    connection = ClientConnection(ClientConfig(host="/", login="guest", passcode="guest"))
    connection.connect(now)
    write(connection.data_to_send())
    connection.receive_data(read(), now)
    while (event := connection.next_event()) is not NEED_DATA:
        ...

Two rules for the caller. Pass all readable bytes to ``receive_data`` before ``tick``; otherwise a broker
seems silent if our own thread was late. Call ``tick`` no later than at ``deadline``.

The class is not thread-safe. One lock around it is enough. Handle events outside of that lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

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
from spark_stomp.protocol.frames import Frame, Limits
from spark_stomp.protocol.handshake import (
    LENIENT,
    ClientConfig,
    HandshakeDecoder,
    ack_modes,
    check_refusal,
    client_version,
    encode_connect,
    has_heartbeats,
    parse_heartbeat,
)
from spark_stomp.protocol.scanner import FrameScanner, MessageBlock
from spark_stomp.protocol.session import (
    Connected,
    Disconnected,
    ErrorReceived,
    Event,
    MessageReceived,
    MessagesScanned,
    Read,
    ReceiptReceived,
    ReceiptsReceived,
    Session,
)
from spark_stomp.protocol.states import CLIENT_TABLE, DISCONNECT_RECEIPT, EOF, State
from spark_stomp.quoting import quoted, whole_number

_LISTENING: Final = frozenset({State.CONNECTED, State.DISCONNECTING})


class ClientIds:
    """The subscriptions of one connection, and the receipts that it awaits. These may arrive in any order.

    ``subscriptions`` has the destinations by the ids of the open subscriptions.
    """

    def __init__(self) -> None:
        self.subscriptions: dict[str, str] = {}
        self.receipts: set[str] = set()
        self.numbers: set[int] = set()
        self._receipt_number = 0

    def new_receipt(self) -> str:
        """An id that was not returned before."""
        self._receipt_number += 1
        return f"r-{self._receipt_number}"

    def check_new_receipt(self, receipt: str | None) -> None:
        """Raise LocalProtocolError if a receipt with this id is already awaited."""
        if receipt in self.receipts:
            raise LocalProtocolError(f"the receipt {receipt!r} is already awaited")

    def await_receipt(self, receipt: str | None) -> None:
        """Expect this receipt from now on. Does nothing if ``receipt`` is None."""
        if receipt is not None:
            self.receipts.add(receipt)

    def take_receipt(self, receipt: str | None) -> str:
        """Note that the peer sent this receipt. Raises RemoteProtocolError if it is not awaited."""
        if receipt not in self.receipts:
            raise RemoteProtocolError(f"a RECEIPT for {quoted(receipt)}, which was not asked for")
        self.receipts.discard(receipt)
        return receipt

    def await_numbers(self, numbers: Collection[int]) -> None:
        """Expect the receipts with these numbers. Raises LocalProtocolError if one is already awaited."""
        if not self.numbers.isdisjoint(numbers):
            raise LocalProtocolError("a receipt with one of these numbers is already awaited")
        self.numbers.update(numbers)

    def take_numbers(self, numbers: list[int]) -> None:
        """Note that the peer sent these receipts. Raises RemoteProtocolError if one is not awaited."""
        left = len(self.numbers) - len(numbers)
        self.numbers.difference_update(numbers)
        if len(self.numbers) != left:
            raise RemoteProtocolError(
                f"a RECEIPT that was not asked for is among the {len(numbers)} from number {numbers[0]} on"
            )


class ClientConnection(Session[Event]):
    """One session with a broker, from CONNECT to its end. Not reusable.

    Every method that queues a frame raises LocalProtocolError, and queues nothing, if the frame is not
    allowed in this state or version. If the version cannot express the frame, the error is a
    FrameEncodeError.
    """

    def __init__(self, config: ClientConfig) -> None:
        handshake = HandshakeDecoder(
            config.connect_version, Limits.before_connected(), lenient=config.lenient
        )
        super().__init__(CLIENT_TABLE, handshake, _LISTENING)
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
        """Choose the headers whose values, as on the wire, are collected from each message.

        Which header survives redelivery, and which one a producer cannot set, depends on the broker, and only
        CONNECTED says which broker it is. Call this before the first SUBSCRIBE.

        Args:
            id_header: the header with the stable id, or None to collect no ids.
            ack_header: the header with the ack handle; by default the one that the STOMP version names.
            time_header: the header with the time that completes the id, or None to collect no times.

        Raises:
            LocalProtocolError: the session is not connected, or was not configured to ``scan``.
        """
        if not isinstance(self._source, FrameScanner):
            raise LocalProtocolError("only a connected session that leaves messages as bytes collects ids")
        self._source.collect(id_header=id_header, ack_header=ack_header, time_header=time_header)

    # --- what we send

    def connect(self, now: float) -> None:
        """Queue CONNECT."""
        self._machine.check("CONNECT")
        self._now = now
        data = encode_connect(self._config)
        self._machine.local("CONNECT")
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
        """Queue SUBSCRIBE. ``ack`` is "auto", "client" or, except in 1.0, "client-individual"."""
        self._machine.check("SUBSCRIBE")
        modes = ack_modes(self._negotiated)
        if ack not in modes:
            raise LocalProtocolError(
                f"ack:{ack} is not known to STOMP {self.version}; it has {', '.join(modes)}"
            )
        if not destination:
            raise LocalProtocolError("SUBSCRIBE needs a destination")
        own = (("id", subscription_id), ("destination", destination), ("ack", ack))
        self._queue(request("SUBSCRIBE", own, headers=headers, receipt=receipt))
        self._ids.subscriptions[subscription_id] = destination
        if isinstance(self._source, FrameScanner):
            self._source.collect_from(subscription_id)

    def unsubscribe(self, subscription_id: str, *, headers: Headers = (), receipt: str | None = None) -> None:
        """Queue UNSUBSCRIBE. Messages that the broker has already sent still arrive.

        A durable subscription, which STOMP does not have, need not be open on this connection: ``headers``
        name it as the broker wants.
        """
        self._machine.check("UNSUBSCRIBE")
        # A lenient broker may not know ids; it then finds the subscription by its destination.
        destination = self._ids.subscriptions.get(subscription_id) if self.version == LENIENT else None
        own = (("id", subscription_id), ("destination", destination))
        self._queue(request("UNSUBSCRIBE", own, headers=headers, receipt=receipt))
        self._ids.subscriptions.pop(subscription_id, None)

    def send(
        self,
        destination: str,
        body: bytes,
        *,
        headers: Headers = (),
        receipt: str | None = None,
        content_length: bool = True,
    ) -> None:
        """Queue SEND (see :func:`~spark_stomp.protocol.encoder.send_frame` for ``content_length``)."""
        self._machine.check("SEND")
        frame = send_frame(destination, body, headers=headers, receipt=receipt, content_length=content_length)
        self._queue(frame)

    def send_raw(self, frames: memoryview, receipts: Collection[int]) -> None:
        """Queue complete SEND frames. They are not copied, so they must not change until they are sent.

        Args:
            frames: frames in this session's version, each of which asks for a receipt.
            receipts: the numbers of these receipts. Each id is ``ClientConfig.receipt_prefix`` and its
                number.
        """
        self._machine.check("SEND")
        self._ids.await_numbers(receipts)
        self._out.append(frames)

    def ack(
        self, subscription_id: str, handle: str, *, headers: Headers = (), receipt: str | None = None
    ) -> None:
        """Queue ACK. ``handle`` is the ``ack`` header of the MESSAGE in 1.2, ``message-id`` before that."""
        self._machine.check("ACK")
        own = ack_headers(subscription_id, handle, self._negotiated)
        self._queue(request("ACK", own, headers=headers, receipt=receipt))

    def ack_raw(self, handles: Sequence[bytes], *, receipt: str | None = None) -> None:
        """Queue one ACK for each handle.

        Args:
            handles: what :func:`~spark_stomp.protocol.encoder.ack_handles` returned.
            receipt: the receipt that the last ACK asks for, if any.
        """
        self._machine.check("ACK")
        if not handles:
            return
        self._ids.check_new_receipt(receipt)
        self._out.append(encode_acks(handles, self._negotiated, receipt=receipt))
        self._ids.await_receipt(receipt)

    def disconnect(self, receipt: str | None = None) -> None:
        """Queue DISCONNECT, our last frame. The event Disconnected follows when its receipt arrives."""
        self._queue(request("DISCONNECT", (), receipt=receipt))
        self._disconnect_receipt = receipt

    def _queue(self, frame: Frame) -> None:
        """Encode and queue a frame. If that fails, nothing has changed: receipt and bytes are added last."""
        receipt = frame.get("receipt")
        self._ids.check_new_receipt(receipt)
        data = encode_frame(frame, self._negotiated)
        self._machine.local(frame.command)
        self._ids.await_receipt(receipt)
        self._out.append(data)

    # --- what comes

    def _read(self, event: Read) -> Event:
        if isinstance(event, Frame):
            reader = _READERS.get(event.command)
            if reader is None:
                raise RemoteProtocolError(f"a broker may not send {event.command}")
            return reader(self, event)
        if isinstance(event, list):
            return self._read_numbered(event)
        self._machine.remote("MESSAGE")
        return MessagesScanned(event) if isinstance(event, MessageBlock) else event

    def _read_end(self) -> Event:
        self._machine.remote(EOF)
        return Disconnected(confirmed=False)

    def _read_message(self, frame: Frame) -> Event:
        self._machine.remote("MESSAGE")
        return MessageReceived(frame)

    def _read_receipt(self, frame: Frame) -> Event:
        receipt = frame.get("receipt-id")
        number = self._number_of(receipt)
        if number is not None:
            return self._read_numbered([number])
        last = self._disconnect_receipt is not None and receipt == self._disconnect_receipt
        self._machine.remote(DISCONNECT_RECEIPT if last else "RECEIPT")
        receipt = self._ids.take_receipt(receipt)
        return Disconnected() if last else ReceiptReceived(receipt)

    def _read_numbered(self, numbers: list[int]) -> Event:
        self._machine.remote("RECEIPT")
        self._ids.take_numbers(numbers)
        return ReceiptsReceived(numbers)

    def _number_of(self, receipt: str | None) -> int | None:
        """The number in the id of a numbered receipt; None for any other receipt."""
        prefix = self._config.receipt_prefix
        if prefix is None or receipt is None or not receipt.startswith(prefix):
            return None
        return whole_number(receipt[len(prefix) :])

    def _read_error(self, frame: Frame) -> Event:
        connecting = self.state is State.CONNECTING
        self._machine.remote("ERROR")
        event = ErrorReceived(frame)
        if connecting:
            check_refusal(self._config.accept_versions, frame.get("version"), event.message)
        return event

    def _read_connected(self, frame: Frame) -> Event:
        self._machine.remote("CONNECTED")
        version = client_version(self._config.accept_versions, frame.get("version"))
        theirs = parse_heartbeat(frame.get("heart-beat") if has_heartbeats(version) else None)
        self.server = frame.get("server")
        self.session = frame.get("session")
        config = self._config
        self._start(self._source_for(version), config.heartbeat, theirs, self._now, config.receive_margin)
        return Connected(version, self.server, self.session, self.heartbeat)

    def _source_for(self, version: str) -> FrameDecoder | FrameScanner:
        config = self._config
        if config.receipt_prefix is not None:
            return ReceiptScanner(version, config.limits, config.receipt_prefix)
        if config.scan:
            return FrameScanner(version, config.limits, tolerant=True)
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
