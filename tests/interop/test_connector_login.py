"""Passwords that change on real brokers, client ids that are in use, and names that certificates have."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from support.brokers import Broker
from support.brokers.activemq import ActiveMQ, ManagedActiveMQ
from support.brokers.fixtures import BrokerPool, on_real_brokers
from support.brokers.rabbitmq import RabbitMQ
from support.driven import Run, publish
from support.options import sink_options, source_options
from support.proxy import FaultProxy
from support.receivers import running
from support.slices import encoded
from support.waiting import wait_until

from spark_stomp.errors import FrameEncodeError, LoginRefused, TlsRefused
from spark_stomp.sink.sender import Sender
from spark_stomp.transport import open_connection
from spark_stomp.transport.logins import RefusedLogins

TEN = [b"%d" % number for number in range(10)]
MORE = [b"more %d" % number for number in range(10)]
Managed = RabbitMQ | ManagedActiveMQ


@pytest.fixture(scope="module")
def activemq(broker_pool: BrokerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedActiveMQ]:
    """Started after the ordinary one has shown that ActiveMQ is available."""
    broker_pool.get("activemq")
    broker = ManagedActiveMQ(tmp_path_factory.mktemp("activemq"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(params=["rabbitmq", "activemq"])
def managed(
    request: pytest.FixtureRequest, broker_pool: BrokerPool, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Managed]:
    """A broker whose password changes; it has the old one again at the end."""
    name = request.param
    broker = broker_pool.get(name) if name == "rabbitmq" else request.getfixturevalue(name)
    before = broker.password
    yield broker
    monkeypatch.undo()
    broker.change_password(broker.login, before)


def change(broker: Managed, monkeypatch: pytest.MonkeyPatch) -> str:
    """Change the password on the broker; the test's own connections use the new one from then on."""
    password = f"changed-{id(broker)}"
    assert broker.login is not None
    broker.change_password(broker.login, password)
    monkeypatch.setattr(broker, "password", password)
    return password


def refusals(caplog: pytest.LogCaptureFixture, part: str) -> int:
    """How often a part of the package said that a login was refused."""
    said = [record for record in caplog.records if record.name == f"spark_stomp.{part}"]
    return sum("[STOMP_LOGIN_REFUSED]" in record.getMessage() for record in said)


@pytest.mark.broker
@pytest.mark.rule("4.8", "S.5")
@pytest.mark.usefixtures("quick_logins")
class TestAPasswordThatChanges:
    """Then the connections are cut. All goes on, and nothing is lost."""

    def test_is_refused_until_the_file_has_it(
        self,
        managed: Managed,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (file := tmp_path / "password").write_text(f"{managed.password}\n")
        queue, target = managed.new_queue(), managed.new_queue()
        with FaultProxy(managed.port) as proxy:
            login = {"login": managed.login, "passwordFile": file}
            with (
                running(source_options(proxy.url, queue, **login)) as receiver,
                Sender(sink_options(proxy.url, **login)) as sender,
            ):
                wait_until(lambda: receiver.status().subscribed, what="the subscription")
                sender.send(encoded(TEN, target))
                password = change(managed, monkeypatch)
                # A living connection goes on.
                publish(managed.options(), queue, [b"before"])
                wait_until(lambda: receiver.status().received == 1, what="a message")
                proxy.cut()
                sending = threading.Thread(
                    target=lambda: (sender.send(encoded(MORE, target, len(TEN))), sender.finish())
                )
                sending.start()
                for part in ("receiver.receiver", "sink.sender"):
                    wait_until(lambda part=part: refusals(caplog, part) >= 2, what="two refusals")
                file.write_text(password)
                sending.join()
                assert sender.figures.confirmed == len(TEN + MORE)
                publish(managed.options(), queue, TEN)
                # The first one again, because it was not ACKed.
                wait_until(lambda: receiver.status().received >= len(TEN) + 1, what="the messages")
                assert receiver.status().failure is None
        with Run(managed.options(destination=target)) as written:
            assert {row["body"] for row in written.gather(len(TEN + MORE))} == {*TEN, *MORE}

    def test_a_first_login_that_is_refused_is_not_tried_again(self, managed: Managed) -> None:
        options = {"login": managed.login, "password": "wrong"}
        with running(source_options(managed.url, managed.new_queue(), **options)) as receiver:
            wait_until(lambda: receiver.status().failure is not None, what="the failure")
            assert type(receiver.status().failure) is LoginRefused
            assert receiver.status().connection.attempts == 1
        with Sender(sink_options(managed.url, **options)) as sender, pytest.raises(LoginRefused):
            sender.open()


PRINTABLE = "".join(map(chr, range(33, 127)))
# RabbitMQ and ActiveMQ read escapes in CONNECT, and so all of it, and Artemis reads none.
LOGINS = {
    "a domain": (r"DOM\user", "p"),
    "a domain that looks like an escape": (r"DOM\nina", "p"),
    "all printable characters": (f"all{PRINTABLE} é€", f"{PRINTABLE} {PRINTABLE}é€"),
    "escapes": ("escapes", r"\n\c\r\\\q\\\\n\\"),
    "a line feed": ("feed", "a\nb"),
    "a carriage return": ("return", "a\rb"),
}
# Artemis has no way to write a line feed, and ActiveMQ none to write a carriage return.
NOT_CARRIED = {
    ("artemis", "a line feed"),
    ("artemis", "a carriage return"),
    ("activemq", "a carriage return"),
}


def add_user(broker: Broker, login: str, password: str) -> None:
    """A login that may connect, in the files of the Java brokers with escapes for what is no letter."""
    if isinstance(broker, RabbitMQ):
        name, word = (f"list_to_binary({[*text.encode()]})" for text in (login, password))
        of = f'rabbit_auth_backend_internal:set_permissions({name}, <<"/">>, <<>>, <<>>, <<>>, <<"t">>)'
        broker.evaluate(f'rabbit_auth_backend_internal:add_user({name}, {word}, <<"t">>), {of}.')
        return
    name, word = (
        "".join(c if c.isalnum() and c.isascii() else f"\\u{ord(c):04x}" for c in text)
        for text in (login, password)
    )
    at = "users.properties" if isinstance(broker, ActiveMQ) else "instance/etc/artemis-users.properties"
    with (broker.folder / at).open("a") as file:
        file.write(f"\n{name}={word}\n")
    # ActiveMQ reads the file again if it has changed since, and the system's clock for files may be behind.
    soon = time.time() + 1
    os.utime(broker.folder / at, (soon, soon))


@pytest.mark.broker
@pytest.mark.parametrize("name", ["rabbitmq", "activemq", "artemis"])
def test_a_login_has_any_characters(
    name: str,
    request: pytest.FixtureRequest,
    broker_pool: BrokerPool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By default, and with the option ``broker``."""
    broker = request.getfixturevalue("activemq") if name == "activemq" else broker_pool.get(name)
    monkeypatch.setattr("spark_stomp.transport.connect._refused", RefusedLogins())
    for what, (login, password) in LOGINS.items():
        add_user(broker, login, password)
        for named in ("auto", name):
            monkeypatch.setattr("spark_stomp.transport.connect._unescaping", set())
            options = source_options(broker.url, broker=named, login=login, password=password)
            carried: AbstractContextManager[object] = nullcontext()
            if (name, what) in NOT_CARRIED:
                carried = pytest.raises((LoginRefused, FrameEncodeError))
            with carried:
                open_connection(options.connection).close()


@pytest.mark.broker
@pytest.mark.rule("4.8")
@pytest.mark.usefixtures("quick_logins")
def test_a_client_id_that_the_last_run_still_has_is_waited_for(
    broker_pool: BrokerPool, caplog: pytest.LogCaptureFixture
) -> None:
    """ActiveMQ alone refuses it. The last run's machine is gone, say, and the broker has not noticed."""
    broker, client = broker_pool.get("activemq"), {"clientId": "ada"}
    options = source_options(
        broker.url, broker.new_topic(), durableName="d", reconnectTimeout="1m", **broker.credentials, **client
    )
    with open_connection(options.connection) as last, running(options) as receiver:
        wait_until(lambda: receiver.status().connection.attempts >= 2, what="two refusals")
        assert "[STOMP_CLIENT_ID_IN_USE]" in caplog.text and "already connected" in caplog.text
        last.close()
        wait_until(lambda: receiver.status().subscribed, what="the subscription")


@on_real_brokers
class TestACertificateForAnotherName:
    """Each broker has one for localhost, of an own authority, and is reached by its address."""

    def options(self, broker: Broker, **more: object) -> dict[str, str]:
        url = broker.tls_url.replace("localhost", "127.0.0.1")
        return broker.options(url=url, tlsCaFile=broker.ca, **more)

    def test_is_accepted_only_if_tls_server_name_has_it(self, broker: Broker) -> None:
        queue = broker.new_queue()
        with pytest.raises(TlsRefused, match="tlsServerName, must name the broker as its certificate does"):
            publish(self.options(broker), queue, TEN)
        options = self.options(broker, tlsServerName="localhost")
        assert publish(options, queue, TEN) == len(TEN)
        with Run({**options, "destination": queue}) as query:
            assert {row["body"] for row in query.gather(len(TEN))} == set(TEN)
