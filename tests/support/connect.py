"""A Spark Connect server whose executors are other processes: what is nearest here to a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from support.brokers.base import free_ports, is_listening
from support.brokers.process import Process

_START = 180.0
_HOME = Path(pyspark.__file__).parent


class ConnectServer:
    """A server with two executors on this machine; a context manager.

    It works in ``folder``, which also has its log. ``settings`` are added to Spark's.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        (self._port,) = free_ports(1)
        self._settings = {
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **settings,
        }
        self._folder = folder
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """The value of ``SPARK_REMOTE``."""
        return f"sc://localhost:{self._port}"

    @property
    def client(self) -> dict[str, str]:
        """The environment of a client. It finds no Java, so that one that starts a JVM fails."""
        return {"SPARK_REMOTE": self.url, "JAVA_HOME": str(self._folder / "no-java")}

    @property
    def log(self) -> str:
        """The end of what the server and its executors wrote."""
        return (self._folder / "server.log").read_text(errors="replace")[-4_000:]

    def __enter__(self) -> ConnectServer:
        conf: list[str] = [part for pair in self._settings.items() for part in ("--conf", "=".join(pair))]
        main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        where = ["--master", "local-cluster[2,1,1024]"]
        command = [str(_HOME / "bin" / "spark-submit"), *main, *where, *conf, "spark-internal"]
        variables = {"SPARK_HOME": str(_HOME), "PYSPARK_PYTHON": sys.executable}
        self._process = Process(command, self._folder / "server.log", variables, self._folder)
        self._process.wait_ready(lambda: is_listening(self._port), _START)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop()
