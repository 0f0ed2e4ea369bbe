"""Clients of the exchange that mean harm.

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

from spark_stomp.exchange.wire import NAME, new_pair
from support.hostile.case import SLACK, Result
from support.hostile.victim import Besieged, besiege

__all__ = ["CLIENTS", "ClientCase"]

_MANY = 200


def client_hello() -> bytes:
    """What a client of TLS says first."""
    said = ssl.MemoryBIO()
    handshake = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname=NAME)
    with contextlib.suppress(ssl.SSLWantReadError):
        handshake.do_handshake()
    return said.read()


_HTTP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
_HELLO = client_hello()
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Attack = Callable[[Besieged], str]


@contextmanager
def connected(port: int, count: int = 1) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        made = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(count)]
        yield [stack.enter_context(one) for one in made]


def sends(data: bytes, times: int = 1) -> Attack:
    """``data`` over and over on one connection, until that is closed."""

    def attack(victim: Besieged) -> str:
        with connected(victim.port) as (one,):
            one.settimeout(1)
            try:
                for _ in range(times):
                    one.sendall(data)
                while one.recv(1 << 16):
                    pass
            except TimeoutError:
                return "ignored"
            except ConnectionError:
                return "closed"
        return "closed"

    return attack


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


# --- the exchange


def asks(ticket: bytes, token: str | None = None) -> Attack:
    """A Flight client; ``token``: None for the right one."""

    def attack(victim: Besieged) -> str:
        address = victim.address
        assert address is not None
        bearer = f"Bearer {address.token if token is None else token}".encode()
        options = flight.FlightCallOptions(timeout=10, headers=[(b"authorization", bearer)])
        with flight.connect(address.location) as client:
            try:
                client.do_get(flight.Ticket(ticket), options).read_all()
            except (flight.FlightError, OSError) as error:
                text = str(error)
                assert "Traceback" not in text, text
                return "no token" if "token" in text else "refused"
        return "got something"

    return attack


def asks_large(victim: Besieged) -> str:
    """Without a token, four times 64 MiB."""
    return {asks(bytes(64 << 20), "wrong")(victim) for _ in range(4)}.pop()


def foreign_epoch(victim: Besieged) -> str:
    return asks(victim.ticket.replace(victim.ticket.split(b" ")[0].strip(b'[",'), b"0" * 16))(victim)


_DEEP = b"[" * 100_000 + b"]" * 100_000
_ODD = (
    b"",
    b"\xff" * 100,
    _DEEP,
    b'["e", Infinity, 1e400]',
    b'["e", %b, 0]' % (b"9" * 5_000),
    b"[{}, [], null]",
)


def odd_tickets(victim: Besieged) -> str:
    return ", ".join(sorted({asks(ticket)(victim) for ticket in _ODD}))


def without_the_pair(ticket: bytes) -> Attack:
    """Flight clients with the token: one that shows no certificate, and one with a pair of its own."""

    def attack(victim: Besieged) -> str:
        address = victim.address
        assert address is not None
        assert address.pair is not None
        options = flight.FlightCallOptions(
            timeout=10, headers=[(b"authorization", f"Bearer {address.token}".encode())]
        )
        known = {"tls_root_certs": address.pair.certificate, "override_hostname": NAME}
        foreign = new_pair()
        for own in ({}, {"cert_chain": foreign.certificate, "private_key": foreign.key}):
            try:
                with flight.connect(address.location, **known, **own) as client:
                    client.do_get(flight.Ticket(ticket), options).read_all()
            except (flight.FlightUnavailableError, pa.ArrowInvalid):
                continue
            return "got something"
        return "no connection"

    return attack


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
    """``attack`` on ``whom`` ("exchange" or "exchange with TLS"); ``expect``: what it sees."""

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


CLIENTS: tuple[ClientCase, ...] = (
    ClientCase("exchange: junk", "exchange", sends(bytes(range(256)) * 256, 500), "closed"),
    ClientCase("exchange: HTTP", "exchange", sends(_HTTP), "closed"),
    ClientCase("exchange: 200 half handshakes held open", "exchange", holds(_HTTP2[:12]), "served meanwhile"),
    ClientCase("exchange: 200 connections that say nothing", "exchange", holds(b""), "served meanwhile"),
    ClientCase("exchange: closes at every byte", "exchange", cut_off(_HTTP2), "ignored"),
    ClientCase("exchange: no token", "exchange", asks(b"", ""), "no token"),
    ClientCase("exchange: a wrong token", "exchange", asks(b"", "0" * 43), "no token"),
    ClientCase("exchange: the token, odd tickets", "exchange", odd_tickets, "refused"),
    ClientCase("exchange: the token, another epoch", "exchange", foreign_epoch, "refused"),
    ClientCase(
        "exchange: tickets of 64 MiB without a token",
        "exchange",
        asks_large,
        "no token",
        within=10,
        memory=400,
    ),
    *(
        ClientCase(f"exchange with TLS: {name}", "exchange with TLS", attack, expect, within)
        for name, attack, expect, within in (
            ("junk", sends(bytes(range(256)) * 256, 500), "closed", 3),
            ("HTTP", sends(_HTTP), "closed", 3),
            ("200 half ClientHellos held open", holds(_HELLO[: len(_HELLO) // 2]), "served meanwhile", 3),
            ("200 ClientHellos, answers unread", holds(_HELLO), "served meanwhile", 3),
            ("200 connections that say nothing", holds(b""), "served meanwhile", 3),
            ("ClientHello byte by byte", drips(_HELLO), "served meanwhile", 3),
            ("closes at every byte of ClientHello", cut_off(_HELLO), "ignored", 3),
            ("the token, but not the pair", without_the_pair(b"0" * 16 + b" 0 3"), "no connection", 3),
            ("tickets of 64 MiB without the pair", without_the_pair(bytes(64 << 20)), "no connection", 6),
        )
    ),
)
