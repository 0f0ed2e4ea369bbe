"""STOMP over WebSocket, with the sans-IO part of the ``websockets`` package (the extra ``ws``).

Each STOMP frame and each heart-beat is sent as a message of its own, because ActiveMQ reads only the first
frame of a message. It is a text message if it is UTF-8, because ActiveMQ ignores binary messages. A long
frame is sent as several messages if the broker joins them, because a server between us and the broker may
refuse long ones. Received messages are read as one stream of bytes.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spark_stomp.deadline import Deadline
from spark_stomp.errors import ConnectFailed, ConnectionLost, ConnectTimeout, NotStompServer, UnsupportedError
from spark_stomp.protocol.frames import is_utf8
from spark_stomp.quoting import shown
from spark_stomp.transport.hiding import without_secrets
from spark_stomp.transport.stream import LEAST, READ_SIZE, ByteStream

if TYPE_CHECKING:
    from websockets.client import ClientProtocol
    from websockets.protocol import Event

    from spark_stomp.options import ConnectionOptions, Endpoint

_SUBPROTOCOLS = {"1.2": "v12.stomp", "1.1": "v11.stomp", "1.0": "v10.stomp"}
# Bytes that are parsed at once. It bounds the memory that empty messages take, which is a hundred times their
# bytes.
_READ_SIZE = 1 << 16
# Bytes by which a received message may exceed the largest frame: it may contain several frames, though no
# tested broker sends such messages.
_MESSAGE_OVERHEAD = 1 << 20
# Bytes of the longest message to a broker that joins messages. Tomcat, and so Spring, takes 8 KiB unless told
# otherwise, and Artemis 64 KiB (November 2026).
_LONGEST = 8 << 10
# Bytes of unsent answers to pings. Without a limit a hostile server made us keep 379 MiB of them (November
# 2026).
_MOST_ANSWERS = 1 << 20
# The package logs every frame at level debug, including CONNECT with the password.
_silent = logging.Logger("spark_stomp.websocket")
_silent.disabled = True
_LENGTH = re.compile(rb"\ncontent-length:([0-9]+)\n")


def upgrade(
    sock: socket.socket,
    peer: str,
    endpoint: Endpoint,
    options: ConnectionOptions,
    deadline: Deadline,
    max_frame: int,
) -> WebSocketStream:
    """Make a WebSocket of a connected socket by the ``deadline``.

    ``max_frame`` is the size of the largest STOMP frame in bytes; it limits the received messages.

    Raises NotStompServer if the server refuses, ConnectFailed, ConnectTimeout, or UnsupportedError if the
    package is missing.
    """
    protocol = _protocol(endpoint, options.accept_versions, max_frame)
    protocol.send_request(protocol.connect())
    try:
        early = _handshake(sock, protocol, deadline)
    except TimeoutError as error:
        raise ConnectTimeout(
            f"{endpoint} did not answer the WebSocket handshake within connectTimeout "
            f"({options.connect_timeout:g}s)"
        ) from error
    except OSError as error:
        raise ConnectFailed(f"{endpoint} broke off the WebSocket handshake: {error}") from error
    if protocol.handshake_exc is not None:
        said = without_secrets(str(protocol.handshake_exc), endpoint.secrets)
        raise NotStompServer(f"{endpoint} is no WebSocket for STOMP: {shown(said)}")
    return WebSocketStream(sock, peer, protocol, early)


def _handshake(sock: socket.socket, protocol: ClientProtocol, deadline: Deadline) -> list[Event]:
    """Send the request and read until the server has accepted or refused it.

    Returns the WebSocket frames that arrived together with the answer.
    """
    for data in protocol.data_to_send():
        sock.sendall(data)
    while not (events := protocol.events_received()) and protocol.handshake_exc is None:
        # Wait only for the time left, so that a server that sends byte by byte cannot extend it.
        sock.settimeout(deadline.left(LEAST))
        data = sock.recv(_READ_SIZE)
        if data:
            protocol.receive_data(data)
        else:
            protocol.receive_eof()
    return events[1:]


def _protocol(endpoint: Endpoint, versions: Sequence[str], max_frame: int) -> ClientProtocol:
    try:
        from websockets.client import ClientProtocol
        from websockets.typing import Subprotocol
        from websockets.uri import parse_uri
    except ImportError as error:
        raise UnsupportedError(
            f"{endpoint}: STOMP over WebSocket needs the package websockets: pip install 'spark-stomp[ws]'"
        ) from error
    wanted = [Subprotocol(_SUBPROTOCOLS[version]) for version in versions if version in _SUBPROTOCOLS]
    return ClientProtocol(
        parse_uri(endpoint.uri),
        subprotocols=wanted or None,
        max_size=max_frame + _MESSAGE_OVERHEAD,
        logger=_silent,
    )


class WebSocketStream(ByteStream):
    """A WebSocket as a stream of bytes: the contents of its messages."""

    def __init__(
        self, sock: socket.socket, peer: str, protocol: ClientProtocol, early: Sequence[Event]
    ) -> None:
        """``early`` are the events that arrived together with the answer to the handshake."""
        super().__init__(sock, peer)
        self._protocol = protocol
        self._early = _payload(early)
        self._unread = memoryview(b"")
        self._out = bytearray()
        self._most_out = _MOST_ANSWERS
        self._accepted = False

    def buffered(self) -> bool:
        return bool(self._early or self._unread) or super().buffered()

    def read(self, most: int = READ_SIZE) -> bytes | None:
        if self._early:
            early, self._early = self._early, b""
            return early
        if not self._unread:
            data = super().read(most)
            if not data:
                return data
            self._unread = memoryview(data)
        # A part at a time, because empty messages take a hundred times more memory than they have bytes.
        piece, self._unread = self._unread[:_READ_SIZE], self._unread[_READ_SIZE:]
        self._protocol.receive_data(bytes(piece))
        content = _payload(self._protocol.events_received())
        # Pings are answered here. Answers that the socket does not take are sent before the next message.
        self._send()
        if len(self._out) > self._most_out:
            raise ConnectionLost(f"{self.peer} sends pings over the WebSocket and does not read the answers")
        if not content and self._protocol.close_expected():
            return self._end()
        # None if only pings or empty fragments came. Reading on here would never end if a peer sends nothing
        # else, and the caller has deadlines to keep.
        return content or None

    def write(self, data: memoryview) -> int:
        if self._protocol.close_expected():
            self._end()
            raise ConnectionLost(f"the WebSocket to {self.peer} is being closed")
        if not self._accepted:
            for frame in split_frames(bytes(data)):
                self._send_message(frame)
            self._accepted = True
            # The headers of WebSocket frames add less than this allows for.
            self._most_out = 2 * len(data) + _MOST_ANSWERS
        self._send()
        if self._out:
            return 0
        self._accepted, self._most_out = False, _MOST_ANSWERS
        return len(data)

    def _end(self) -> bytes:
        """The end of the stream. Raises ConnectionLost if the WebSocket broke, or the server said why."""
        error, closed = self._protocol.parser_exc, self._protocol.close_rcvd
        if error is not None:
            raise ConnectionLost(f"the WebSocket to {self.peer} broke: {shown(str(error))}") from error
        if closed is not None and (closed.code, closed.reason) != (1000, ""):
            raise ConnectionLost(f"{self.peer} closed the connection and said: {shown(str(closed), 300)}")
        return b""

    def _send_message(self, frame: bytes) -> None:
        """Queue one STOMP frame, as several messages if it is long and the broker joins them."""
        text = is_utf8(frame)
        send = self._protocol.send_text if text else self._protocol.send_binary
        begin, longest = 0, _LONGEST if self.joins_messages else len(frame)
        while begin < len(frame):
            end = begin + longest
            # A text message consists of whole characters.
            while text and end < len(frame) and frame[end] & 0xC0 == 0x80:
                end -= 1
            send(frame[begin:end])
            begin = end

    def _send(self) -> None:
        """Send as much as the stream takes."""
        for data in self._protocol.data_to_send():
            self._out += data
        while self._out:
            with memoryview(self._out) as waiting:
                sent = super().write(waiting)
            if not sent:
                return
            del self._out[:sent]


def _payload(events: Sequence[Event]) -> bytes:
    """The contents of the messages among ``events``."""
    from websockets.frames import Frame, Opcode

    kinds = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)
    return b"".join(event.data for event in events if isinstance(event, Frame) and event.opcode in kinds)


def split_frames(data: bytes) -> Iterator[bytes]:
    """Split the bytes that a session sends into STOMP frames and heart-beats.

    ``data`` has only complete frames, whose lines end with LF.
    """
    begin = 0
    while begin < len(data):
        end = begin + 1
        if data[begin] != 0x0A:
            body = data.index(b"\n\n", begin) + 2
            length = _LENGTH.search(data, begin, body)
            end = data.index(b"\0", body + int(length[1]) if length else body) + 1
        yield data[begin:end]
        begin = end
