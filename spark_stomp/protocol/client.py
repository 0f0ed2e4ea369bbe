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

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import Headers, encode_acks, encode_frame
from spark_stomp.protocol.frames import Frame, Limits
from spark_stomp.protocol.handshake import (
    ClientConfig,
    HandshakeDecoder,
    check_refusal,
    client_version,
    encode_connect,
    has_heartbeats,
    parse_heartbeat,
)
from spark_stomp.protocol.scanner import FrameScanner, ReceiptScanner
from spark_stomp.protocol.session import (
    CLIENT_TABLE,
    DISCONNECT_RECEIPT,
    EOF,
    Connected,
    Disconnected,
    ErrorReceived,
    Event,
    Read,
    ReceiptReceived,
    ReceiptsReceived,
    Session,
    SessionState,
)
from spark_stomp.quoting import quoted, whole_number

_LISTENING: Final = frozenset({SessionState.CONNECTED, SessionState.DISCONNECTING})


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
        # The receipts that are awaited. They may arrive in any order.
        self._receipts: set[str] = set()
        self._numbers: set[int] = set()
        self._receipt_count = 0
        self._disconnect_receipt: str | None = None
        self.server: str | None = None
        self.session: str | None = None

    def new_receipt(self) -> str:
        """An id that no other receipt of this connection has."""
        self._receipt_count += 1
        return f"r-{self._receipt_count}"

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
        """
        assert isinstance(self._source, FrameScanner), "only a connected session that scans collects ids"
        self._source.collect(id_header=id_header, ack_header=ack_header, time_header=time_header)

    # --- what we send

    def connect(self, now: float) -> None:
        """Queue CONNECT."""
        self._machine.check("CONNECT")
        self._now = now
        data = encode_connect(self._config)
        self._machine.local("CONNECT")
        self._out.append(data)

    def request(
        self, command: str, headers: Headers = (), body: bytes = b"", *, receipt: str | None = None
    ) -> None:
        """Queue a frame with these headers, and with ``receipt`` if it is not None.

        After SUBSCRIBE, only messages of the subscriptions of this session are scanned. After UNSUBSCRIBE,
        messages that the broker has already sent still arrive. After DISCONNECT, our last frame, the event
        Disconnected follows when its receipt arrives.
        """
        self._machine.check(command)
        asked = () if receipt is None else (("receipt", receipt),)
        frame = Frame(command, (*headers, *asked), body)
        data = encode_frame(frame, self._negotiated)
        # Nothing has changed if that has failed.
        self._machine.local(command)
        if command == "SUBSCRIBE" and isinstance(self._source, FrameScanner):
            self._source.collect_from(frame.get("id", ""))
        elif command == "DISCONNECT":
            self._disconnect_receipt = receipt
        if receipt is not None:
            self._receipts.add(receipt)
        self._out.append(data)

    def send_raw(self, frames: memoryview, receipts: Collection[int]) -> None:
        """Queue complete SEND frames. They are not copied, so they must not change until they are sent.

        Args:
            frames: frames in this session's version, each of which asks for a receipt.
            receipts: the numbers of these receipts. Each id is ``ClientConfig.receipt_prefix`` and its
                number.
        """
        self._machine.check("SEND")
        self._numbers.update(receipts)
        self._out.append(frames)

    def ack_raw(self, handles: Sequence[bytes], *, receipt: str | None = None) -> None:
        """Queue one ACK for each handle.

        Args:
            handles: what :func:`~spark_stomp.protocol.encoder.ack_handles` returned.
            receipt: the receipt that the last ACK asks for, if any.
        """
        self._machine.check("ACK")
        if not handles:
            return
        self._out.append(encode_acks(handles, self._negotiated, receipt=receipt))
        if receipt is not None:
            self._receipts.add(receipt)

    # --- what comes

    def _read(self, event: Read) -> Event:
        if isinstance(event, list):
            return self._read_numbered(event)
        if not isinstance(event, Frame) or event.command == "MESSAGE":
            self._machine.remote("MESSAGE")
            return event
        reader = _READERS.get(event.command)
        if reader is None:
            raise RemoteProtocolError(f"a broker may not send {event.command}")
        return reader(self, event)

    def _read_end(self) -> Event:
        self._machine.remote(EOF)
        return Disconnected(confirmed=False)

    def _read_receipt(self, frame: Frame) -> Event:
        receipt = frame.get("receipt-id")
        number = self._number_of(receipt)
        if number is not None:
            return self._read_numbered([number])
        last = self._disconnect_receipt is not None and receipt == self._disconnect_receipt
        self._machine.remote(DISCONNECT_RECEIPT if last else "RECEIPT")
        if receipt not in self._receipts:
            raise RemoteProtocolError(f"a RECEIPT for {quoted(receipt)}, which was not asked for")
        self._receipts.remove(receipt)
        return Disconnected() if last else ReceiptReceived(receipt)

    def _read_numbered(self, numbers: list[int]) -> Event:
        self._machine.remote("RECEIPT")
        remaining = len(self._numbers) - len(numbers)
        self._numbers.difference_update(numbers)
        if len(self._numbers) != remaining:
            raise RemoteProtocolError(
                f"a RECEIPT that was not asked for is among the {len(numbers)} from number {numbers[0]} on"
            )
        return ReceiptsReceived(numbers)

    def _number_of(self, receipt: str | None) -> int | None:
        """The number in the id of a numbered receipt; None for any other receipt."""
        prefix = self._config.receipt_prefix
        if prefix is None or receipt is None or not receipt.startswith(prefix):
            return None
        return whole_number(receipt[len(prefix) :])

    def _read_error(self, frame: Frame) -> Event:
        connecting = self.state is SessionState.CONNECTING
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
        self._start(self._source_for(version), self._config.heartbeat, theirs, self._now)
        return Connected()

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
    "RECEIPT": ClientConnection._read_receipt,
    "ERROR": ClientConnection._read_error,
}
