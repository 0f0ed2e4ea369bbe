"""Where the frame server listens, and whether a command line of Spark's JVM shows a local master.

streaming/test_master.py has a real one.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from spark_stomp.frameserver import FrameServerAddress, address
from spark_stomp.frameserver.address import frame_server_host

JAVA = ["/usr/bin/java", "-cp", "/spark/jars/*", "-Xmx1g"]
SUBMIT = [*JAVA, "org.apache.spark.deploy.SparkSubmit"]


def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]) -> bool:
    written = tmp_path / "cmdline"
    written.write_text("\0".join([*command, ""]))
    monkeypatch.setattr(address, "Path", lambda path: written)
    return address.master_is_local()


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


@pytest.mark.parametrize("command", [[*JAVA, "Other", "--master", "local"], ["python", "--master", "local"]])
def test_another_program_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]
) -> None:
    assert not seen(monkeypatch, tmp_path, command)


def test_no_command_line_shows_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(address, "Path", lambda path: tmp_path / "none")
    assert not address.master_is_local()


def test_the_frame_server_is_on_loopback_then_unless_it_is_told_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostbyname", lambda name: "10.9.8.7")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    for local, expected in ((True, "127.0.0.1"), (False, "10.9.8.7")):
        monkeypatch.setattr(address, "master_is_local", lambda: local)  # noqa: B023
        assert frame_server_host(None) == expected
        assert frame_server_host("10.1.2.3") == "10.1.2.3"
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.1.2.4")
    monkeypatch.setattr(address, "master_is_local", lambda: True)
    assert frame_server_host(None) == "10.1.2.4"


class TestAddress:
    def test_a_machine_without_a_known_name_uses_loopback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(name: str) -> str:
            raise OSError("unknown")

        monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
        monkeypatch.setattr("socket.gethostbyname", unknown)
        assert frame_server_host(None) == "127.0.0.1"

    @pytest.mark.parametrize(("reachable", "expected"), [(True, "10.1.2.3"), (False, "127.0.0.1")])
    def test_a_name_for_loopback_is_passed_over(
        self, monkeypatch: pytest.MonkeyPatch, reachable: bool, expected: str
    ) -> None:
        class Probe(socket.socket):
            def connect(self, address: Any) -> None:
                assert self.type == socket.SOCK_DGRAM
                if not reachable:
                    raise OSError("no route")

            def getsockname(self) -> tuple[str, int]:
                return "10.1.2.3", 4711

        monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
        monkeypatch.setattr("socket.gethostbyname", lambda name: "127.0.1.1")
        monkeypatch.setattr("socket.socket", Probe)
        assert frame_server_host(None) == expected

    def test_ipv6_is_bracketed(self) -> None:
        assert FrameServerAddress("::1", 5, "t").location == "grpc+tcp://[::1]:5"
