"""Where the frame server of a run listens, with TLS or without, as the options say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from support.brokers.base import free_ports
from support.tcp import needs_ipv6

from spark_stomp.errors import FrameServerError, OptionError
from spark_stomp.frameserver import FrameServer, RangeTicket, fetch, open_frame_server, server
from spark_stomp.options import parse_source_options
from spark_stomp.options.endpoint import is_loopback

Open = Callable[..., FrameServer]


@pytest.fixture
def opened() -> Iterator[Open]:
    with ExitStack() as stack:

        def open_with(**options: str) -> FrameServer:
            given = {
                "url": "stomp://broker",
                "destination": "/queue/a",
                "frameServerHost": "127.0.0.1",
                **options,
            }
            wanted = parse_source_options({key: value for key, value in given.items() if value})
            made = open_frame_server(wanted, lambda ticket: iter([]))
            stack.callback(made.close)
            return made

        yield open_with


LOOPBACK = ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LocalHost")
OTHERS = ("0.0.0.0", "::", "10.0.0.1", "fe80::1", "driver.example", "localhost.example")


@pytest.mark.parametrize("host", [*LOOPBACK, *OTHERS])
def test_what_is_surely_loopback(host: str) -> None:
    assert is_loopback(host) == (host in LOOPBACK)


@needs_ipv6
@pytest.mark.parametrize("tls", ["auto", "true"])
def test_ipv6(opened: Open, tls: str) -> None:
    address = opened(frameServerHost="[::1]", frameServerTls=tls).address
    assert address.host_port == f"[::1]:{address.port}"
    with pytest.raises(FrameServerError, match=rf"frame server at \[::1\]:{address.port} delivered"):
        # It is reached: it has no frames.
        list(fetch(address, RangeTicket("log", 0, 1)))


@pytest.mark.parametrize(
    ("host", "tls", "local_ip", "has_tls"),
    [
        ("127.0.0.1", "auto", "", False),
        ("127.0.0.1", "false", "", False),
        ("127.0.0.1", "true", "", True),
        ("0.0.0.0", "auto", "", True),
        # Plain text on a network only on demand, and the log says so.
        ("0.0.0.0", "false", "", False),
        # SPARK_LOCAL_IP counts as the option does.
        ("", "auto", "127.0.0.1", False),
        ("", "auto", "0.0.0.0", True),
    ],
)
def test_what_has_tls(
    opened: Open,
    host: str,
    tls: str,
    local_ip: str,
    has_tls: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", local_ip)
    server = opened(frameServerHost=host, frameServerTls=tls)
    assert (server.address.key_pair is not None) == has_tls
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == ((host, tls) == ("0.0.0.0", "false"))
    assert all("frameServerTls = false" in one for one in warned)


def test_each_run_has_its_own_key_pair_and_token(opened: Open) -> None:
    one, two = (opened(frameServerTls="true").address for _ in range(2))
    assert one.key_pair != two.key_pair
    assert one.token != two.token


class TestPort:
    def test_the_one_that_is_asked_for(self, opened: Open) -> None:
        (port,) = free_ports(1)
        assert opened(frameServerPort=str(port)).address.port == port

    def test_a_busy_one_is_named(self, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "_LAST_RUN", 0.0)
        port = opened().address.port
        with pytest.raises(OptionError, match=f"frameServerPort = {port} is in use on 127.0.0.1"):
            opened(frameServerPort=str(port))

    def test_it_waits_for_the_last_run_to_close(self, opened: Open) -> None:
        last = opened()
        closing = threading.Timer(0.3, last.close)
        closing.start()
        assert opened(frameServerPort=str(last.address.port)).address.port == last.address.port
        closing.join()

    @pytest.mark.parametrize("port", ["0", "65536", "-1", "x"])
    def test_what_is_no_port_is_refused(self, opened: Open, port: str) -> None:
        with pytest.raises(OptionError, match="frameServerPort"):
            opened(frameServerPort=port)


def test_an_address_of_another_machine_is_an_error_with_its_reason(opened: Open) -> None:
    with pytest.raises(
        OptionError, match=r"cannot listen on 192.0.2.200, any port: .*assign.*frameServerHost"
    ):
        opened(frameServerHost="192.0.2.200")
