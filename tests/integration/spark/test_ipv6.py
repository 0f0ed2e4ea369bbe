"""A query whose broker and frame server have IPv6 addresses."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from support.certificates import Authority
from support.driven import Run, publish
from support.fronts import tls_front, websocket_front
from support.tcp import needs_ipv6

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectFailed, TlsRefused
from spark_stomp.options import parse_sink_options
from spark_stomp.transport import open_connection

pytestmark = needs_ipv6

QUEUE = "/queue/a"


def reads_and_writes(options: dict[str, str], broker: DevBroker, **further: str) -> None:
    """Send messages, and read them in two batches."""
    with Run({**options, "destination": QUEUE, "frameServerHost": "::1", **further}) as query:
        for bodies in ([b"one", b"two"], [b"three"]):
            assert publish(options, QUEUE, bodies) == len(bodies)
            assert [row["body"] for row in query.gather(len(bodies))] == bodies
            query.commit()
        broker.wait_until(lambda: broker.queue(QUEUE).depth == 0)


def test_tls_checks_the_address(devbroker: DevBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    with tls_front(devbroker.port, authority.issue("::1").server_context(), "::1") as port:
        options = {"url": f"stomp+ssl://[::1]:{port}", "tlsCaFile": str(authority.ca_file)}
        reads_and_writes(options, devbroker)
    for other in ("::2", "127.0.0.1", "localhost"):
        with tls_front(devbroker.port, authority.issue(other).server_context(), "::1") as port:
            options["url"] = f"stomp+ssl://[::1]:{port}"
            said = rf"certificate of \[::1\]:{port} is not accepted.*::1 is not among its subject alternative"
            with pytest.raises(TlsRefused, match=said):
                open_connection(parse_sink_options(options).connection)


def test_websocket(devbroker: DevBroker) -> None:
    with websocket_front(devbroker.port, host="::1") as port:
        reads_and_writes({"url": f"ws://[::1]:{port}/ws"}, devbroker)


def test_nobody_listens() -> None:
    with socket.socket(socket.AF_INET6) as held:
        held.bind(("::1", 0))
        port = held.getsockname()[1]
        options = parse_sink_options({"url": f"stomp://[::1]:{port}"})
        with pytest.raises(ConnectFailed, match=rf"cannot connect to \[::1\]:{port}: "):
            open_connection(options.connection)
