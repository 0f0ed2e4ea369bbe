"""Where the exchange listens, and whether that can be reached from another machine."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import time

from spark_stomp.exchange.master import master_is_local

_LOOPBACK = "127.0.0.1"
# An address for documentation only (RFC 5737): outside the machine, and no host has it.
_ELSEWHERE = ("192.0.2.1", 9)
# Seconds.
_LOOK = 0.1


def exchange_host(option: str | None) -> str:
    """The ``exchangeHost`` option, else ``SPARK_LOCAL_IP``, else loopback if the master is seen to be local,
    else the machine's own address, else loopback.

    This follows what Spark does for its own services: the tasks that reach the driver's block manager reach
    the exchange as well.
    """
    chosen = option or os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen
    if master_is_local():
        return _LOOPBACK
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        return _LOOPBACK
    # Debian gives a machine's name the address 127.0.1.1, which no other machine reaches.
    return _outward_address() if named.startswith("127.") else named


def _outward_address() -> str:
    """The source address of packets that leave this machine; loopback if none can leave."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket chooses its source address and sends nothing.
            probe.connect(_ELSEWHERE)
            address: str = probe.getsockname()[0]
    except OSError:
        return _LOOPBACK
    return address


def is_loopback(host: str) -> bool:
    """Whether ``host`` is surely this machine alone: a loopback address, or ``localhost`` (RFC 6761).

    Another name may stand for loopback here and for this machine's address elsewhere.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def await_free(host: str, port: int, timeout: float) -> None:
    """Return once a server could listen there, after ``timeout`` seconds at the latest.

    Raises OSError with the reason if it cannot, which gRPC does not tell. Port 0 stands for any free port.
    """
    family, kind, protocol, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    deadline = time.monotonic() + timeout
    while True:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # As gRPC does: connections of a server that has ended do not count.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(at)
                return
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        time.sleep(_LOOK)
