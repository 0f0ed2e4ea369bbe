"""The order in which the addresses of a broker are tried: what failed last is tried last."""

from __future__ import annotations

import errno
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from spark_stomp.deadline import Deadline
from spark_stomp.errors import (
    BrokerError,
    ConnectFailed,
    ConnectTimeout,
    HeartbeatLost,
    ReceiptTimeout,
    StompError,
)
from spark_stomp.quoting import host_port
from spark_stomp.threads import aside

_Address = TypeVar("_Address")

# Seconds for which a failure is remembered: then the first address of ``url`` is tried first again. It may
# still hang, which costs one connection ``connectTimeout``.
_REMEMBERED = 300.0
# Addresses that are remembered, of all queries of a process.
_MOST = 1_000


class Addresses:
    """When addresses failed. Thread-safe: each step is one call of a dictionary.

    A node of a cluster may hang, or let us in and not serve, while the others do. Each task of the sink would
    find that out again, so this process remembers it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[str, float] = {}  # the oldest failure first

    def in_order(self, given: Iterable[_Address], name: Callable[[_Address], str]) -> list[_Address]:
        """``given`` in their order, and behind them those that failed, the last one last.

        ``name`` gives ``host:port``.
        """
        long_ago = self._clock() - _REMEMBERED
        return sorted(given, key=lambda one: max(long_ago, self._failed.get(name(one), long_ago)))

    def failed(self, *names: str) -> None:
        """These have failed now."""
        for name in names:
            self._failed.pop(name, None)
            self._failed[name] = self._clock()
        self.forget(list(self._failed)[:-_MOST])

    def forget(self, names: Iterable[str]) -> None:
        """These are tried in their order again."""
        for name in names:
            self._failed.pop(name, None)


def may_be_the_node(error: StompError) -> bool:
    """Whether the same may succeed on another node."""
    silent = isinstance(error, ConnectFailed | ConnectTimeout | HeartbeatLost | ReceiptTimeout)
    # An ERROR that names no request, and is not known, may pass as well.
    unknown = type(error) is BrokerError and error.verdict is None
    return silent or unknown or error.verdict in {"passes", "either"}


def name_of(address: Any) -> str:
    """``host:port`` of an address of IP."""
    return host_port(address[0], address[1])


def look_up(host: str, port: int | None, deadline: Deadline) -> list[Any]:
    """The addresses of a host, as ``socket.getaddrinfo`` has them.

    Raises what that raises, and TimeoutError at the ``deadline``. It cannot be interrupted, so it goes on in
    a thread of its own, and who asks again meanwhile waits for the same one.
    """
    name = host, port
    under_way = _LOOK_UPS.get(name)
    if under_way is None or under_way.done():
        under_way = aside(lambda: socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        _LOOK_UPS[name] = under_way
    wait([under_way], deadline.left())
    if not under_way.done():
        raise TimeoutError(errno.ETIMEDOUT, "the look-up of its name has no answer")
    return under_way.result()


def machines_of(host: str, deadline: Deadline) -> int:
    """For how many machines a name stands, as far as it is known. One may have an address of each family."""
    try:
        found = {(one[0], one[4][0]) for one in look_up(host, None, deadline)}
    except (OSError, UnicodeError):
        return 0
    return max(Counter(family for family, _ in found).values(), default=0)


def remote_of(sock: socket.socket) -> str:
    """``host:port`` of the other side, by its number; empty if it has left."""
    try:
        return name_of(sock.getpeername())
    except OSError:
        return ""


ADDRESSES: Final = Addresses()
"""Those of this process."""
# The last one of each name.
_LOOK_UPS: Final[dict[tuple[str, int | None], Future[list[Any]]]] = {}
