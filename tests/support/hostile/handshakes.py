"""What a hostile broker may do before a subscription stands."""

from __future__ import annotations

import time

from support.hostile.broker import CONNECTED, Peer, Script, message, receipt
from support.hostile.case import BrokerCase

__all__ = ["HANDSHAKES"]

NOT_STOMP = r"^\[STOMP_NOT_A_STOMP_SERVER\]"
TIMEOUT = r"^\[STOMP_CONNECT_TIMEOUT\]"


def says(answer: bytes) -> Script:
    """One answer to CONNECT."""

    def script(peer: Peer) -> None:
        peer.connect(answer)
        peer.hold()

    return script


def drips(answer: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.wait_for("CONNECT")
        peer.drip(answer)

    return script


def floods(begin: bytes, piece: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.connect(begin)
        peer.flood(piece)
        peer.hold()

    return script


def closes_at_every_byte(peer: Peer) -> None:
    peer.connect(CONNECTED[: peer.number])


def drips_at_once(peer: Peer) -> None:
    """TLS or the answer to a WebSocket: nobody waits for what the client says."""
    while True:
        peer.drip(b"\x16\x03\x03\x40\x00" + bytes(200), every=0.02)


def is_silent(peer: Peer) -> None:
    peer.hold()


def beats_never(peer: Peer) -> None:
    peer.connect(CONNECTED.replace(b"0,0", b"100,0"))
    peer.confirm("SUBSCRIBE")
    peer.hold()


def connects_twice(peer: Peer) -> None:
    peer.subscribe()
    peer.send(CONNECTED)
    peer.hold()


def leaves_subscribe_unanswered(peer: Peer) -> None:
    peer.connect()
    peer.hold()


def floods_before_the_receipt(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SUBSCRIBE")
    number = 0
    while True:
        peer.send(b"".join(message(number + more, b"x" * 10_000) for more in range(100)))
        number += 100


def trickles_before_the_receipt(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SUBSCRIBE")
    while True:
        peer.send(b"\n")
        time.sleep(0.05)


def refused(name: str, answer: bytes, expect: str = NOT_STOMP) -> BrokerCase:
    return BrokerCase(name, says(answer), expect, "connect", within=1)


HANDSHAKES = (
    BrokerCase(
        "closes at every byte of CONNECTED",
        closes_at_every_byte,
        r"^\[STOMP_CONNECT_FAILED\]",
        "connect",
        messages=len(CONNECTED),
        within=5,
    ),
    BrokerCase("says nothing", is_silent, TIMEOUT, "connect", within=1),
    BrokerCase(
        "CONNECTED byte by byte", drips(b"CONNECTED\n" + b"name:value\n" * 90), TIMEOUT, "connect", within=1
    ),
    BrokerCase(
        "TLS handshake byte by byte",
        drips_at_once,
        TIMEOUT,
        "connect",
        scheme="stomp+ssl",
        deaf=True,
        within=1,
    ),
    BrokerCase(
        "TLS handshake never answered",
        is_silent,
        TIMEOUT,
        "connect",
        scheme="stomp+ssl",
        deaf=True,
        within=1,
    ),
    BrokerCase("CONNECTED: endless header line", floods(b"CONNECTED\nx:", b"x"), NOT_STOMP, "connect"),
    BrokerCase("CONNECTED: endless headers", floods(b"CONNECTED\n", b"a:b\n"), NOT_STOMP, "connect"),
    BrokerCase("CONNECTED: endless body", floods(b"CONNECTED\nversion:1.2\n\n", b"x"), NOT_STOMP, "connect"),
    BrokerCase("a command without an end", floods(b"", b"C"), NOT_STOMP, "connect"),
    refused("CONNECTED: body of 10^18 bytes", b"CONNECTED\nversion:1.2\ncontent-length:%d\n\n" % 10**18),
    refused("CONNECTED: body of -1 bytes", b"CONNECTED\nversion:1.2\ncontent-length:-1\n\n\0"),
    refused("CONNECTED: 900 versions", b"CONNECTED\n%b\n\0" % (b"version:1.2\n" * 900)),
    refused("CONNECTED: version 9.9", b"CONNECTED\nversion:9.9\n\n\0", r"^\[STOMP_VERSION"),
    refused(
        "CONNECTED: version 1.2 and control codes",
        b"CONNECTED\nversion:1.2\x1b[2J\x07\n\n\0",
        r"^\[STOMP_VERSION",
    ),
    refused("CONNECTED: heart-beat -1", b"CONNECTED\nversion:1.2\nheart-beat:-1,1\n\n\0"),
    refused(
        "CONNECTED: heart-beat of 10^4000 ms",
        b"CONNECTED\nversion:1.2\nheart-beat:1%b,1\n\n\0" % (b"0" * 4_000),
    ),
    refused("RECEIPT before CONNECTED", receipt("r-1")),
    refused("MESSAGE before CONNECTED", message(1)),
    refused("ERROR of 60 KB", b"ERROR\nmessage:%b\n\n%b\0" % (b"m" * 5_000, b"e" * 60_000), r"^\[STOMP_"),
    refused(
        "ERROR with control codes",
        b"ERROR\nmessage:\x1b[2J\x07\x00\n\n\r\nforged line\x1b]0;x\x07\0",
        r"^\[STOMP_",
    ),
    refused("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    refused("junk", bytes(range(256)) * 64),
    BrokerCase(
        "promises heart-beats and sends none",
        beats_never,
        "heart-beat",
        within=1.5,
        options={"heartbeat": "0,100ms"},
    ),
    BrokerCase("CONNECTED twice", connects_twice, r"^\[STOMP_"),
    BrokerCase(
        "SUBSCRIBE never answered", leaves_subscribe_unanswered, "did not confirm SUBSCRIBE", within=1.5
    ),
    BrokerCase(
        "SUBSCRIBE answered by messages without end",
        floods_before_the_receipt,
        "did not confirm SUBSCRIBE",
        messages=10**9,
        within=1.5,
        options={"maxBufferedBytes": "4m"},
    ),
    BrokerCase(
        "SUBSCRIBE answered by an EOL now and then",
        trickles_before_the_receipt,
        "did not confirm SUBSCRIBE",
        within=1.5,
    ),
)
