"""What a hostile broker may do to a receiver whose subscription stands, and to a batch read."""

from __future__ import annotations

import time
from itertools import count

from support.hostile.broker import CONNECTED, Peer, Script, message, receipt
from support.hostile.case import BrokerCase

__all__ = ["SESSIONS"]

PROTOCOL = r"^\[STOMP_(REMOTE_PROTOCOL|FRAME|RECONNECT)"
ERROR = b"ERROR\nmessage:%b\n\n%b\0"


def then(*pieces: bytes) -> Script:
    """A subscription, these bytes, and from then on a broker as it should be."""

    def script(peer: Peer) -> None:
        peer.subscribe()
        for piece in pieces:
            peer.send(piece)
        peer.serve()

    return script


def floods(begin: bytes, piece: bytes, most: int = 256 << 20) -> Script:
    def script(peer: Peer) -> None:
        peer.subscribe()
        peer.send(begin)
        peer.flood(piece, most)
        peer.hold()

    return script


def drips(data: bytes, every: float = 0.05) -> Script:
    def script(peer: Peer) -> None:
        peer.subscribe()
        while True:
            peer.drip(data, every)

    return script


def closes_within_the_receipt(peer: Peer) -> None:
    """Before it, within it and just before its end."""
    peer.connect()
    answer = receipt(peer.wait_for("SUBSCRIBE").get("receipt") or "")
    peer.send(answer[: (0, 10, -1, len(answer))[min(peer.number, 3)]])
    if peer.number >= 3:
        peer.send(message(1))
        peer.serve()


def sends_foreign_messages(peer: Peer) -> None:
    peer.subscribe()
    peer.flood(message(7, b"x" * 1_000, subscription="foreign"), 20 << 20)
    peer.send(message(1))
    peer.serve()


def sends_beyond_the_prefetch(peer: Peer) -> None:
    peer.subscribe()
    for first in range(0, 3_000, 100):
        peer.send(b"".join(message(number, b"x" * 10_000) for number in range(first, first + 100)))
    peer.serve()


def sends_one_message_often(peer: Peer) -> None:
    peer.subscribe()
    peer.send(b"".join(message(1, ack=f"a1.{again}") for again in range(1_000)))
    peer.send(message(2))
    peer.serve()


def uses_one_handle_for_all(peer: Peer) -> None:
    peer.subscribe()
    peer.send(message(1, ack="a1") + message(2, ack="a1"))
    peer.serve()


def forges_the_receipt_of_acks(peer: Peer) -> None:
    """The ids of receipts can be guessed: the next one is sent before any ACK was asked for."""
    peer.subscribe()
    peer.send(receipt("r-2") + receipt("r-3") + message(1))
    peer.hold()


def never_confirms_acks(peer: Peer) -> None:
    peer.subscribe()
    peer.send(message(1))
    peer.hold()


def refuses_what_was_not_asked(peer: Peer) -> None:
    peer.subscribe()
    peer.send(b"ERROR\nreceipt-id:r-77\nmessage:no\n\n%b\0" % (b"\x1b[2J\r\nforged" * 6_000))
    peer.flood(ERROR % (b"more", b"x"), 1 << 20)
    peer.hold()


def says_goodbye_early(peer: Peer) -> None:
    """Every frame is confirmed twice."""
    peer.connect()
    asked = peer.wait_for("SUBSCRIBE").get("receipt") or ""
    peer.send(receipt(asked) * 2)
    peer.hold()


def sends_without_end(peer: Peer) -> None:
    peer.subscribe()
    for number in count():
        peer.send(message(number, b"x" * 10_000))


def drips_a_body(size: int) -> Script:
    def script(peer: Peer) -> None:
        peer.subscribe()
        peer.drip(message(1, b"x" * size, content_length=size), every=0.02)
        peer.serve()

    return script


def hears_nothing(peer: Peer) -> None:
    """The client's frames stay in the socket; what it wants to hear is guessed."""
    time.sleep(0.1)
    peer.send(CONNECTED)
    time.sleep(0.1)
    peer.send(receipt("r-1"))
    for first in range(0, 200_000, 1_000):
        peer.send(b"".join(message(number, b"") for number in range(first, first + 1_000)))
    peer.hold()


LIMITS = {"maxFrameBytes": "1m", "maxHeaderLineBytes": "64k"}
ROWS = {"onMalformed": "column"}

SESSIONS = (
    BrokerCase(
        "closes within a RECEIPT",
        closes_within_the_receipt,
        "^goes on$",
        options={"reconnectTimeout": "60s", "connectTimeout": "30s"},
        within=3,
    ),
    BrokerCase("receipts that nobody asked for", floods(b"", receipt("r-9")), PROTOCOL, within=1),
    BrokerCase("receipts of ACKs that were not sent", forges_the_receipt_of_acks, PROTOCOL, within=1),
    BrokerCase("every receipt twice", says_goodbye_early, PROTOCOL, within=1),
    BrokerCase("ACKs are never confirmed", never_confirms_acks, "^goes on$|RECEIPT_TIMEOUT", within=3),
    BrokerCase("20 MB for another subscription", sends_foreign_messages, "^goes on$", within=3),
    BrokerCase(
        "30 MB beyond the prefetch",
        sends_beyond_the_prefetch,
        "^goes on$",
        messages=3_000,
        within=5,
        options={"prefetch": "10", "maxBufferedBytes": "4m"},
    ),
    BrokerCase("one message a thousand times", sends_one_message_often, "^goes on$", messages=2, within=2),
    BrokerCase("one handle for two messages", uses_one_handle_for_all, "^goes on$", messages=2, within=2),
    BrokerCase(
        "a message without a handle",
        then(message(1).replace(b"ack:", b"a:").replace(b"message-id:", b"m:")),
        PROTOCOL,
        within=1,
    ),
    BrokerCase("CONNECTED once more, then messages", then(CONNECTED, message(1)), PROTOCOL, within=1),
    BrokerCase(
        "a command that no broker may send", then(b"SEND\ndestination:/queue/a\n\nx\0"), PROTOCOL, within=1
    ),
    BrokerCase("ERROR of 60 KB for a receipt of nobody", refuses_what_was_not_asked, r"^\[STOMP_", within=1),
    BrokerCase(
        "MESSAGE: body of 10^12 bytes", then(message(1, content_length=10**12)), r"^\[STOMP_", within=1
    ),
    BrokerCase("MESSAGE: body of -1 bytes", then(message(1, content_length=-1)), r"^\[STOMP_", within=1),
    BrokerCase(
        "MESSAGE: header line without end",
        floods(b"MESSAGE\nx:", b"x"),
        r"^\[STOMP_",
        options=LIMITS,
        within=1,
    ),
    BrokerCase(
        "MESSAGE: headers without end", floods(b"MESSAGE\n", b"a:b\n"), r"^\[STOMP_", options=LIMITS, within=1
    ),
    BrokerCase(
        "MESSAGE: body without end", floods(b"MESSAGE\na:b\n\n", b"x"), r"^\[STOMP_", options=LIMITS, within=1
    ),
    BrokerCase(
        "MESSAGE: header line without end, as a row",
        floods(b"MESSAGE\nx:", b"x"),
        r"^\[STOMP_",
        options=LIMITS | ROWS,
        within=1,
    ),
    BrokerCase(
        "MESSAGE: 900 repeats of each header",
        then(
            message(1).replace(
                b"\n\n", b"\nmessage-id:m9" * 300 + b"\nack:a9" * 300 + b"\nsubscription:9" * 300 + b"\n\n"
            )
        ),
        "^goes on$",
        within=2,
    ),
    BrokerCase(
        "MESSAGE: control codes in headers and body",
        then(message(1, b"\x1b[2J\x07\r\n", priority="\x1b]0;x\x07\x7f")),
        "^goes on$",
        within=2,
    ),
    BrokerCase(
        "10,000 malformed messages, refused",
        floods(b"", message(1, content_length=-1), 1 << 20),
        r"^\[STOMP_",
        within=2,
    ),
    BrokerCase("a MESSAGE byte by byte", drips_a_body(20), "^goes on$", within=4),
    BrokerCase(
        "batch read: messages without end",
        sends_without_end,
        r"^\[STOMP_TOO_MANY_MESSAGES\]",
        "browse",
        within=6,
    ),
    BrokerCase("batch read: a MESSAGE byte by byte", drips_a_body(10_000), "^goes on$", "browse", within=6),
    BrokerCase(
        "batch read: malformed messages",
        floods(b"", message(1, content_length=-1), 1 << 20),
        r"^\[STOMP_",
        "browse",
        within=2,
    ),
    BrokerCase(
        "reads no ACK",
        hears_nothing,
        "^goes on$|RECEIPT_TIMEOUT",
        messages=200_000,
        deaf=True,
        within=8,
        memory=200,
        options={"prefetch": "1000000"},
    ),
)
