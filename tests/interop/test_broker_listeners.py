"""TLS and WebSocket as the configurations set them up on the real brokers."""

from __future__ import annotations

import base64
import os
import socket
import ssl

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, publish
from support.waiting import PATIENCE

pytestmark = on_real_brokers


def connect_frame(broker: Broker) -> bytes:
    lines = (
        "CONNECT",
        "accept-version:1.2",
        "host:/",
        f"login:{broker.login}",
        f"passcode:{broker.password}",
    )
    return "\n".join((*lines, "", "\0")).encode()


def test_tls_with_a_certificate_of_the_runs_own_authority(broker: Broker) -> None:
    context = ssl.create_default_context(cafile=broker.ca)
    plain = socket.create_connection(("127.0.0.1", broker.tls_port), timeout=PATIENCE)
    with context.wrap_socket(plain, server_hostname="localhost") as secure:
        secure.sendall(connect_frame(broker))
        assert secure.recv(4096).startswith(b"CONNECTED\n")


def test_the_connector_writes_reads_and_acks_over_tls(broker: Broker) -> None:
    queue, bodies = broker.new_queue(), [b"message %d" % number for number in range(50)] + [bytes(1 << 20)]
    options = {**broker.options(), "url": broker.tls_url, "tlsCaFile": str(broker.ca)}
    assert publish(options, queue, bodies) == 51
    with Run({**options, "destination": queue}) as query:
        assert [row["body"] for row in query.gather(51)] == bodies
        query.commit()
        broker.wait_for(queue, ready=0, unacked=0)


def test_the_authority_is_not_one_that_everybody_knows(broker: Broker) -> None:
    plain = socket.create_connection(("127.0.0.1", broker.tls_port), timeout=PATIENCE)
    with plain, pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get local issuer"):
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


def test_websocket_where_there_is_one(broker: Broker) -> None:
    if broker.websocket_url is None:
        assert broker.name == "activemq"  # whose WebSocket needs a web server beside it
        return
    address, _, path = broker.websocket_url.removeprefix("ws://").partition("/")
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET /{path} HTTP/1.1",
        f"Host: {address}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: v12.stomp",
    )
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall("\r\n".join((*lines, "", "")).encode())
        answer = connection.recv(4096)
    assert b" 101 " in answer.splitlines()[0]
    assert b"v12.stomp" in answer
