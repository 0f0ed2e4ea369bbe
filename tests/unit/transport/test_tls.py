"""TLS: who is let in, and which of the reasons not to an error names."""

from __future__ import annotations

import contextlib
import datetime
import logging
import socket
from pathlib import Path

import pytest
from support.certificates import Authority, Identity
from support.fronts import tls_front
from support.options import source_options
from support.tcp import tcp_server
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectTimeout, TlsRefused
from spark_stomp.transport import open_connection

QUEUE = "/queue/a"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "good")


def send(broker: DevBroker, identity: Identity, *, clients: Path | None = None, **options: object) -> None:
    """Send one message through TLS and see it arrive."""
    with tls_front(broker.port, identity.server_context(clients)) as port:
        url = f"stomp+ssl://127.0.0.1:{port}"
        with open_connection(source_options(url, **options).connection) as connection:
            receipt = connection.session.new_receipt()
            connection.session.send(QUEUE, b"x" * 300_000, receipt=receipt)
            connection.await_receipt(receipt, PATIENCE, "the message")
            connection.disconnect(5)
    assert broker.queue(QUEUE).depth == 1


def refusal(broker: DevBroker, identity: Identity, **options: object) -> str:
    with pytest.raises(TlsRefused) as refused:
        send(broker, identity, **options)  # type: ignore[arg-type]
    assert broker.connects == 0
    return str(refused.value)


def test_an_own_authority(devbroker: DevBroker, authority: Authority) -> None:
    send(devbroker, authority.issue(), tlsCaFile=authority.ca_file)


def test_an_unknown_authority(devbroker: DevBroker, authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    for options in ({}, {"tlsCaFile": other.ca_file}):
        text = refusal(devbroker, authority.issue(), **options)
        assert "set tlsCaFile to the authority that signed it" in text


def test_an_expired_certificate(devbroker: DevBroker, authority: Authority) -> None:
    identity = authority.issue(until=-datetime.timedelta(days=1))
    text = refusal(devbroker, identity, tlsCaFile=authority.ca_file)
    assert "certificate has expired" in text
    assert "tlsCaFile" not in text


def test_a_certificate_for_another_host(devbroker: DevBroker, authority: Authority) -> None:
    text = refusal(devbroker, authority.issue("broker.example"), tlsCaFile=authority.ca_file)
    assert "mismatch" in text
    assert "127.0.0.1 is not in it" in text


@pytest.mark.parametrize("password", [None, "a secret of the key"])
def test_a_client_certificate(devbroker: DevBroker, authority: Authority, password: str | None) -> None:
    client = authority.issue("ada", password=password)
    secret = {} if password is None else {"tlsKeyPassword": password}
    send(
        devbroker,
        authority.issue(),
        clients=authority.ca_file,
        tlsCaFile=authority.ca_file,
        tlsCertFile=client.cert_file,
        tlsKeyFile=client.key_file,
        **secret,
    )


def test_a_client_certificate_that_is_missing(authority: Authority) -> None:
    context = authority.issue().server_context(authority.ca_file)

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(4096)

    with tcp_server(serve) as port, pytest.raises(TlsRefused, match="tlsCertFile") as refused:
        url = f"stomp+ssl://127.0.0.1:{port}"
        open_connection(source_options(url, tlsCaFile=authority.ca_file).connection)
    assert "CERTIFICATE_REQUIRED" in str(refused.value)


def test_a_key_without_its_password_is_an_error_and_no_question(
    devbroker: DevBroker, authority: Authority
) -> None:
    client = authority.issue("ada", password="right")
    for secret in ({}, {"tlsKeyPassword": "wrong"}):
        text = refusal(
            devbroker,
            authority.issue(),
            tlsCaFile=authority.ca_file,
            tlsCertFile=client.cert_file,
            tlsKeyFile=client.key_file,
            **secret,
        )
        assert "cannot load the TLS files" in text
        assert "wrong" not in text


def test_a_file_that_is_not_there_is_named(devbroker: DevBroker, authority: Authority) -> None:
    assert "/no/such.pem" in refusal(devbroker, authority.issue(), tlsCaFile="/no/such.pem")


def test_verification_can_be_turned_off_and_that_is_said(
    devbroker: DevBroker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "spark_stomp"):
        send(devbroker, authority.issue("broker.example"), tlsVerify="false")
    assert "tlsVerify" in caplog.text


def test_a_server_that_never_shakes_hands_costs_the_timeout(authority: Authority) -> None:
    def serve(connection: socket.socket) -> None:
        while connection.recv(4096):
            pass

    with tcp_server(serve) as port, pytest.raises(ConnectTimeout, match="TLS handshake"):
        open_connection(source_options(f"stomp+ssl://127.0.0.1:{port}", connectTimeout="500ms").connection)
