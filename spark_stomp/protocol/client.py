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
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class OpenSubscription:
    """An open subscription and how its messages are acknowledged."""

    destination: str
    ack: str


class ClientIds:
    """Keeps ids unique as the specification asks, and matches receipts in any order."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, OpenSubscription] = {}
        self.transactions: set[str] = set()
        self.receipts: set[str] = set()
        self.numbers: set[int] = set()
        self._past_subscriptions: set[str] = set()
        self._receipt_number = 0

    def new_receipt(self) -> str:
        """An id that no awaited receipt has, and that this method has not returned before."""
        while True:
            self._receipt_number += 1
            receipt = f"r-{self._receipt_number}"
            if receipt not in self.receipts:
                return receipt

    def check_new_receipt(self, receipt: str | None) -> None:
        """Refuse an id that is awaited already."""
        if receipt in self.receipts:
            raise LocalProtocolError(f"the receipt {receipt!r} is awaited already")

    def await_receipt(self, receipt: str | None) -> None:
        """Expect this receipt from now on."""
        if receipt is not None:
            self.receipts.add(receipt)

    def take_receipt(self, receipt: str | None) -> str:
        """The peer sent this receipt. Raises RemoteProtocolError if it is not awaited (any more)."""
        if receipt not in self.receipts:
            raise RemoteProtocolError(f"a RECEIPT for {quoted(receipt)}, which was not asked for")
        self.receipts.discard(receipt)
        return receipt

    def await_numbers(self, numbers: Collection[int]) -> None:
        """Expect the receipts with these numbers from now on; none of them may be awaited already."""
        if not self.numbers.isdisjoint(numbers):
            raise LocalProtocolError("a receipt with one of these numbers is awaited already")
        self.numbers.update(numbers)

    def take_numbers(self, numbers: list[int]) -> None:
        """The peer sent the receipts with these numbers. Raises RemoteProtocolError if one is not awaited."""
        left = len(self.numbers) - len(numbers)
        self.numbers.difference_update(numbers)
        if len(self.numbers) != left:
            raise RemoteProtocolError(
                f"a RECEIPT that was not asked for is among the {len(numbers)} from number {numbers[0]} on"
            )

    def check_new_subscription(self, subscription_id: str) -> None:
        """Refuse an id that any subscription of this connection has or had.

        The id of an ended subscription is not used again: its last messages may still arrive (STOMP 1.2,
        "SUBSCRIBE id Header").
        """
        if not subscription_id:
            raise LocalProtocolError("a subscription needs an id")
        if subscription_id in self.subscriptions or subscription_id in self._past_subscriptions:
            raise LocalProtocolError(
                f"the subscription id {subscription_id!r} was used on this connection before"
            )

    def subscription(self, subscription_id: str) -> OpenSubscription:
        """The open subscription of this id."""
        found = self.subscriptions.get(subscription_id)
        if found is None:
            raise LocalProtocolError(f"there is no subscription {subscription_id!r} on this connection")
        return found

    def check_wants_acks(self, subscription_id: str) -> None:
        """Refuse an ACK or NACK on a subscription whose messages need none."""
        if self.subscription(subscription_id).ack == "auto":
            raise LocalProtocolError(
                f"messages of {subscription_id!r} are acknowledged by themselves (ack:auto)"
            )

    def end_subscription(self, subscription_id: str) -> None:
        """Close the subscription; its id stays taken."""
        del self.subscriptions[subscription_id]
        self._past_subscriptions.add(subscription_id)

    def check_new_transaction(self, transaction: str) -> None:
        """Refuse the id of an open transaction.

        Ids of ended transactions may be used again, although the specification advises against it: brokers
        forget them, and remembering all would take more and more memory.
        """
        if not transaction or transaction in self.transactions:
            raise LocalProtocolError(f"the transaction {transaction!r} is open already, or no id")

    def check_transaction(self, transaction: str | None) -> None:
        """Refuse a transaction that was not begun, or has ended."""
        if transaction is not None and transaction not in self.transactions:
            raise LocalProtocolError(f"there is no open transaction {transaction!r}")


class ClientConnection(Session[Event]):
    """One session with a broker, from CONNECT to its end. Not reusable.

    Every method that sends raises LocalProtocolError, and queues nothing, if the state or the version does
    not allow it, or if the version cannot carry the frame (FrameEncodeError).
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
        """Queue SUBSCRIBE. ``ack``: "auto", "client" or, not in 1.0, "client-individual"."""
        self._machine.check("SUBSCRIBE")
        modes = ack_modes(self._negotiated)
        if ack not in modes:
            raise LocalProtocolError(
                f"ack:{ack} is not known to STOMP {self.version}; it has {', '.join(modes)}"
            )
        if not destination:
            raise LocalProtocolError("SUBSCRIBE needs a destination")
        self._ids.check_new_subscription(subscription_id)
        own = (("id", subscription_id), ("destination", destination), ("ack", ack))
        self._queue(request("SUBSCRIBE", own, headers=headers, receipt=receipt))
        self._ids.subscriptions[subscription_id] = OpenSubscription(destination, ack)
        if isinstance(self._source, FrameScanner):
            self._source.collect_from(subscription_id)

    def unsubscribe(self, subscription_id: str, *, headers: Headers = (), receipt: str | None = None) -> None:
        """Queue UNSUBSCRIBE. Messages that the broker has sent already still arrive."""
        self._machine.check("UNSUBSCRIBE")
        subscription = self._ids.subscription(subscription_id)
        # A lenient broker may not know ids; it then finds the subscription by its destination.
        destination = subscription.destination if self.version == LENIENT else None
        own = (("id", subscription_id), ("destination", destination))
        self._queue(request("UNSUBSCRIBE", own, headers=headers, receipt=receipt))
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
        self._machine.check("SEND")
        self._ids.check_transaction(transaction)
        frame = send_frame(
            destination,
            body,
            headers=headers,
            receipt=receipt,
            transaction=transaction,
            content_length=content_length,
        )
        self._queue(frame)

    def send_raw(self, frames: memoryview, receipts: Collection[int]) -> None:
        """Queue whole SEND frames, in bulk. They are not copied, so they must not change until they are sent.

        Args:
            frames: encoded in this session's version, each with a receipt.
            receipts: the numbers of these; ids as ``ClientConfig.receipt_prefix`` has them.
        """
        self._machine.check("SEND")
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
        self._acknowledge("ACK", subscription_id, handle, headers, transaction, receipt)

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
        self._acknowledge("NACK", subscription_id, handle, headers, transaction, receipt)

    def ack_raw(self, subscription_id: str, handles: Sequence[bytes], *, receipt: str | None = None) -> None:
        """Queue one ACK per handle, in bulk.

        Args:
            handles: as in ``MessageBlock.acks``: raw, still escaped.
            receipt: asked for with the last ACK.
        """
        self._machine.check("ACK")
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
        self._machine.check("BEGIN")
        self._ids.check_new_transaction(transaction)
        self._queue(request("BEGIN", (), transaction=transaction, receipt=receipt))
        self._ids.transactions.add(transaction)

    def commit(self, transaction: str, *, receipt: str | None = None) -> None:
        """Queue COMMIT."""
        self._end_transaction("COMMIT", transaction, receipt)

    def abort(self, transaction: str, *, receipt: str | None = None) -> None:
        """Queue ABORT."""
        self._end_transaction("ABORT", transaction, receipt)

    def disconnect(self, receipt: str | None = None) -> None:
        """Queue DISCONNECT, the last frame we send. Disconnected follows when its receipt comes."""
        self._queue(request("DISCONNECT", (), receipt=receipt))
        self._disconnect_receipt = receipt

    def _acknowledge(
        self,
        command: str,
        subscription_id: str,
        handle: str,
        headers: Headers,
        transaction: str | None,
        receipt: str | None,
    ) -> None:
        self._machine.check(command)
        self._ids.check_wants_acks(subscription_id)
        self._ids.check_transaction(transaction)
        if not handle:
            raise LocalProtocolError("a message without message-id cannot be acknowledged")
        own = ack_headers(subscription_id, handle, self._negotiated)
        self._queue(request(command, own, headers=headers, transaction=transaction, receipt=receipt))

    def _end_transaction(self, command: str, transaction: str, receipt: str | None) -> None:
        self._machine.check(command)
        self._ids.check_transaction(transaction)
        self._queue(request(command, (), transaction=transaction, receipt=receipt))
        self._ids.transactions.discard(transaction)

    def _queue(self, frame: Frame) -> None:
        """Encode and queue a frame. Receipt and bytes are noted last, so a failure changes nothing."""
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

    def _read_frame(self, frame: Frame) -> Event:
        reader = _READERS.get(frame.command)
        if reader is None:
            raise RemoteProtocolError(f"a broker may not send {frame.command}")
        return reader(self, frame)

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
        """The number of a receipt with a numbered id; None for any other."""
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
