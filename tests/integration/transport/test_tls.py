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
from typing import Any
from unittest import mock

import pytest
from support import session as by_hand
from support.certificates import Authority, Identity
from support.fronts import tls_front, websocket_front
from support.options import connected
from support.proxy import FaultProxy, Way
from support.tcp import says, tcp_server, unused_port
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectFailed, ConnectionLost, ConnectTimeout, TlsRefused
from spark_stomp.transport.stream import ByteStream

QUEUE = "/queue/a"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "good")


Options = dict[str, Any]


def url_of(*ports: int, host: str = "127.0.0.1") -> str:
    return ",".join(f"stomp+ssl://{host}:{port}" for port in ports)


def server_with(context: ssl.SSLContext) -> contextlib.AbstractContextManager[int]:
    """A server that sends its alerts, which asyncio's do not always do; the port."""

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(4096)

    return tcp_server(serve)


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
    front = tls_front(broker.port, context)
    with front as port, connected(url_of(port, host=host), **options) as connection:
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


UNKNOWN = "set tlsCaFile to the authority that signed it"
NAME = "broker.example"


@pytest.mark.parametrize(
    ("until", "sends_it", "said"),
    [
        (datetime.timedelta(days=1), True, None),
        (datetime.timedelta(days=1), False, "unless the broker does not send the certificates between"),
        (-datetime.timedelta(days=1), True, "certificate has expired"),
    ],
    ids=["complete", "the broker does not send it", "expired"],
)
def test_an_intermediate_authority(
    devbroker: DevBroker,
    authority: Authority,
    tmp_path: Path,
    until: datetime.timedelta,
    sends_it: bool,
    said: str | None,
) -> None:
    between = Authority(tmp_path, "between", above=authority, until=until)
    identity = between.issue()
    if sends_it:
        identity.cert_file.write_bytes(identity.cert_file.read_bytes() + between.ca_file.read_bytes())
    if said is None:
        send(devbroker, identity, tlsCaFile=authority.ca_file)
    else:
        assert said in refusal(devbroker, identity, tlsCaFile=authority.ca_file)


@pytest.mark.parametrize(
    ("certificate", "host", "options", "said"),
    [
        ({}, "127.0.0.1", {"tlsCaFile": ""}, UNKNOWN),
        ({}, "127.0.0.1", {"tlsCaFile": "another"}, UNKNOWN),
        ({}, "127.0.0.1", {"tlsCaFile": "/no/such.pem"}, "/no/such.pem"),
        ({"until": -datetime.timedelta(days=1)}, "127.0.0.1", {}, "certificate has expired"),
        ({"subject": NAME}, "127.0.0.1", {}, "127.0.0.1 is not among its subject alternative"),
        ({}, "127.0.0.1", {"tlsServerName": NAME}, f"{NAME} is not among its"),
        # RFC 9525, section 2: a common name is no host name; authorities do not check it as one.
        ({"subject": "localhost", "alternative_name": False}, "localhost", {}, "localhost is not among its"),
    ],
)
def test_a_certificate_that_is_not_accepted(
    devbroker: DevBroker,
    authority: Authority,
    tmp_path: Path,
    certificate: Options,
    host: str,
    options: Options,
    said: str,
) -> None:
    given = {"tlsCaFile": authority.ca_file, **options}
    if given["tlsCaFile"] == "another":
        given["tlsCaFile"] = Authority(tmp_path, "other").ca_file
    given = {key: value for key, value in given.items() if value}
    text = refusal(devbroker, authority.issue(**certificate), host=host, **given)
    assert said in text
    assert (UNKNOWN in text) == (said == UNKNOWN)


@pytest.mark.parametrize(
    ("subject", "given"),
    [
        ("localhost", {"host": "localhost"}),
        (NAME, {"tlsServerName": NAME}),
        ("127.0.0.1", {"latest": ssl.TLSVersion.TLSv1_2}),
        ("127.0.0.1", {"latest": ssl.TLSVersion.TLSv1_2, "tlsMinVersion": "1.2"}),
    ],
)
def test_one_that_is_accepted(
    devbroker: DevBroker, authority: Authority, subject: str, given: Options
) -> None:
    """By its alternative name, or that of the option; TLS 1.2 is enough by default."""
    send(devbroker, authority.issue(subject), tlsCaFile=authority.ca_file, **given)


@pytest.mark.parametrize("least", [None, "1.3"])
def test_what_a_server_refuses_or_lacks(
    devbroker: DevBroker, authority: Authority, least: str | None
) -> None:
    """A client certificate, or TLS 1.3 where it is asked for. Nothing is tried elsewhere."""
    context = authority.issue().server_context(None if least else authority.ca_file)
    given: Options = {"tlsCaFile": authority.ca_file}
    if least:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        given["tlsMinVersion"] = least
    other = tls_front(devbroker.port, authority.issue().server_context())
    with server_with(context) as strict, other as port, pytest.raises(TlsRefused) as refused:
        connected(url_of(strict, port), **given)
    for words in ["tlsMinVersion is 1.3"] if least else ["tlsCertFile", "CERTIFICATE_REQUIRED"]:
        assert words in str(refused.value)
    assert devbroker.connects == 0


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(("front", "scheme"), [(tls_front, "stomp+ssl"), (websocket_front, "wss")])
def test_the_server_name_is_what_the_server_is_asked_for(
    devbroker: DevBroker, authority: Authority, front: Callable[..., Any], scheme: str, verify: bool
) -> None:
    """By it a load balancer chooses the broker (SNI, RFC 6066, section 3)."""
    asked: list[str | None] = []
    context = authority.issue(NAME).server_context()
    context.sni_callback = lambda _, name, __: asked.append(name)
    trusted: Options = {"tlsCaFile": authority.ca_file} if verify else {"tlsVerify": "false"}
    with front(devbroker.port, context) as port:
        connected(f"{scheme}://127.0.0.1:{port}", tlsServerName=NAME, **trusted).close()
    assert asked == [NAME]


@pytest.mark.parametrize(("front", "scheme"), [(tls_front, "stomp+ssl"), (websocket_front, "wss")])
def test_the_dot_of_a_whole_name_is_for_the_look_up_alone(
    devbroker: DevBroker,
    authority: Authority,
    front: Callable[..., Any],
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``broker.example.`` is looked up without the search domains of the machine, as in Kubernetes."""
    looked_up: list[str] = []
    asked: list[str | None] = []

    def resolve(host: str, port: int, *_: object) -> list[Any]:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    context = authority.issue(NAME).server_context()
    context.sni_callback = lambda _, name, __: asked.append(name)
    with front(devbroker.port, context) as port, monkeypatch.context() as patch:
        patch.setattr("socket.getaddrinfo", resolve)
        connected(f"{scheme}://{NAME}.:{port}", tlsCaFile=authority.ca_file).close()
    assert (looked_up[0], asked) == (f"{NAME}.", [NAME])


def as_files(authority: Authority, client: Identity) -> Options:
    return {"tlsCaFile": authority.ca_file, "tlsCertFile": client.cert_file, "tlsKeyFile": client.key_file}


@pytest.mark.parametrize("password", [None, "a secret of the key"])
def test_a_client_certificate(devbroker: DevBroker, authority: Authority, password: str | None) -> None:
    options = as_files(authority, authority.issue("ada", password=password))
    secret = {} if password is None else {"tlsKeyPassword": password}
    send(devbroker, authority.issue(), clients=authority.ca_file, **options, **secret)


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
            monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load_and_look)
            connected(url_of(port), **as_text(authority, client, password)).close()
        assert [on_disk for on_disk, _ in seen] == [not in_memory]
        assert in_memory or seen == [(True, 0)]
        assert list(tmp_path.iterdir()) == []

    def test_what_is_wrong_in_it_is_not_repeated(self, authority: Authority, tmp_path: Path) -> None:
        good = as_text(authority, authority.issue("ada"), None)
        certificate, private = "CERTIFICATE", "PRIVATE KEY"
        for key, kind in (
            ("tlsCaFile", certificate),
            ("tlsCertFile", certificate),
            ("tlsKeySecret", private),
        ):
            text = f"-----BEGIN {kind}-----\ns3cret\n-----END {kind}-----"
            with pytest.raises(TlsRefused) as refused:
                connected(url_of(unused_port()), **{**good, key: text})
            trace = "".join(traceback.format_exception(refused.value))
            assert f"{key} = (PEM text)" in trace
            assert "s3cret" not in trace and "BEGIN" not in trace


def test_a_key_without_its_password_is_an_error_and_no_question(
    devbroker: DevBroker, authority: Authority
) -> None:
    options = as_files(authority, authority.issue("ada", password="right"))
    for secret, problem in (({}, "is not given"), ({"tlsKeyPassword": "wrong"}, "does not decrypt")):
        text = refusal(devbroker, authority.issue(), **options, **secret)
        assert f"tlsKeyPassword {problem}" in text and "private key in tlsKeyFile" in text
        assert "wrong" not in text


class TestAFileThatCannotBeUsed:
    """OpenSSL says only "PEM lib" of most of them: the error names the option and what is wrong with it."""

    @pytest.mark.parametrize("option", ["tlsCaFile", "tlsCertFile", "tlsKeyFile"])
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (None, "No such file"),
            (b"\x30\x82\x03", "must be converted to PEM first"),  # as DER and PKCS#12 begin
            (b"-----BEGIN DH PARAMETERS-----\nQQ==\n-----END DH PARAMETERS-----\n", "it has no -----BEGIN"),
        ],
    )
    def test_is_named(
        self, authority: Authority, tmp_path: Path, option: str, content: bytes | None, words: str
    ) -> None:
        path = tmp_path / "bad"
        if content is not None:
            path.write_bytes(content)
        options = as_files(authority, authority.issue("ada")) | {option: path}
        with pytest.raises(TlsRefused) as refused:
            connected(url_of(unused_port()), **options)
        assert f"cannot use {option} = {path}: " in str(refused.value) and words in str(refused.value)

    @pytest.mark.parametrize("joint", [" ", "\\n"])
    @pytest.mark.parametrize("option", ["tlsCaFile", "tlsCertFile", "tlsKeySecret"])
    def test_text_on_one_line(self, authority: Authority, option: str, joint: str) -> None:
        """So a secret store may hand it out, or a variable of the environment."""
        options = as_text(authority, authority.issue("ada"), None)
        options[option] = options[option].replace("\n", joint)
        with pytest.raises(TlsRefused, match=rf"cannot use {option} = \(PEM text\): the lines .* are joined"):
            connected(url_of(unused_port()), **options)

    def test_a_key_of_another_certificate(self, authority: Authority) -> None:
        options = as_files(authority, authority.issue("ada"))
        options["tlsKeyFile"] = authority.issue("bob").key_file
        with pytest.raises(TlsRefused, match="tlsKeyFile has another private key than that of tlsCertFile"):
            connected(url_of(unused_port()), **options)


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
            # Nor is it tried where the other one is unencrypted.
            urls = [url_of(one, other), f"{url_of(one)},{devbroker.url}"]
            for url in urls if bad_first else [url_of(unused_port(), one, other)]:
                with pytest.raises(TlsRefused, match=f"the certificate of 127.0.0.1:{one} is not accepted"):
                    connected(url, tlsCaFile=authority.ca_file)
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
            connected(url_of(proxy.port), tlsCaFile=authority.ca_file).close()
            releasing.join()

    def test_a_server_without_tls_may_say_nothing(self) -> None:
        with (
            tcp_server(says()) as port,
            pytest.raises(ConnectTimeout, match=r"connectTimeout \(0.9s\); is it a port with TLS"),
        ):
            connected(url_of(port), connectTimeout="900ms")

    def test_a_handshake_that_is_broken_off_is_no_refusal(
        self, devbroker: DevBroker, authority: Authority
    ) -> None:
        """A broker that starts or stops behind a load balancer."""
        with (
            tcp_server(lambda connection: None) as closing,
            tls_front(devbroker.port, authority.issue().server_context()) as port,
        ):
            with pytest.raises(ConnectFailed, match=r"broke off the TLS handshake .*a port with TLS"):
                connected(url_of(closing))
            connected(url_of(closing, port), tlsCaFile=authority.ca_file).close()


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

    sock = mock.Mock(recv=mock.Mock(side_effect=error), getpeername=lambda: ("127.0.0.1", 1))
    stream = ByteStream(sock, "broker:1")
    with pytest.raises(TlsRefused if refused else ConnectionLost):
        stream.read()
