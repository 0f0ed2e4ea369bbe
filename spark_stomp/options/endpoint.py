"""The addresses of a broker: the option ``url``, one address, or several with commas for failover."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from spark_stomp.options.kinds import Kind
from spark_stomp.quoting import host_port

DEFAULT_PORTS: Final = {"stomp": 61613, "stomp+ssl": 61614, "ws": 15674, "wss": 15673}
"""The port of each scheme if the URL has none: the brokers' defaults, and RabbitMQ's for WebSocket."""

_WEBSOCKET_PATH: Final = "/ws"
_SCHEME: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")
# A comma that is not followed by a scheme may be part of a password.
_BETWEEN_ADDRESSES: Final = re.compile(rf",(?={_SCHEME.pattern})")
_QUERY: Final = re.compile(r"[?#]")
_WEBSOCKET: Final = re.compile(r"wss?://[^/?#]*", re.IGNORECASE)
_HIDDEN: Final = "***"


@dataclass(frozen=True)
class Endpoint:
    """One address of a broker. ``path`` is the WebSocket resource; it is empty for STOMP over TCP.

    The query of the path may contain a token. Only :attr:`uri` shows it.
    """

    scheme: str
    host: str
    port: int
    path: str = field(default="", repr=False)

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme in ("stomp+ssl", "wss")

    @property
    def websocket(self) -> bool:
        """Whether STOMP travels in WebSocket messages."""
        return self.scheme in ("ws", "wss")

    @property
    def loopback(self) -> bool:
        """Whether the host is this machine, by its name or address."""
        return is_loopback(self.host)

    @property
    def address(self) -> str:
        """``host:port``, which names the broker in texts."""
        return host_port(self.host, self.port)

    @property
    def uri(self) -> str:
        """The whole address, secrets included. It is for opening the connection, not for texts."""
        return f"{self.scheme}://{self.address}{self.path}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no error may show: the query and each value in it, as written and decoded."""
        query = self.path.partition("?")[2]
        values = (part.partition("=")[2] for part in query.split("&"))
        return query, *(form for value in values for form in (value, unquote(value)))

    def __str__(self) -> str:
        address, query, _ = self.uri.partition("?")
        return address + query + (_HIDDEN if query else "")


def is_loopback(host: str) -> bool:
    """Whether ``host`` is certainly this machine: a loopback address, or ``localhost`` (RFC 6761).

    Any other name may mean loopback on this machine, and another address on others.
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def redacted(text: str) -> str:
    """``text`` for an error: whatever may be a secret in its addresses is replaced.

    That is everything before an ``@``, and after a ``?`` or ``#``, even if the rest is not an address.
    """
    return ",".join(_shown(part) for part in _BETWEEN_ADDRESSES.split(text))


def _shown(address: str) -> str:
    scheme = _SCHEME.match(address)
    rest = address[scheme.end() :] if scheme else address
    userinfo, at, host = rest.rpartition("@")
    if _QUERY.search(userinfo):
        # It is unclear which @, ? or # belongs to which part: hide the whole address.
        at, host = "", _HIDDEN
    elif query := _QUERY.search(host):
        host = host[: query.end()] + _HIDDEN
    return (scheme[0] if scheme else "") + (_HIDDEN + at if at else "") + host


def _endpoints(raw: str) -> tuple[Endpoint, ...]:
    if raw.strip().lower().startswith("failover:"):
        raise ValueError("is ActiveMQ's failover syntax; write a comma list: stomp://a:61613,stomp://b:61613")
    found = tuple(_endpoint(part.strip()) for part in raw.split(","))
    if len(set(found)) < len(found):
        raise ValueError("names the same address more than once")
    return found


def _endpoint(raw: str) -> Endpoint:
    # Checked first, because later errors quote the address. After the host of a WebSocket URL, @ is allowed.
    websocket = _WEBSOCKET.match(raw)
    if "@" in (websocket[0] if websocket else raw):
        raise ValueError("must not contain credentials; use the options login and password")
    parts = _split(raw)
    if parts.scheme not in DEFAULT_PORTS or not raw[len(parts.scheme) :].startswith("://"):
        raise ValueError(
            "must begin with stomp://, stomp+ssl://, ws:// or wss://, as in stomp://broker.example:61613"
        )
    if "[" not in parts.netloc and parts.netloc.count(":") > 1:
        raise ValueError("has an IPv6 address without brackets; write it as stomp://[::1]:61613")
    if not parts.hostname:
        raise ValueError("has no host name; write it as stomp://host:61613")
    return Endpoint(parts.scheme, parts.hostname, _port(parts), _path(parts))


def _split(raw: str) -> SplitResult:
    try:
        return urlsplit(raw)
    except ValueError:
        # The error of urlsplit quotes the address, which may have secrets.
        raise ValueError("has an address that is not a URL") from None


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("has a port that is not a number from 1 to 65535")
    return port if port is not None else DEFAULT_PORTS[parts.scheme]


def _path(parts: SplitResult) -> str:
    if parts.fragment:
        raise ValueError("must not contain a fragment (#...)")
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    if parts.scheme in ("ws", "wss"):
        return target or _WEBSOCKET_PATH
    if target.strip("/"):
        raise ValueError("must end after the port; the destination goes into load(...) or `destination`")
    return ""


ENDPOINTS = Kind(
    _endpoints, "`stomp://host:port`, `stomp+ssl://`, `ws://`, `wss://`; comma list for failover"
)
