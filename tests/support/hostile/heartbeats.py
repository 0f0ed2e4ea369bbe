"""EOLs, one behind the other: each is a heart-beat, and none is progress."""

from __future__ import annotations

from support.hostile.broker import Peer, message
from support.hostile.case import BrokerCase

__all__ = ["HEARTBEATS"]

_WITHOUT_END = 1 << 50


def instead_of_connected(peer: Peer) -> None:
    peer.wait_for("CONNECT")
    peer.flood(b"\n", _WITHOUT_END)
    peer.hold()


def instead_of_the_subscription(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SUBSCRIBE")
    peer.flood(b"\n", _WITHOUT_END)
    peer.hold()


def instead_of_a_receipt(peer: Peer) -> None:
    peer.subscribe()
    peer.send(message(1))
    peer.wait_for("ACK")
    peer.flood(b"\n", _WITHOUT_END)
    peer.hold()


def before_a_message(peer: Peer) -> None:
    peer.subscribe()
    peer.send(b"\n" * (4 << 20) + message(1))
    peer.serve()


def instead_of_messages(peer: Peer) -> None:
    peer.subscribe()
    peer.flood(b"\n", _WITHOUT_END)
    peer.hold()


def instead_of_receipts(peer: Peer) -> None:
    peer.connect()
    peer.wait_for("SEND")
    peer.flood(b"\n", _WITHOUT_END)
    peer.hold()


HEARTBEATS = (
    BrokerCase(
        "EOLs instead of CONNECTED", instead_of_connected, r"^\[STOMP_CONNECT_TIMEOUT\]", "connect", within=1
    ),
    BrokerCase(
        "EOLs instead of the receipt of SUBSCRIBE",
        instead_of_the_subscription,
        "did not confirm SUBSCRIBE",
        within=1.5,
    ),
    BrokerCase(
        "EOLs instead of the receipt of ACKs", instead_of_a_receipt, "^goes on$|RECEIPT_TIMEOUT", within=3
    ),
    BrokerCase("4 MiB of EOLs, then a message", before_a_message, "^goes on$", within=1),
    BrokerCase("batch read: EOLs without end", instead_of_messages, "^goes on$", "browse", within=7),
    BrokerCase(
        "sink: EOLs instead of receipts",
        instead_of_receipts,
        r"^\[STOMP_RECEIPT_TIMEOUT\]",
        "send",
        messages=100,
        within=1,
    ),
)
