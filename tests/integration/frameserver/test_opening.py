"""Where the frame server of a run listens, with TLS or without, as the options say."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest
from support.brokers.base import free_ports
from support.tcp import needs_ipv6

from spark_stomp.errors import FrameServerError, OptionError
from spark_stomp.frameserver import FrameServer, RangeTicket, fetch, open_frame_server, server
from spark_stomp.options import parse_source_options
from spark_stomp.options.endpoint import is_loopback


@pytest.fixture
def opened() -> Iterator[Callable[..., FrameServer]]:
    servers: list[FrameServer] = []

    def open_with(**options: str) -> FrameServer:
        given = {
            "url": "stomp://broker",
            "destination": "/queue/a",
            "frameServerHost": "127.0.0.1",
            **options,
        }
        wanted = parse_source_options({key: value for key, value in given.items() if value})
        servers.append(open_frame_server(wanted, lambda ticket: iter([])))
        return servers[-1]

    yield open_with
    for one in servers:
        one.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LocalHost"])
def test_surely_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "fe80::1", "driver.example", "localhost.example"]
)
def test_not_surely_loopback(host: str) -> None:
    assert not is_loopback(host)


@needs_ipv6
@pytest.mark.parametrize("tls", ["auto", "true"])
def test_ipv6(opened: Callable[..., FrameServer], tls: str) -> None:
    address = opened(frameServerHost="[::1]", frameServerTls=tls).address
    scheme = "grpc+tls" if tls == "true" else "grpc+tcp"
    assert address.location == f"{scheme}://[::1]:{address.port}"
    with pytest.raises(FrameServerError, match=rf"frame server at \[::1\]:{address.port} delivered"):
        # It is reached: it has no frames.
        list(fetch(address, RangeTicket("log", 0, 1)))


def test_loopback_is_plain_by_default(opened: Callable[..., FrameServer]) -> None:
    assert opened().address.key_pair is None


def test_spark_local_ip_counts_as_the_option_does(
    opened: Callable[..., FrameServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert opened(frameServerHost="").address.key_pair is None
    monkeypatch.setenv("SPARK_LOCAL_IP", "0.0.0.0")
    assert opened(frameServerHost="").address.key_pair is not None


def test_anything_else_has_tls_by_default(opened: Callable[..., FrameServer]) -> None:
    assert opened(frameServerHost="0.0.0.0").address.key_pair is not None


def test_loopback_has_tls_on_demand(opened: Callable[..., FrameServer]) -> None:
    assert opened(frameServerTls="true").address.key_pair is not None


def test_plain_text_on_a_network_only_on_demand_and_the_log_says_so(
    opened: Callable[..., FrameServer], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert opened(frameServerHost="0.0.0.0", frameServerTls="false").address.key_pair is None
    assert "frameServerTls = false" in caplog.text


def test_loopback_without_tls_needs_no_warning(
    opened: Callable[..., FrameServer], caplog: pytest.LogCaptureFixture
) -> None:
    opened(frameServerTls="false")
    assert caplog.text == ""


def test_each_run_has_its_own_key_pair_and_token(opened: Callable[..., FrameServer]) -> None:
    one, two = (opened(frameServerTls="true").address for _ in range(2))
    assert one.key_pair != two.key_pair
    assert one.token != two.token


class TestPort:
    def test_the_one_that_is_asked_for(self, opened: Callable[..., FrameServer]) -> None:
        (port,) = free_ports(1)
        assert opened(frameServerPort=str(port)).address.port == port

    def test_a_busy_one_is_named(
        self, opened: Callable[..., FrameServer], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "_LAST_RUN", 0.0)
        port = opened().address.port
        with pytest.raises(OptionError, match=f"frameServerPort = {port} is in use on 127.0.0.1"):
            opened(frameServerPort=str(port))

    def test_it_waits_for_the_last_run_to_close(self, opened: Callable[..., FrameServer]) -> None:
        last = opened()
        closing = threading.Timer(0.3, last.close)
        closing.start()
        assert opened(frameServerPort=str(last.address.port)).address.port == last.address.port
        closing.join()

    @pytest.mark.parametrize("port", ["0", "65536", "-1", "x"])
    def test_what_is_no_port_is_refused(self, opened: Callable[..., FrameServer], port: str) -> None:
        with pytest.raises(OptionError, match="frameServerPort"):
            opened(frameServerPort=port)


def test_an_address_of_another_machine_is_an_error_with_its_reason(
    opened: Callable[..., FrameServer],
) -> None:
    with pytest.raises(
        OptionError, match=r"cannot listen on 192.0.2.200, any port: .*assign.*frameServerHost"
    ):
        opened(frameServerHost="192.0.2.200")
