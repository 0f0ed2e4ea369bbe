"""What a hostile broker may do: to who connects, to a receiver, to a batch read and to a sink."""

from __future__ import annotations

from itertools import count
from typing import Any

from hostile.broker import (
    CONNECTED,
    WITHOUT_END,
    Peer,
    Step,
    drips,
    floods,
    message,
    pause,
    plays,
    receipt,
    waits,
)
from hostile.case import BrokerCase
from hostile.websockets import CONTINUED, FINAL, PING, TEXT, asked, frame, upgraded

NOT_STOMP = r"^\[STOMP_NOT_A_STOMP_SERVER\]"
TIMEOUT = r"^\[STOMP_CONNECT_TIMEOUT\]"
UNCONFIRMED = "did not confirm SUBSCRIBE"
ANY = r"^\[STOMP_"
PROTOCOL = r"^\[STOMP_(REMOTE_PROTOCOL|FRAME|RECONNECT)"
NO_RECEIPT = r"^\[STOMP_RECEIPT_TIMEOUT\]"
GOES_ON = "^goes on$"
LIMITS = {"maxFrameBytes": "1m", "maxHeaderLineBytes": "64k"}


def connecting(name: str, expect: str, *steps: Step, within: float = 1, **more: Any) -> BrokerCase:
    return BrokerCase(name, plays(*steps, Peer.hold), expect, "connect", within=within, **more)


def answered(name: str, answer: bytes, expect: str = NOT_STOMP) -> BrokerCase:
    """One answer to CONNECT."""
    return connecting(name, expect, waits("CONNECT"), answer)


def endless(name: str, begin: bytes, piece: bytes) -> BrokerCase:
    """To CONNECT, ``begin`` and then ``piece`` without end."""
    return connecting(name, NOT_STOMP, waits("CONNECT"), begin, floods(piece))


def tls(name: str, *steps: Step) -> BrokerCase:
    """Nobody waits for what the client says."""
    return connecting(name, TIMEOUT, *steps, scheme="stomp+ssl", deaf=True)


def websocket(name: str, expect: str, *steps: Step, timeout: str = "1s") -> BrokerCase:
    options = {"connectTimeout": timeout}
    more: dict[str, Any] = {"options": options, "scheme": "ws", "deaf": True, "within": 1.5}
    return connecting(f"WebSocket: {name}", expect, *steps, **more)


def subscribing(name: str, *steps: Step, **more: Any) -> BrokerCase:
    """Instead of the receipt of SUBSCRIBE."""
    script = plays(Peer.connect, waits("SUBSCRIBE"), *steps, Peer.hold)
    return BrokerCase(name, script, UNCONFIRMED, within=1.5, **more)


def receiving(name: str, expect: str, *steps: Step, within: float = 1, **more: Any) -> BrokerCase:
    """From the subscription on; in the end it is a broker as it should be."""
    return BrokerCase(name, plays(Peer.subscribe, *steps, Peer.serve), expect, within=within, **more)


def browsing(name: str, expect: str, *steps: Step, within: float) -> BrokerCase:
    return receiving(f"batch read: {name}", expect, *steps, role="browse", within=within)


def sending(name: str, expect: str, *steps: Step, within: float = 1, messages: int = 100) -> BrokerCase:
    """From the first SEND on."""
    script = plays(Peer.connect, waits("SEND"), *steps, Peer.hold)
    return BrokerCase(f"sink: {name}", script, expect, "send", messages=messages, within=within)


def ends_at_every_byte(peer: Peer) -> None:
    peer.connect(CONNECTED[: peer.number])


def ends_within_the_receipt(peer: Peer) -> None:
    """Before it, within it and just before its end."""
    peer.connect()
    answer = receipt(peer.wait_for("SUBSCRIBE").get("receipt") or "")
    peer.send(answer[: (0, 10, -1, len(answer))[min(peer.number, 3)]])
    if peer.number >= 3:
        peer.send(message(1))
        peer.serve()


def sends_messages(peer: Peer) -> None:
    for number in count():
        peer.send(message(number, b"x" * 10_000))


def sends_two_hundred_thousand(peer: Peer) -> None:
    """Messages, a thousand at once."""
    for first in range(0, 200_000, 1_000):
        peer.send(b"".join(message(number, b"") for number in range(first, first + 1_000)))


def confirms_twice(peer: Peer) -> None:
    peer.send(receipt(peer.wait_for("SEND").get("receipt") or "") * 2)


def drips_a_receipt(peer: Peer) -> None:
    peer.drip(receipt(peer.wait_for("SEND").get("receipt") or "") + b"\n" * 600, every=0.1)


def confirms_all_but_the_end(peer: Peer) -> None:
    for number in range(1, 101):
        peer.confirm("SEND", number)


# The ids of receipts can be guessed: the next ones are sent before any ACK was asked for.
FORGED = receipt("r-2") + receipt("r-3") + message(1)
HEADERS_REPEATED = message(1).replace(
    b"\n\n", b"\nmessage-id:m9" * 300 + b"\nack:a9" * 300 + b"\nsubscription:9" * 300 + b"\n\n"
)
WITHOUT_A_HANDLE = message(1).replace(b"ack:", b"a:").replace(b"message-id:", b"m:")
ERROR_OF_NOBODY = b"ERROR\nreceipt-id:r-77\nmessage:no\n\n%b\0" % (b"\x1b[2J\r\nforged" * 6_000)
LONG_REFUSAL = b"ERROR\nreceipt-id:%b\nmessage:\x1b[2J\n\n%b\0" % (b"r" * 5_000, b"\r\nforged" * 7_000)
CONTROL_CODES = b"ERROR\nmessage:\x1b[2J\x07\x00\n\n\r\nforged line\x1b]0;x\x07\0"
IN_FRAGMENTS = [
    frame(CONTINUED if place else TEXT, CONNECTED[place : place + 1]) for place in range(len(CONNECTED) - 1)
]

# fmt: off
SCRIPTS = (
    BrokerCase("closes at every byte of CONNECTED", ends_at_every_byte, r"^\[STOMP_CONNECT_FAILED\]",
        "connect", messages=len(CONNECTED), within=5),
    connecting("CONNECTED byte by byte", TIMEOUT, waits("CONNECT"),
        drips(b"CONNECTED\n" + b"name:value\n" * 90)),
    tls("TLS handshake byte by byte", drips(b"\x16\x03\x03\x40\x00" + bytes(2_000), every=0.02)),
    tls("TLS handshake never answered"),
    endless("CONNECTED: endless header line", b"CONNECTED\nx:", b"x"),
    endless("CONNECTED: endless headers", b"CONNECTED\n", b"a:b\n"),
    endless("CONNECTED: endless body", b"CONNECTED\nversion:1.2\n\n", b"x"),
    endless("a command without an end", b"", b"C"),
    answered("CONNECTED: body of 10^18 bytes", b"CONNECTED\nversion:1.2\ncontent-length:%d\n\n" % 10**18),
    answered("CONNECTED: 900 versions", b"CONNECTED\n%b\n\0" % (b"version:1.2\n" * 900)),
    answered("CONNECTED: heart-beat of 10^4000 ms",
        b"CONNECTED\nversion:1.2\nheart-beat:1%b,1\n\n\0" % (b"0" * 4_000)),
    answered("ERROR of 60 KB", b"ERROR\nmessage:%b\n\n%b\0" % (b"m" * 5_000, b"e" * 60_000), ANY),
    answered("ERROR with control codes", CONTROL_CODES, ANY),
    subscribing("SUBSCRIBE answered by messages without end", sends_messages, messages=10**9,
        options={"maxBufferedBytes": "4m"}),
    subscribing("SUBSCRIBE answered by an EOL now and then", drips(b"\n" * 2_000)),
    # Each EOL is a heart-beat, and none is progress.
    connecting("EOLs instead of CONNECTED", TIMEOUT, waits("CONNECT"), floods(b"\n", WITHOUT_END)),
    subscribing("EOLs instead of the receipt of SUBSCRIBE", floods(b"\n", WITHOUT_END)),
    receiving("EOLs instead of the receipt of ACKs", "^goes on$|RECEIPT_TIMEOUT", message(1), waits("ACK"),
        floods(b"\n", WITHOUT_END), within=3),
    receiving("4 MiB of EOLs, then a message", GOES_ON, b"\n" * (4 << 20) + message(1)),
    browsing("EOLs without end", GOES_ON, floods(b"\n", WITHOUT_END), within=7),
    sending("EOLs instead of receipts", NO_RECEIPT, floods(b"\n", WITHOUT_END)),
    BrokerCase("closes within a RECEIPT", ends_within_the_receipt, GOES_ON,
        options={"reconnectTimeout": "60s", "connectTimeout": "30s"}, within=3),
    receiving("receipts that nobody asked for", PROTOCOL, floods(receipt("r-9"))),
    receiving("receipts of ACKs that were not sent", PROTOCOL, FORGED, Peer.hold),
    receiving("20 MB for another subscription", GOES_ON,
        floods(message(7, b"x" * 1_000, subscription="foreign"), 20 << 20), message(1), within=3),
    receiving("30 MB beyond the prefetch", GOES_ON,
        *(message(number, b"x" * 10_000) for number in range(3_000)),
        messages=3_000, within=5, options={"prefetch": "10", "maxBufferedBytes": "4m"}),
    receiving("one message a thousand times", GOES_ON,
        b"".join(message(1, ack=f"a1.{again}") for again in range(1_000)) + message(2), messages=2, within=2),
    receiving("one handle for two messages", GOES_ON, message(1, ack="a1") + message(2, ack="a1"), messages=2,
        within=2),
    receiving("a message without a handle", PROTOCOL, WITHOUT_A_HANDLE),
    receiving("ERROR of 60 KB for a receipt of nobody", ANY, ERROR_OF_NOBODY,
        floods(b"ERROR\nmessage:more\n\nx\0", 1 << 20)),
    receiving("MESSAGE: body of 10^12 bytes", ANY, message(1, content_length=10**12)),
    receiving("MESSAGE: header line without end", ANY, b"MESSAGE\nx:", floods(b"x"), options=LIMITS),
    receiving("MESSAGE: headers without end", ANY, b"MESSAGE\n", floods(b"a:b\n"), options=LIMITS),
    receiving("MESSAGE: body without end", ANY, b"MESSAGE\na:b\n\n", floods(b"x"), options=LIMITS),
    receiving("MESSAGE: header line without end, as a row", ANY, b"MESSAGE\nx:", floods(b"x"),
        options={**LIMITS, "onMalformed": "column"}),
    receiving("MESSAGE: 900 repeats of each header", GOES_ON, HEADERS_REPEATED, within=2),
    receiving("MESSAGE: control codes in headers and body", GOES_ON,
        message(1, b"\x1b[2J\x07\r\n", priority="\x1b]0;x\x07\x7f"), within=2),
    receiving("a MESSAGE byte by byte", GOES_ON, drips(message(1, b"x" * 20, content_length=20), every=0.02),
        within=4),
    browsing("messages without end", r"^\[STOMP_TOO_MANY_MESSAGES\]", sends_messages, within=6),
    browsing("a MESSAGE byte by byte", GOES_ON,
        drips(message(1, b"x" * 10_000, content_length=10_000), every=0.02), within=6),
    BrokerCase("reads no ACK",
        # What the client wants to hear is guessed.
        plays(pause, CONNECTED, pause, receipt("r-1"), sends_two_hundred_thousand, Peer.hold),
        "^goes on$|RECEIPT_TIMEOUT", messages=200_000, deaf=True, within=8, memory=200,
        options={"prefetch": "1000000"}),
    sending("messages instead of receipts", NO_RECEIPT, sends_messages),
    sending("receipts of what was not sent", "^.STOMP_REMOTE_PROTOCOL",
        b"".join(receipt(f"r-{number}") for number in range(10_000, 20_000))),
    sending("a receipt twice", "^.STOMP_REMOTE_PROTOCOL", confirms_twice),
    sending("a receipt without an id", "^.STOMP_REMOTE_PROTOCOL", b"RECEIPT\n\n\0"),
    # Words that are not known refuse nothing, however often they come.
    BrokerCase("sink: ERROR of 60 KB, and again",
        plays(Peer.connect, waits("SEND"), LONG_REFUSAL, floods(b"ERROR\nmessage:again\n\n\0", 1 << 20)),
        r"^\[STOMP_CONNECTION_LOST\]", "send", messages=100, within=5,
        options={"reconnectTimeout": "1500ms"}),
    sending("ERROR of 120 MB", r"^\[STOMP_LIMIT_EXCEEDED\].*1048576",
        b"ERROR\nmessage:no\n\n", floods(b"x", 120 << 20), b"\0"),
    # On every connection, so each confirms one message.
    BrokerCase("sink: closes after the first receipt", plays(Peer.connect, lambda peer: peer.confirm("SEND")),
        GOES_ON, "send", messages=3, within=3),
    BrokerCase("sink: reads nothing", plays(pause, CONNECTED, Peer.hold), NO_RECEIPT, "send", messages=20_000,
        deaf=True, within=2, options={"receiptWindow": "1000"}),
    sending("one receipt, then EOLs, byte by byte", NO_RECEIPT, drips_a_receipt, messages=2, within=4),
    sending("never confirms DISCONNECT", GOES_ON, confirms_all_but_the_end, within=6),
    # Long enough that only the bound for answers ends it in time.
    websocket("pings without end, answers unread", r"^\[STOMP_CONNECT_FAILED\]", upgraded(),
        floods(frame(PING | FINAL, b"p" * 125)), timeout="20s"),
    websocket("empty pings without end", r"^\[STOMP_CONNECT", upgraded(), floods(frame(PING | FINAL))),
    websocket("empty fragments without end", TIMEOUT, upgraded(), frame(TEXT), floods(frame(CONTINUED))),
    websocket("CONNECTED in fragments of one byte", GOES_ON, upgraded(), Peer.read_some,
        b"".join(IN_FRAGMENTS) + frame(CONTINUED | FINAL, CONNECTED[-1:])),
    websocket("CONNECTED together with the handshake", GOES_ON,
        upgraded(frame(PING | FINAL), frame(TEXT | FINAL, CONNECTED))),
    websocket("a frame of 2^62 bytes", ANY, upgraded(), frame(TEXT | FINAL, b"C", 1 << 62), floods(b"x")),
    websocket("a frame within the limit that never ends", TIMEOUT, upgraded(),
        drips(frame(TEXT | FINAL, bytes(100), 1 << 20), every=0.02)),
    websocket("junk after the handshake", ANY, upgraded(), floods(bytes(range(256)))),
    websocket("the answer byte by byte", TIMEOUT, asked,
        drips(b"HTTP/1.1 101 Switching Protocols\r\n" + b"x: y\r\n" * 100)),
    websocket("an answer with a header line without end", NOT_STOMP, asked, b"HTTP/1.1 101 x\r\nx: ",
        floods(b"x")),
    websocket("an answer with headers without end", NOT_STOMP, asked, b"HTTP/1.1 101 x\r\n",
        floods(b"x: y\r\n")),
    websocket("a refusal with a body without end", ANY, asked,
        b"HTTP/1.1 503 x\r\nContent-Length: 1000000000000\r\n\r\n", floods(b"x")),
)
# fmt: on
