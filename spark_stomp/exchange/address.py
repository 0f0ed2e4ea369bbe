"""Which address the exchange binds and tells the tasks."""

from __future__ import annotations

import os
import socket

__all__ = ["exchange_host"]

_LOOPBACK = "127.0.0.1"
# A network that documentation alone uses (RFC 5737): the way out of the machine, to nobody.
_ELSEWHERE = ("192.0.2.1", 9)


def exchange_host(option: str | None) -> str:
    """The ``exchangeHost`` option, else ``SPARK_LOCAL_IP``, else the machine's own address, else loopback.

    This follows what Spark does for its own services: the tasks that reach the driver's block manager reach
    the exchange as well.
    """
    chosen = option or os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        return _LOOPBACK
    # Debian gives a machine's name the address 127.0.1.1, which no other machine reaches.
    return _outward_address() if named.startswith("127.") else named


def _outward_address() -> str:
    """The address that packets from here would bear; loopback where there is no way out."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket chooses its source address and sends nothing.
            probe.connect(_ELSEWHERE)
            address: str = probe.getsockname()[0]
    except OSError:
        return _LOOPBACK
    return address
