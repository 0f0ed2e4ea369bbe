"""Tasks of the sink on a cluster, where a speculative attempt wins."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from support.brokers.base import free_ports, is_listening
from support.brokers.fixtures import BrokerPool
from support.drivers import START, application
from support.points import Point, Points, session_members
from support.processes import kill
from support.relay import drained_once
from support.waiting import PATIENCE, wait_until

from spark_stomp.sink.sender import Sender

APPLICATION = Path(__file__).with_name("writing.py")
COUNT = 4_000
WINDOW = 100
# When both tasks together have sent the fourth part of all.
MIDDLE = COUNT // WINDOW // 4

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.cluster, pytest.mark.broker]


@contextmanager
def standalone_cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A master and two workers with one core each; yields the master's URL. Executors have ``environment``.

    The workers count as two hosts: speculation needs that.
    """
    home, ports = Path(pyspark.__file__).parent, free_ports(4)
    url = f"spark://127.0.0.1:{ports[0]}"
    environment = {**environment, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    # It would win over the address that each of them is given.
    environment.pop("SPARK_LOCAL_IP", None)
    with ExitStack() as running:

        def start(role: str, host: str, ui_port: int, *arguments: str) -> None:
            # spark-class becomes the JVM.
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}"]
            command += ["--host", host, "--webui-port", str(ui_port), *arguments]
            log = running.enter_context((folder / f"{role} {host}.log").open("wb"))
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True
            )
            running.callback(process.wait, PATIENCE)
            running.callback(lambda: kill(*session_members(process.pid)))

        start("Master", "127.0.0.1", ports[1], "--port", str(ports[0]))
        wait_until(lambda: is_listening(ports[0]), START, "the master")
        for host, port in zip(("127.0.0.2", "127.0.0.3"), ports[2:], strict=True):
            folders = ("--work-dir", str(folder / host))
            start("Worker", host, port, "--cores", "1", "--memory", "1g", *folders, url)
        yield url


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["artemis", "rabbitmq", "activemq"])
def test_a_speculative_attempt_wins(broker_pool: BrokerPool, name: str, tmp_path: Path) -> None:
    """The write ends while one attempt of one task is held: only another attempt can have done its work.

    Every id is there, some of them twice, and our source with ``idHeader`` has each once.
    """
    broker = broker_pool.get(name)
    queue, points = broker.new_queue(), Points(tmp_path / "points", Point.after(Sender.send, MIDDLE, "hold"))
    options = broker.options(
        destination=queue, dedupKey="id", receiptWindow=WINDOW, sendHeaders=json.dumps(broker.crash_safe)
    )
    with standalone_cluster(tmp_path, {**os.environ, **points.environment()}) as master:
        given = (master, str(tmp_path), str(COUNT), json.dumps(options))
        with application(APPLICATION, tmp_path, *given, points=points) as process:

            def written() -> bool:
                assert process.poll() is None, (tmp_path / "log").read_text(errors="replace")[-3_000:]
                return (tmp_path / "written").exists()

            points.wait_reached(0, START)
            wait_until(written, START, "the end of the write")
            points.release(0)
            (tmp_path / "go on").touch()
            assert process.wait(START) == 0, (tmp_path / "log").read_text(errors="replace")[-3_000:]
    # RabbitMQ counts the messages of a quorum queue only every few seconds.
    wait_until(lambda: broker.depth(queue) >= COUNT, what="the messages in the queue")
    assert (broker.depth(queue) == COUNT) == (name == "artemis"), "nothing was sent again"
    assert sorted(map(int, drained_once(broker, queue, tmp_path))) == list(range(COUNT))
