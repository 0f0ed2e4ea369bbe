"""Clients of the frame server that mean harm.

It runs in a process of its own. When the attack is over, it must serve the range that it held as before.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from spark_stomp.frameserver.wire import NAME
from support.hostile.case import SLACK, Result
from support.hostile.victim import Besieged, besiege

_MANY = 200


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


def holds(begin: bytes) -> Attack:
    """Many connections that say this and then nothing, while others want to be served."""

    def attack(victim: Besieged) -> str:
        with connected(victim.port, _MANY) as all_of_them:
            for one in all_of_them:
                one.sendall(begin)
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
    address = victim.address
    options = flight.FlightCallOptions(timeout=10, headers=[(b"authorization", b"Bearer wrong")])
    for _ in range(4):
        with (
            flight.connect(address.location) as client,
            pytest.raises(flight.FlightUnauthenticatedError, match="token"),
        ):
            client.do_get(flight.Ticket(bytes(64 << 20)), options).read_all()
    return "no token"


def asks_large_without_the_pair(victim: Besieged) -> str:
    address = victim.address
    options = flight.FlightCallOptions(timeout=10)
    known = {"tls_root_certs": address.pair.certificate, "override_hostname": NAME}
    with (
        flight.connect(address.location, **known) as client,
        pytest.raises((flight.FlightUnavailableError, pa.ArrowInvalid)),
    ):
        client.do_get(flight.Ticket(bytes(64 << 20)), options).read_all()
    return "no connection"


def drips(whole: bytes) -> Attack:
    """Twenty connections that say all but its last byte, one at a time."""

    def attack(victim: Besieged) -> str:
        with connected(victim.port, 20) as all_of_them:
            for place in range(len(whole) - 1):
                for one in all_of_them:
                    one.sendall(whole[place : place + 1])
            victim.serves()
        return "served meanwhile"

    return attack


@dataclass(frozen=True)
class ClientCase:
    """``attack`` on ``whom`` ("frame server" or "frame server with TLS"); ``expect``: what it sees."""

    name: str
    whom: str
    attack: Attack
    expect: str
    within: float = 3.0
    memory: int = 48

    @property
    def may_wait(self) -> bool:
        return False

    def run(self) -> Result:
        begun = time.monotonic()
        with besiege(self.whom) as victim:
            outcome = self.attack(victim)
            victim.serves()
            seconds = time.monotonic() - begun
            peak = victim.peak()
        faults = []
        if outcome != self.expect:
            faults.append(f"it saw: {outcome}")
        if seconds > self.within + SLACK:
            faults.append(f"it took {seconds:.1f} s instead of {self.within:g}")
        if peak > self.memory << 20:
            faults.append(f"its memory rose by {peak >> 20} MiB instead of {self.memory}")
        return Result(self.name, outcome, seconds, peak, faults)


PLAIN, TLS = "frame server", "frame server with TLS"

CLIENTS: tuple[ClientCase, ...] = (
    ClientCase("frame server: 200 half handshakes held open", PLAIN, holds(_HTTP2[:12]), "served meanwhile"),
    ClientCase("frame server: 200 connections that say nothing", PLAIN, holds(b""), "served meanwhile"),
    ClientCase("frame server: closes at every byte", PLAIN, cut_off(_HTTP2), "ignored"),
    ClientCase(
        "frame server: tickets of 64 MiB without a token",
        PLAIN,
        asks_large,
        "no token",
        within=10,
        memory=400,
    ),
    *(
        ClientCase(f"frame server with TLS: {name}", TLS, attack, expect, within=6)
        for name, attack, expect in (
            ("200 half ClientHellos held open", holds(_HELLO[: len(_HELLO) // 2]), "served meanwhile"),
            ("200 ClientHellos, answers unread", holds(_HELLO), "served meanwhile"),
            ("200 connections that say nothing", holds(b""), "served meanwhile"),
            ("ClientHello byte by byte", drips(_HELLO), "served meanwhile"),
            ("closes at every byte of ClientHello", cut_off(_HELLO), "ignored"),
            ("tickets of 64 MiB without the pair", asks_large_without_the_pair, "no connection"),
        )
    ),
)
