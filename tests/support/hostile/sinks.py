"""What a hostile broker may do to a task that sends."""

from __future__ import annotations

import time

from support.hostile.broker import CONNECTED, Peer, message, receipt
from support.hostile.case import BrokerCase

__all__ = ["SINKS"]


def confirms_nothing(peer: Peer) -> None:
    peer.connect()
    peer.hold()


def sends_messages_and_confirms_nothing(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SEND")
    while True:
        peer.send(message(1, b"x" * 10_000))


def confirms_what_was_not_sent(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SEND")
    peer.send(b"".join(receipt(f"r-{number}") for number in range(10_000, 20_000)))
    peer.hold()


def confirms_twice(peer: Peer) -> None:
    peer.connect()
    peer.send(receipt(peer.wait_for("SEND").get("receipt") or "") * 2)
    peer.hold()


def confirms_without_an_id(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SEND")
    peer.send(b"RECEIPT\n\n\0")
    peer.hold()


def refuses_with_a_flood(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SEND")
    peer.send(b"ERROR\nreceipt-id:%b\nmessage:\x1b[2J\n\n%b\0" % (b"r" * 5_000, b"\r\nforged" * 7_000))
    peer.flood(b"ERROR\nmessage:again\n\n\0", 1 << 20)
    peer.hold()


def refuses_at_great_length(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SEND")
    peer.send(b"ERROR\nmessage:no\n\n")
    peer.flood(b"x", 120 << 20)
    peer.send(b"\0")
    peer.hold()


def announces_a_long_refusal(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SEND")
    peer.send(b"ERROR\nmessage:no\ncontent-length:%d\n\n" % (120 << 20))
    peer.flood(b"x", 120 << 20)
    peer.send(b"\0")
    peer.hold()


def closes_after_the_first(peer: Peer) -> None:
    """On every connection, so each brings one message forward."""
    peer.connect()
    peer.confirm("SEND")


def reads_nothing(peer: Peer) -> None:
    time.sleep(0.1)
    peer.send(CONNECTED)
    peer.hold()


def drips_a_receipt(peer: Peer) -> None:
    peer.connect()
    peer.drip(receipt(peer.wait_for("SEND").get("receipt") or "") + b"\n" * 600, every=0.1)


def never_confirms_the_end(peer: Peer) -> None:
    peer.connect()
    for number in range(1, 101):
        peer.confirm("SEND", number)
    peer.hold()


TIMEOUT = r"^\[STOMP_RECEIPT_TIMEOUT\]"

SINKS = (
    BrokerCase("sink: confirms nothing", confirms_nothing, TIMEOUT, "send", messages=100, within=1),
    BrokerCase(
        "sink: messages instead of receipts",
        sends_messages_and_confirms_nothing,
        TIMEOUT,
        "send",
        messages=100,
        within=1,
    ),
    BrokerCase(
        "sink: receipts of what was not sent",
        confirms_what_was_not_sent,
        "^.STOMP_REMOTE_PROTOCOL",
        "send",
        messages=100,
        within=1,
    ),
    BrokerCase(
        "sink: a receipt twice", confirms_twice, "^.STOMP_REMOTE_PROTOCOL", "send", messages=100, within=1
    ),
    BrokerCase(
        "sink: a receipt without an id",
        confirms_without_an_id,
        "^.STOMP_REMOTE_PROTOCOL",
        "send",
        messages=100,
        within=1,
    ),
    BrokerCase(
        "sink: ERROR of 60 KB, and again",
        refuses_with_a_flood,
        r"^\[STOMP_BROKER_ERROR\]",
        "send",
        messages=100,
        within=1,
    ),
    BrokerCase(
        "sink: ERROR of 120 MB",
        refuses_at_great_length,
        r"^\[STOMP_BODY_TOO_LARGE\].*1048576",
        "send",
        messages=100,
        within=1,
    ),
    BrokerCase(
        "sink: ERROR of 120 MB, announced",
        announces_a_long_refusal,
        r"^\[STOMP_BODY_TOO_LARGE\].*1048576",
        "send",
        messages=100,
        within=1,
    ),
    BrokerCase(
        "sink: closes after the first receipt",
        closes_after_the_first,
        "^goes on$",
        "send",
        messages=3,
        within=3,
    ),
    BrokerCase(
        "sink: reads nothing",
        reads_nothing,
        TIMEOUT,
        "send",
        messages=20_000,
        deaf=True,
        within=2,
        options={"receiptWindow": "1000"},
    ),
    BrokerCase(
        "sink: one receipt, then EOLs, byte by byte", drips_a_receipt, TIMEOUT, "send", messages=2, within=4
    ),
    BrokerCase(
        "sink: never confirms DISCONNECT", never_confirms_the_end, "^goes on$", "send", messages=100, within=6
    ),
)
