"""TLS: who is let in, and which of the reasons not to an error names."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import socket
import ssl
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from support import session as by_hand
from support.certificates import Authority, Identity
from support.fronts import tls_front, websocket_front
from support.options import source_options
from support.proxy import FaultProxy, Way
from support.tcp import says, tcp_server, unused_port
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectFailed, ConnectionLost, ConnectTimeout, TlsRefused
from spark_stomp.transport import open_connection
from spark_stomp.transport.stream import Stream

QUEUE = "/queue/a"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "good")


def send(
    broker: DevBroker,
    identity: Identity,
    *,
    clients: Path | None = None,
    latest: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED,
    host: str = "127.0.0.1",
    **options: object,
) -> None:
    """Send one message through TLS, of no later version than ``latest``, and see it arrive."""
    context = identity.server_context(clients)
    context.maximum_version = latest
    with tls_front(broker.port, context) as port:
        url = f"stomp+ssl://{host}:{port}"
        with open_connection(source_options(url, **options).connection) as connection:
            receipt = connection.session.new_receipt()
            by_hand.send(connection.session, QUEUE, b"x" * 300_000, receipt=receipt)
            connection.await_receipts({receipt: "the message"}, PATIENCE)
            connection.disconnect(5)
    assert broker.queue(QUEUE).depth == 1


def refusal(broker: DevBroker, identity: Identity, **options: object) -> str:
    with pytest.raises(TlsRefused) as refused:
        send(broker, identity, **options)  # type: ignore[arg-type]
    assert broker.connects == 0
    return str(refused.value)


@pytest.mark.parametrize(
    ("certificate", "host", "trusted", "said"),
    [
        ({}, "127.0.0.1", "nobody", "set tlsCaFile to the authority that signed it"),
        ({}, "127.0.0.1", "another", "set tlsCaFile to the authority that signed it"),
        ({"until": -datetime.timedelta(days=1)}, "127.0.0.1", "it", "certificate has expired"),
        ({"subject": "broker.example"}, "127.0.0.1", "it", "127.0.0.1 is not among its subject alternative"),
        # RFC 9525, section 2: a common name is no host name; authorities do not check it as one.
        (
            {"subject": "localhost", "alternative_name": False},
            "localhost",
            "it",
            "localhost is not among its subject alternative names",
        ),
    ],
)
def test_a_certificate_that_is_not_accepted(
    devbroker: DevBroker,
    authority: Authority,
    tmp_path: Path,
    certificate: dict[str, Any],
    host: str,
    trusted: str,
    said: str,
) -> None:
    known = {"another": Authority(tmp_path, "other").ca_file, "it": authority.ca_file}
    options = {"tlsCaFile": known[trusted]} if trusted in known else {}
    text = refusal(devbroker, authority.issue(**certificate), host=host, **options)
    assert said in text
    assert ("set tlsCaFile" in text) == (trusted != "it")


def test_and_by_its_alternative_name(devbroker: DevBroker, authority: Authority) -> None:
    send(devbroker, authority.issue("localhost"), host="localhost", tlsCaFile=authority.ca_file)


class TestServerName:
    """Of a broker behind an address that its certificate does not have."""

    NAME = "broker.example"

    def test_takes_the_place_of_the_host(self, devbroker: DevBroker, authority: Authority) -> None:
        identity = authority.issue(self.NAME)
        send(devbroker, identity, tlsCaFile=authority.ca_file, tlsServerName=self.NAME)

    def test_a_certificate_for_the_host_is_then_not_accepted(
        self, devbroker: DevBroker, authority: Authority
    ) -> None:
        options = {"tlsCaFile": authority.ca_file, "tlsServerName": self.NAME}
        assert f"{self.NAME} is not among its" in refusal(devbroker, authority.issue(), **options)

    @pytest.mark.parametrize("verify", [{}, {"tlsVerify": "false"}])
    @pytest.mark.parametrize("front", [tls_front, websocket_front])
    def test_is_what_the_server_is_asked_for(
        self,
        devbroker: DevBroker,
        authority: Authority,
        front: Callable[..., contextlib.AbstractContextManager[int]],
        verify: dict[str, str],
    ) -> None:
        """By it a load balancer chooses the broker (SNI, RFC 6066, section 3)."""
        asked: list[str | None] = []
        context = authority.issue(self.NAME).server_context()
        context.sni_callback = lambda _, name, __: asked.append(name)
        trusted = {} if verify else {"tlsCaFile": authority.ca_file}
        scheme = "stomp+ssl" if front is tls_front else "wss"
        with front(devbroker.port, context) as port:
            url = f"{scheme}://127.0.0.1:{port}"
            options = source_options(url, tlsServerName=self.NAME, **trusted, **verify)
            open_connection(options.connection).close()
        assert asked == [self.NAME]


@pytest.mark.parametrize("least", [{}, {"tlsMinVersion": "1.2"}])
def test_tls_12_is_enough_by_default(
    devbroker: DevBroker, authority: Authority, least: dict[str, str]
) -> None:
    send(devbroker, authority.issue(), tlsCaFile=authority.ca_file, latest=ssl.TLSVersion.TLSv1_2, **least)


def test_and_too_little_if_13_is_asked_for(authority: Authority) -> None:
    context = authority.issue().server_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with server_with(context) as port, pytest.raises(TlsRefused, match=r"tlsMinVersion is 1\.3"):
        url = f"stomp+ssl://127.0.0.1:{port}"
        options = source_options(url, tlsCaFile=authority.ca_file, tlsMinVersion="1.3")
        open_connection(options.connection)


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


def as_text(authority: Authority, client: Identity, password: str | None) -> dict[str, str]:
    """Options with the text of the files."""
    secret = {} if password is None else {"tlsKeyPassword": password}
    return {
        "tlsCaFile": authority.ca_file.read_text(),
        "tlsCertFile": client.cert_file.read_text(),
        "tlsKeySecret": client.key_file.read_text(),
        **secret,
    }


class TestPemText:
    @pytest.mark.parametrize("password", [None, "a secret of the key"])
    @pytest.mark.parametrize("in_memory", [True, False])
    def test_in_place_of_files(
        self,
        devbroker: DevBroker,
        authority: Authority,
        password: str | None,
        in_memory: bool,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The key lies in no file that others can open, and in none afterwards."""
        client, seen = authority.issue("ada", password=password), []
        load = ssl.SSLContext.load_cert_chain

        def load_and_look(context: ssl.SSLContext, cert: str, key: str, secret: str) -> None:
            seen.append((Path(key).parent == tmp_path, Path(key).stat().st_mode & 0o77))
            load(context, cert, key, secret)

        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        if not in_memory:
            monkeypatch.delattr(os, "memfd_create", raising=False)
        elif not hasattr(os, "memfd_create"):
            pytest.skip("this platform has no files in memory")
        identity = authority.issue()
        context = identity.server_context(authority.ca_file)
        with tls_front(devbroker.port, context) as port:
            options = source_options(f"stomp+ssl://127.0.0.1:{port}", **as_text(authority, client, password))
            monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load_and_look)
            open_connection(options.connection).close()
        assert [on_disk for on_disk, _ in seen] == [not in_memory]
        assert in_memory or seen == [(True, 0)]
        assert list(tmp_path.iterdir()) == []

    def test_what_is_wrong_in_it_is_not_repeated(self, authority: Authority, tmp_path: Path) -> None:
        good = as_text(authority, authority.issue("ada"), None)
        bad = {
            "tlsCaFile": "-----BEGIN CERTIFICATE-----\ns3cret\n-----END CERTIFICATE-----",
            "tlsCertFile": "-----BEGIN CERTIFICATE-----\ns3cret\n-----END CERTIFICATE-----",
            "tlsKeySecret": "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----",
        }
        for key, text in bad.items():
            options = source_options(f"stomp+ssl://127.0.0.1:{unused_port()}", **{**good, key: text})
            with pytest.raises(TlsRefused) as refused:
                open_connection(options.connection)
            told = "".join(traceback.format_exception(refused.value))
            assert f"{key}=(PEM text)" in told or key == "tlsKeySecret"
            assert "s3cret" not in told and "BEGIN" not in told


def wants_a_certificate(authority: Authority) -> contextlib.AbstractContextManager[int]:
    """A server that asks its clients for one; the port."""
    return server_with(authority.issue().server_context(authority.ca_file))


def server_with(context: ssl.SSLContext) -> contextlib.AbstractContextManager[int]:
    """A server that sends its alerts, which asyncio's do not always do; the port."""

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(4096)

    return tcp_server(serve)


def test_a_client_certificate_that_is_missing(authority: Authority) -> None:
    with wants_a_certificate(authority) as port, pytest.raises(TlsRefused, match="tlsCertFile") as refused:
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


class TestSeveralEndpoints:
    """A certificate that is not accepted may be an attacker's: nothing is tried elsewhere."""

    @pytest.mark.parametrize("bad_first", [True, False])
    def test_a_bad_certificate_ends_the_search(
        self, devbroker: DevBroker, authority: Authority, bad_first: bool
    ) -> None:
        bad = authority.issue("broker.example").server_context()
        good = authority.issue().server_context()
        with tls_front(devbroker.port, bad) as one, tls_front(devbroker.port, good) as other:
            order = (one, other) if bad_first else (unused_port(), one, other)
            url = ",".join(f"stomp+ssl://127.0.0.1:{port}" for port in order)
            options = source_options(url, tlsCaFile=authority.ca_file, login="ada", password="secret")
            with pytest.raises(TlsRefused, match=f"the certificate of 127.0.0.1:{one} is not accepted"):
                open_connection(options.connection)
        assert devbroker.connects == 0

    def test_nor_is_it_tried_where_only_the_other_one_is_unencrypted(
        self, devbroker: DevBroker, authority: Authority
    ) -> None:
        bad = authority.issue("broker.example").server_context()
        with tls_front(devbroker.port, bad) as port, pytest.raises(TlsRefused):
            url = f"stomp+ssl://127.0.0.1:{port},{devbroker.url}"
            open_connection(source_options(url, tlsCaFile=authority.ca_file).connection)
        assert devbroker.connects == 0

    def test_a_client_certificate_that_is_refused_ends_it_too(
        self, devbroker: DevBroker, authority: Authority
    ) -> None:
        with (
            wants_a_certificate(authority) as strict,
            tls_front(devbroker.port, authority.issue().server_context()) as other,
            pytest.raises(TlsRefused, match="tlsCertFile"),
        ):
            url = f"stomp+ssl://127.0.0.1:{strict},stomp+ssl://127.0.0.1:{other}"
            open_connection(source_options(url, tlsCaFile=authority.ca_file).connection)
        assert devbroker.connects == 0

    def test_a_server_that_is_slow_is_asked_about_and_waited_for(
        self, devbroker: DevBroker, authority: Authority, caplog: pytest.LogCaptureFixture
    ) -> None:
        with tls_front(devbroker.port, authority.issue().server_context()) as port, FaultProxy(port) as proxy:
            proxy.hold(Way.TO_CLIENT)

            def release() -> None:
                wait_until(lambda: "TLS handshake for 1 s; is it a port with TLS?" in caplog.text)
                proxy.release()

            releasing = threading.Thread(target=release)
            releasing.start()
            url = f"stomp+ssl://127.0.0.1:{proxy.port}"
            open_connection(source_options(url, tlsCaFile=authority.ca_file).connection).close()
            releasing.join()

    def test_a_server_without_tls_may_say_nothing(self) -> None:
        with tcp_server(says()) as port, pytest.raises(ConnectTimeout, match="is it a port with TLS"):
            open_connection(
                source_options(f"stomp+ssl://127.0.0.1:{port}", connectTimeout="300ms").connection
            )

    def test_a_handshake_that_is_broken_off_is_no_refusal(
        self, devbroker: DevBroker, authority: Authority
    ) -> None:
        """A broker that starts or stops behind a load balancer."""
        with (
            tcp_server(lambda connection: None) as closing,
            tls_front(devbroker.port, authority.issue().server_context()) as port,
        ):
            alone = source_options(f"stomp+ssl://127.0.0.1:{closing}")
            with pytest.raises(ConnectFailed, match=r"broke off the TLS handshake .*a port with TLS"):
                open_connection(alone.connection)
            url = f"stomp+ssl://127.0.0.1:{closing},stomp+ssl://127.0.0.1:{port}"
            open_connection(source_options(url, tlsCaFile=authority.ca_file).connection).close()


@pytest.mark.parametrize(
    ("reason", "refused"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", True),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", True),
        ("TLSV1_ALERT_UNKNOWN_CA", True),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", True),
        ("TLSV1_ALERT_INTERNAL_ERROR", False),
        ("SSLV3_ALERT_BAD_RECORD_MAC", False),
        (None, False),
    ],
)
def test_only_alerts_about_who_one_is_are_refusals(reason: str | None, refused: bool) -> None:
    """Any other alert on a connection is its end, and a receiver connects again."""
    error = ssl.SSLError(1, "ended")
    error.reason = reason  # type: ignore[assignment]

    class Ending:
        def setblocking(self, on: bool) -> None:
            pass

        def recv(self, size: int) -> bytes:
            raise error

    stream = Stream(cast("Any", Ending()), "broker:1")
    with pytest.raises(TlsRefused if refused else ConnectionLost):
        stream.read()
