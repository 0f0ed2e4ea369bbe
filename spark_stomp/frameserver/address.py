"""Where the frame server listens: on loopback if the master is local, else on an address of the network.

Spark does not tell a source its master. But the reader process is a child of the JVM, and the JVM's command
line names the master that ``spark-submit``, ``pyspark`` or a Python program asked for.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path

_LOOPBACK = "127.0.0.1"
# Addresses for documentation only (RFC 5737, RFC 3849): outside this machine, and no host has them. IPv4
# comes first, as Spark prefers it.
_ELSEWHERE = {socket.AF_INET: ("192.0.2.1", 9), socket.AF_INET6: ("2001:db8::1", 9)}
# Seconds between two attempts to listen. A judgement, not measured.
_LOOK = 0.1
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
# The options of spark-submit that take no value.
_FLAGS = frozenset({"--help", "-h", "--supervise", "--usage-error", "--verbose", "-v", "--version"})
# Not "local-cluster[...]", which is for Spark's own tests and runs tasks in other processes.
_LOCAL = re.compile(r"local(\[.*\])?")


def frame_server_host(option: str | None) -> str:
    """The address on which the frame server listens.

    It is the first of these that exists: the option ``frameServerHost``, ``SPARK_LOCAL_IP``, loopback if the
    master is local, the machine's own address, loopback. Spark chooses the addresses of its own services like
    this. So tasks that reach the driver's block manager also reach the frame server. An IPv6 address may be
    in brackets, as in a URL.
    """
    chosen = option or os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen.strip("[]")
    if master_is_local():
        return _LOOPBACK
    found = filter(_reachable, (*_named_addresses(), *_outward_addresses()))
    return min(found, key=lambda one: ip_address(one).version, default=_LOOPBACK)


def _named_addresses() -> Iterator[str]:
    """The addresses of the machine's own name, IPv4 first. Debian gives it 127.0.1.1."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return
    for wanted in _ELSEWHERE:
        yield from (str(address[0]) for family, *_, address in found if family == wanted)


def _outward_addresses() -> Iterator[str]:
    """The source addresses of packets that leave this machine, IPv4 first."""
    for family, elsewhere in _ELSEWHERE.items():
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                # Connecting a datagram socket chooses its source address and sends nothing.
                probe.connect(elsewhere)
                yield str(probe.getsockname()[0])
        except OSError:
            continue


def _reachable(address: str) -> bool:
    """Whether other machines may reach this address: not loopback, and not of one link only."""
    parsed = ip_address(address)
    return not (parsed.is_loopback or parsed.is_link_local)


def await_free(host: str, port: int, timeout: float) -> None:
    """Wait until a server can listen on ``host`` and ``port``. Port 0 means any free port.

    Raises OSError if none can within ``timeout`` seconds, with the reason, which gRPC does not give.
    """
    family, kind, protocol, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    deadline = time.monotonic() + timeout
    while True:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # gRPC sets this option too: connections of an ended server do not block the port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(at)
                return
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        time.sleep(_LOOK)


def master_is_local() -> bool:
    """Whether the process that started this one names a local master and no other. Always False off Linux."""
    try:
        raw = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    except OSError:
        return False
    masters = list(_masters(os.fsdecode(raw).split("\0")))
    return bool(masters) and all(_LOCAL.fullmatch(master) for master in masters)


def _masters(command: Sequence[str]) -> Iterator[str]:
    """The masters that a spark-submit command line names. The program's own arguments are ignored."""
    words = iter(command[command.index(_SUBMIT) + 1 :] if _SUBMIT in command else ())
    for word in words:
        if not word.startswith("-"):
            return
        option, given, value = word.partition("=")
        if option in _FLAGS:
            continue
        value = value if given else next(words, "")
        if option == "--master":
            yield value
        elif option in ("--conf", "-c") and value.startswith("spark.master="):
            yield value.partition("=")[2]
