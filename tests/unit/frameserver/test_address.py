"""Where the frame server listens, and whether a command line of Spark's JVM shows a local master.

streaming/test_master.py has a real one.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.waiting import PATIENCE

from spark_stomp.frameserver import FrameServerAddress, server
from spark_stomp.frameserver.server import frame_server_host

JAVA = ["/usr/bin/java", "-cp", "/spark/jars/*", "-Xmx1g"]
SUBMIT = [*JAVA, "org.apache.spark.deploy.SparkSubmit"]


def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]) -> bool:
    written = tmp_path / "cmdline"
    written.write_text("\0".join([*command, ""]))
    monkeypatch.setattr(server, "Path", lambda path: written)
    return server.master_is_local()


@pytest.mark.parametrize(
    "arguments",
    [
        "--conf spark.master=local[2,2] --conf spark.ui.enabled=false pyspark-shell",
        "--name x --conf spark.master=local pyspark-shell",
        "-c spark.master=local[*] app.py",
        "--master local[*] --verbose app.py --master yarn",
        "--master=local[4] app.py",
        "--verbose --master local --conf spark.master=local[2] app.py",
    ],
)
def test_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str) -> None:
    assert seen(monkeypatch, tmp_path, [*SUBMIT, *arguments.split(" ")])


@pytest.mark.parametrize(
    "arguments",
    [
        "pyspark-shell",
        "app.py --master local",
        "app.py --conf spark.master=local",
        "--name local app.py",
        "--name --master local app.py",
        "--conf spark.app.master=local app.py",
        "--master local-cluster[1,1,1024] app.py",
        "--master spark://local:7077 app.py",
        "--master local --conf spark.master=yarn app.py",
        "--conf spark.master=yarn --master local[*] app.py",
        "--master",
        "",
    ],
)
def test_it_is_not_surely(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str) -> None:
    assert not seen(monkeypatch, tmp_path, [*SUBMIT, *arguments.split(" ")])


def test_others_and_no_command_line_show_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in ([*JAVA, "Other"], ["python"]):
        assert not seen(monkeypatch, tmp_path, [*program, "--master", "local"])
    monkeypatch.setattr(server, "Path", lambda path: tmp_path / "none")
    assert not server.master_is_local()


def named(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """The machine's name has these addresses; without any it is not known. No variable names an address."""

    def resolve(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if not addresses:
            raise OSError("unknown")
        families = (socket.AF_INET6 if ":" in one else socket.AF_INET for one in addresses)
        return [(family, 1, 6, "", (one, 0)) for family, one in zip(families, addresses, strict=True)]

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr("socket.getaddrinfo", resolve)


def test_a_look_up_that_hangs_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [answers.wait(PATIENCE)])
    monkeypatch.setattr(server, "_LOOK_UP", 0.1)
    monkeypatch.setattr(server, "master_is_local", lambda: False)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    outward(monkeypatch, "10.9.8.7", None)
    begun = time.monotonic()
    try:
        assert frame_server_host(None) == "10.9.8.7"
        assert "look-up of its name has no answer. If tasks cannot" in caplog.text
        with pytest.raises(OSError, match="look-up of its name"):
            server.listening("driver.example", 0, 0.0)
    finally:
        answers.set()
    assert time.monotonic() - begun < PATIENCE / 2


def outward(monkeypatch: pytest.MonkeyPatch, ipv4: str | None, ipv6: str | None) -> None:
    """Packets leave the machine from these addresses; None: no route."""

    class Probe(socket.socket):
        def connect(self, address: Any) -> None:
            assert self.type == socket.SOCK_DGRAM
            if self.getsockname()[0] is None:
                raise OSError("no route")

        def getsockname(self) -> tuple[str | None, int]:
            return (ipv6 if self.family == socket.AF_INET6 else ipv4), 4711

    monkeypatch.setattr("socket.socket", Probe)


def test_the_frame_server_is_on_loopback_then_unless_it_is_told_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named(monkeypatch, "10.9.8.7")
    for local, expected in ((True, "127.0.0.1"), (False, "10.9.8.7")):
        monkeypatch.setattr(server, "master_is_local", lambda: local)  # noqa: B023
        assert frame_server_host(None) == expected
        assert frame_server_host("10.1.2.3") == "10.1.2.3"
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.1.2.4")
    monkeypatch.setattr(server, "master_is_local", lambda: True)
    assert frame_server_host(None) == "10.1.2.4"
    monkeypatch.setenv("SPARK_LOCAL_IP", "[fd00::3]")
    assert frame_server_host(None) == "fd00::3"
    assert frame_server_host("[::1]") == "::1"


class TestAddress:
    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            (["10.9.8.7"], "10.9.8.7"),
            # IPv4 first, in whatever order the resolver has them.
            (["fd00::7", "10.9.8.7"], "10.9.8.7"),
            # Also if only packets that leave the machine show one, because executors may have no IPv6.
            (["127.0.1.1", "::1", "fd00::7"], "10.1.2.3"),
        ],
    )
    def test_that_of_the_machines_name(
        self, monkeypatch: pytest.MonkeyPatch, names: list[str], expected: str
    ) -> None:
        named(monkeypatch, *names)
        outward(monkeypatch, "10.1.2.3", "fd00::2")
        assert frame_server_host(None) == expected

    def test_with_ipv6_alone_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        named(monkeypatch, "127.0.1.1", "fd00::7")
        outward(monkeypatch, None, "fd00::2")
        assert frame_server_host(None) == "fd00::7"

    @pytest.mark.parametrize(
        "names", [[], ["127.0.1.1"], ["127.0.1.1", "::1"], ["fe80::1%eth0"], ["169.254.3.4"]]
    )
    @pytest.mark.parametrize(
        ("out", "expected"),
        [
            (("10.1.2.3", "fd00::2"), "10.1.2.3"),
            (("10.1.2.3", None), "10.1.2.3"),
            ((None, "fd00::2"), "fd00::2"),
            (("127.0.0.1", "fd00::2"), "fd00::2"),
            ((None, "fe80::2%eth0"), "127.0.0.1"),
            ((None, None), "127.0.0.1"),
        ],
    )
    def test_else_that_by_which_packets_leave_it(
        self, monkeypatch: pytest.MonkeyPatch, names: list[str], out: tuple[str | None, ...], expected: str
    ) -> None:
        named(monkeypatch, *names)
        outward(monkeypatch, *out)
        assert frame_server_host(None) == expected

    def test_ipv6_is_bracketed(self) -> None:
        assert FrameServerAddress("::1", 5, "t").host_port == "[::1]:5"
