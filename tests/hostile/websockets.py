"""A WebSocket server with which a script can do as it likes, below STOMP."""

from __future__ import annotations

import base64
import hashlib
import struct

from hostile.broker import Peer, Step

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
TEXT, CONTINUED, PING, FINAL = 0x1, 0x0, 0x9, 0x80


def frame(opcode: int, payload: bytes = b"", announced: int | None = None) -> bytes:
    """One frame of RFC 6455, section 5.2, without a mask; ``announced``: another length than it has."""
    length = len(payload) if announced is None else announced
    if length < 126:
        return bytes([opcode, length]) + payload
    if length < 1 << 16:
        return struct.pack(">BBH", opcode, 126, length) + payload
    return struct.pack(">BBQ", opcode, 127, length) + payload


def asked(peer: Peer) -> bytes:
    """The request of the handshake."""
    return peer.read_until(b"\r\n\r\n")


def upgraded(*frames: bytes) -> Step:
    """Answer the request as a WebSocket server does, with these frames in the same packet."""

    def step(peer: Peer) -> None:
        lines = asked(peer).split(b"\r\n")
        key = next(line for line in lines if line.lower().startswith(b"sec-websocket-key:"))
        accepted = base64.b64encode(hashlib.sha1(key.partition(b":")[2].strip() + _GUID).digest())
        peer.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: v12.stomp\r\nSec-WebSocket-Accept: %b\r\n\r\n%b"
            % (accepted, b"".join(frames))
        )

    return step
