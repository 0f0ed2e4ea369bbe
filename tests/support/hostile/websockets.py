"""What a hostile broker may do over WebSocket, below STOMP."""

from __future__ import annotations

import base64
import hashlib
import struct

from support.hostile.broker import CONNECTED, Peer, Script
from support.hostile.case import BrokerCase

__all__ = ["WEBSOCKETS", "connects_at_once"]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_TEXT, _CONTINUED, _CLOSE, _PING, _FINAL = 0x1, 0x0, 0x8, 0x9, 0x80


def frame(opcode: int, payload: bytes = b"", announced: int | None = None) -> bytes:
    """One frame of RFC 6455, section 5.2, without a mask; ``announced``: another length than it has."""
    length = len(payload) if announced is None else announced
    if length < 126:
        return bytes([opcode, length]) + payload
    if length < 1 << 16:
        return struct.pack(">BBH", opcode, 126, length) + payload
    return struct.pack(">BBQ", opcode, 127, length) + payload


def upgraded(peer: Peer, *frames: bytes) -> None:
    """Answer the request as a WebSocket server does, with these frames in the same packet."""
    request = peer.read_until(b"\r\n\r\n")
    key = next(line for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
    accepted = base64.b64encode(hashlib.sha1(key.partition(b":")[2].strip() + _GUID).digest())
    peer.send(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Protocol: v12.stomp\r\nSec-WebSocket-Accept: %b\r\n\r\n%b"
        % (accepted, b"".join(frames))
    )


def floods(begin: bytes, piece: bytes) -> Script:
    def script(peer: Peer) -> None:
        upgraded(peer)
        peer.send(begin)
        peer.flood(piece)

    return script


def floods_instead(begin: bytes, piece: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.read_until(b"\r\n\r\n")
        peer.send(begin)
        peer.flood(piece)

    return script


def drips(peer: Peer) -> None:
    peer.read_until(b"\r\n\r\n")
    peer.drip(b"HTTP/1.1 101 Switching Protocols\r\n" + b"x: y\r\n" * 100)


def drips_a_frame(peer: Peer) -> None:
    upgraded(peer)
    peer.drip(frame(_TEXT | _FINAL, bytes(100), 1 << 20), every=0.02)
    peer.hold()


def fragments(peer: Peer) -> None:
    """CONNECTED in frames of one byte; then nothing."""
    upgraded(peer)
    peer.read_some()
    first, *rest = (CONNECTED[place : place + 1] for place in range(len(CONNECTED)))
    peer.send(frame(_TEXT, first) + b"".join(frame(_CONTINUED, one) for one in rest[:-1]))
    peer.send(frame(_CONTINUED | _FINAL, rest[-1]))
    peer.hold()


def connects_at_once(peer: Peer) -> None:
    """CONNECTED, and a ping, together with the answer to the handshake."""
    upgraded(peer, frame(_PING | _FINAL), frame(_TEXT | _FINAL, CONNECTED))
    peer.hold()


def case(name: str, script: Script, expect: str, timeout: str = "1s") -> BrokerCase:
    options = {"connectTimeout": timeout}
    return BrokerCase(
        f"WebSocket: {name}", script, expect, "connect", options, scheme="ws", deaf=True, within=1.5
    )


TIMEOUT = r"^\[STOMP_CONNECT_TIMEOUT\]"

WEBSOCKETS = (
    case(
        "pings without end, answers unread",
        floods(b"", frame(_PING | _FINAL, b"p" * 125)),
        r"^\[STOMP_CONNECT_FAILED\]",
        # Long enough that only the bound for answers ends it in time.
        timeout="20s",
    ),
    case("empty pings without end", floods(b"", frame(_PING | _FINAL)), r"^\[STOMP_CONNECT"),
    case("empty fragments without end", floods(frame(_TEXT), frame(_CONTINUED)), TIMEOUT),
    case("CONNECTED in fragments of one byte", fragments, "^goes on$"),
    case("CONNECTED together with the handshake", connects_at_once, "^goes on$"),
    case("a frame of 2^62 bytes", floods(frame(_TEXT | _FINAL, b"C", 1 << 62), b"x"), r"^\[STOMP_"),
    case("a frame within the limit that never ends", drips_a_frame, TIMEOUT),
    case("junk after the handshake", floods(b"", bytes(range(256))), r"^\[STOMP_"),
    case("the answer byte by byte", drips, TIMEOUT),
    case(
        "an answer with a header line without end",
        floods_instead(b"HTTP/1.1 101 x\r\nx: ", b"x"),
        r"^\[STOMP_NOT_A_STOMP",
    ),
    case(
        "an answer with headers without end",
        floods_instead(b"HTTP/1.1 101 x\r\n", b"x: y\r\n"),
        r"^\[STOMP_NOT_A_STOMP",
    ),
    case(
        "a refusal with a body without end",
        floods_instead(b"HTTP/1.1 503 x\r\nContent-Length: 1000000000000\r\n\r\n", b"x"),
        r"^\[STOMP_",
    ),
)
