"""A GET over HTTP within one deadline.

``urllib`` limits each read alone, so a server that sends octet by octet could hold it for hours.
"""

from __future__ import annotations

import io
import socket
import ssl
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from spark_stomp.brokers.standing import HttpAnswer
from spark_stomp.deadline import Deadline
from spark_stomp.quoting import host_port
from spark_stomp.transport.connect import connect_any
from spark_stomp.transport.stream import LEAST

if TYPE_CHECKING:
    from collections.abc import Callable

_PORTS = {"http": 80, "https": 443}


def http_get(
    url: str, headers: dict[str, str], tls: Callable[[], ssl.SSLContext], deadline: Deadline, most: int
) -> HttpAnswer:
    """The status and the content at ``url``, by ``tls()`` if that is https. No proxy, no redirect.

    Raises OSError, TimeoutError at the ``deadline`` among it; HTTPException; and ValueError if the
    content has more than ``most`` octets.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    lines = (f"{name}: {value}" for name, value in {"Host": parts.netloc, **headers}.items())
    request = "\r\n".join((f"GET {parts.path} HTTP/1.1", *lines, "Connection: close", "\r\n")).encode("ascii")
    sock = connect_any(host, port, deadline)
    try:
        if parts.scheme == "https":
            sock.settimeout(deadline.left(LEAST))
            sock = tls().wrap_socket(sock, server_hostname=host)
        sock.settimeout(deadline.left(LEAST))
        sock.sendall(request)
        response = HTTPResponse(cast("socket.socket", _Timed(sock, deadline)), method="GET")
        response.begin()
        content = response.read(most + 1)
    finally:
        sock.close()
    if len(content) > most:
        raise ValueError(f"the answer of {host_port(host, port)} has more than {most:,} octets")
    return HttpAnswer(response.status, content)


class _Timed(io.RawIOBase):
    """A socket to read from, until ``deadline``."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._deadline.passed:
            raise TimeoutError("timed out")
        self._sock.settimeout(self._deadline.left(LEAST))
        return self._sock.recv_into(buffer)
