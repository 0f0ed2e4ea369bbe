"""A standalone cluster of Spark on loopback, whose workers count as two hosts: speculation asks for that."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark

from support.brokers.base import free_ports, is_listening
from support.drivers import START
from support.points import session_members
from support.processes import kill
from support.waiting import PATIENCE, wait_until

_HOME = Path(pyspark.__file__).parent
_MASTER, _WORKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")


class StandaloneCluster:
    """A master and two workers with one core each; a context manager. Executors inherit ``environment``."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = {**environment, "SPARK_HOME": str(_HOME), "SPARK_DAEMON_MEMORY": "256m"}
        # It would win over the address that each of them is given.
        self._environment.pop("SPARK_LOCAL_IP", None)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = free_ports(4)

    @property
    def url(self) -> str:
        """The master's, for Spark."""
        return f"spark://{_MASTER}:{self._ports[0]}"

    def __enter__(self) -> StandaloneCluster:
        self._start("Master", _MASTER, self._ports[1], "--port", str(self._ports[0]))
        wait_until(lambda: is_listening(self._ports[0]), START, "the master")
        for host, ui_port in zip(_WORKERS, self._ports[2:], strict=True):
            self._start("Worker", host, ui_port, "--cores", "1", "--memory", "1g", self.url)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            kill(*session_members(process.pid))
            process.wait(PATIENCE)

    def _start(self, role: str, host: str, ui_port: int, *arguments: str) -> None:
        # spark-class becomes the JVM.
        command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}"]
        command += ["--host", host, "--webui-port", str(ui_port), *arguments]
        if role == "Worker":
            command[-1:-1] = ["--work-dir", str(self._folder / host)]
        with (self._folder / f"{role} {host}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=self._environment,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    start_new_session=True,
                )
            )
