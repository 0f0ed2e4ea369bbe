"""Clients of the frame server that mean harm.

It runs in its own process. When the attack is over, it must serve the range that it held as before.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hostile.case import Result, excesses
from hostile.victim import Besieged, besiege
from spark_stomp.frameserver.wire import NAME


def client_hello() -> bytes:
    """What a client of TLS says first."""
    said = ssl.MemoryBIO()
    handshake = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname=NAME)
    with contextlib.suppress(ssl.SSLWantReadError):
        handshake.do_handshake()
    return said.read()


_HELLO = client_hello()
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Attack = Callable[[Besieged], str]


@contextmanager
def connected(port: int, count: int = 1) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        made = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(count)]
        yield [stack.enter_context(one) for one in made]


def says(count: int, *pieces: bytes) -> Attack:
    """``count`` connections that say these pieces and then nothing, while others want to be served."""

    def attack(victim: Besieged) -> str:
        with connected(victim.port, count) as all_of_them:
            for piece in pieces:
                for one in all_of_them:
                    one.sendall(piece)
            victim.serves()
        return "served meanwhile"

    return attack


def cut_off(whole: bytes) -> Attack:
    """Connections that end at every byte."""

    def attack(victim: Besieged) -> str:
        for length in range(len(whole)):
            with connected(victim.port) as (one,):
                one.sendall(whole[:length])
        return "ignored"

    return attack


def asks_large(victim: Besieged) -> str:
    """Without a token, four times 64 MiB."""
    for _ in range(4):
        with connected(victim.port) as (one,), contextlib.suppress(ConnectionError):
            one.sendall(bytes(64 << 20))
            return "taken"
    return "not taken"


def asks_large_without_the_key_pair(victim: Besieged) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=victim.address.key_pair.certificate.decode())
    with (
        connected(victim.port) as (one,),
        contextlib.suppress(OSError),
        context.wrap_socket(one, server_hostname=NAME) as secured,
    ):
        secured.sendall(bytes(64 << 20))
        return "taken"
    return "not taken"


@dataclass(frozen=True)
class ClientCase:
    """``attack`` on ``server`` ("frame server" or "frame server with TLS"); ``expect``: what it sees."""

    name: str
    server: str
    attack: Attack
    expect: str
    within: float = 3.0
    memory: int = 48

    @property
    def may_wait(self) -> bool:
        return False

    def run(self) -> Result:
        begun = time.monotonic()
        with besiege(self.server) as victim:
            outcome = self.attack(victim)
            victim.serves()
            seconds = time.monotonic() - begun
            peak = victim.peak()
        faults = [f"it saw: {outcome}"] if outcome != self.expect else []
        faults += excesses(self, seconds, peak)
        return Result(self.name, outcome, seconds, peak, faults)


PLAIN, TLS = "frame server", "frame server with TLS"
SERVED, BYTE_BY_BYTE = "served meanwhile", [bytes([byte]) for byte in _HELLO[:-1]]
# fmt: off
CLIENTS: tuple[ClientCase, ...] = (
    ClientCase("frame server: 200 half handshakes held open", PLAIN, says(200, _HTTP2[:12]), SERVED),
    ClientCase("frame server: 200 connections that say nothing", PLAIN, says(200), SERVED),
    ClientCase("frame server: closes at every byte", PLAIN, cut_off(_HTTP2), "ignored"),
    ClientCase("frame server: tickets of 64 MiB without a token", PLAIN, asks_large, "not taken"),
    ClientCase("frame server with TLS: 200 half ClientHellos held open", TLS,
        says(200, _HELLO[: len(_HELLO) // 2]), SERVED, 6),
    ClientCase("frame server with TLS: 200 ClientHellos, answers unread", TLS, says(200, _HELLO), SERVED, 6),
    ClientCase("frame server with TLS: 200 connections that say nothing", TLS, says(200), SERVED, 6),
    ClientCase("frame server with TLS: ClientHello byte by byte", TLS, says(20, *BYTE_BY_BYTE), SERVED, 6),
    ClientCase("frame server with TLS: closes at every byte of ClientHello", TLS,
        cut_off(_HELLO), "ignored", 6),
    ClientCase("frame server with TLS: tickets of 64 MiB without the key pair", TLS,
        asks_large_without_the_key_pair, "not taken", 6),
)
# fmt: on
