"""Where the frame server listens, and whether that can be reached from another machine.

Spark tells a source nothing of its master. But it starts the reader's process as a child of its JVM, and on
the command line of that is the master that ``spark-submit``, ``pyspark`` or a Python program asked for.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_LOOPBACK = "127.0.0.1"
# An address for documentation only (RFC 5737): outside the machine, and no host has it.
_ELSEWHERE = ("192.0.2.1", 9)
# Seconds between two attempts to listen.
_LOOK = 0.1
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
# The options of spark-submit that no value follows.
_FLAGS = frozenset({"--help", "-h", "--supervise", "--usage-error", "--verbose", "-v", "--version"})
# A local cluster has its tasks in processes of their own, and is for Spark's own tests.
_LOCAL = re.compile(r"local(\[.*\])?")


def frame_server_host(option: str | None) -> str:
    """The ``frameServerHost`` option, else ``SPARK_LOCAL_IP``, else loopback if the master is local,
    else the machine's own address, else loopback.

    This follows what Spark does for its own services: the tasks that reach the driver's block manager reach
    the frame server as well.
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


def await_free(host: str, port: int, timeout: float) -> None:
    """Return once a server could listen there, after ``timeout`` seconds at the latest.

    Raises OSError with the reason if it cannot, which gRPC does not say. Port 0 means any free port.
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


def master_is_local() -> bool:
    """True only if the process that started this one names a local master, and no other; Linux only."""
    try:
        raw = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    except OSError:
        return False
    masters = list(_masters(os.fsdecode(raw).split("\0")))
    return bool(masters) and all(_LOCAL.fullmatch(master) for master in masters)


def _masters(command: Sequence[str]) -> Iterator[str]:
    """What a command line of spark-submit says of the master; what follows the program is the program's."""
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
