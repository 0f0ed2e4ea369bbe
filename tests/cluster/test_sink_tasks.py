"""Tasks of the sink on a cluster: an executor dies in the middle of a write, a speculative attempt wins."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest
from support.brokers import Broker
from support.brokers.base import free_ports, is_listening
from support.brokers.fixtures import BrokerPool
from support.drivers import START, application
from support.points import Point, Points, session_members
from support.processes import executors, kill
from support.relay import drained_once
from support.waiting import PATIENCE, wait_until

from spark_stomp.sink.sender import Sender

APPLICATION = Path(__file__).with_name("writing.py")
COUNT = 4_000
BROKERS = ["artemis", "rabbitmq", "activemq"]
WINDOW = 100
# When both tasks together have sent the fourth part of all.
MIDDLE = COUNT // WINDOW // 4

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.cluster, pytest.mark.broker]


class Write:
    """The application, one of whose tasks is held in the middle."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], points: Points) -> None:
        self.folder, self.process, self.points = folder, process, points

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3_000:]

    def wait_held(self) -> int:
        """The process id of the task's worker, once it is in the middle."""
        return self.points.wait_reached(0, START)

    def wait_written(self) -> None:
        """The end of the write, which the application then awaits permission to leave."""

        def written() -> bool:
            assert self.process.poll() is None, self.log
            return (self.folder / "written").exists()

        wait_until(written, START, "the end of the write")

    def finish(self) -> None:
        self.points.release(0)
        (self.folder / "go on").touch()
        assert self.process.wait(START) == 0, self.log


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


@contextmanager
def writing(broker: Broker, folder: Path, master: str, points: Points, queue: str) -> Iterator[Write]:
    options = broker.options(
        destination=queue, dedupKey="id", receiptWindow=WINDOW, sendHeaders=json.dumps(broker.crash_safe)
    )
    given = (master, str(folder), str(COUNT), json.dumps(options))
    with application(APPLICATION, folder, *given, points=points) as process:
        yield Write(folder, process, points)


def check(broker: Broker, queue: str, folder: Path) -> None:
    """Every id is there, some of them twice, and our source with ``idHeader`` has each once."""
    # RabbitMQ counts the messages of a quorum queue only every few seconds.
    wait_until(lambda: broker.depth(queue) >= COUNT, what="the messages in the queue")
    arrived = broker.depth(queue)
    if broker.dialect == "artemis":
        assert arrived == COUNT
    else:
        assert arrived > COUNT, "nothing was sent again: this test proves nothing"
    assert sorted(map(int, drained_once(broker, queue, folder))) == list(range(COUNT))


def held_in_the_middle(folder: Path) -> Points:
    return Points(folder / "points", Point.after(Sender.send, MIDDLE, "hold"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BROKERS)
def test_an_executor_dies_in_the_middle_of_a_write(
    broker_pool: BrokerPool, name: str, tmp_path: Path
) -> None:
    broker = broker_pool.get(name)
    queue, points = broker.new_queue(), held_in_the_middle(tmp_path)
    with writing(broker, tmp_path, "local-cluster[2,1,1024]", points, queue) as write:
        held = write.wait_held()
        above = {process.pid for process in psutil.Process(held).parents()}
        (executor,) = (one for one in executors(write.process.pid) if one.pid in above)
        kill(executor.pid)
        write.wait_written()
        write.finish()
    check(broker, queue, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BROKERS)
def test_a_speculative_attempt_wins(broker_pool: BrokerPool, name: str, tmp_path: Path) -> None:
    """The write ends while one attempt of one task is held: only another attempt can have done its work."""
    broker = broker_pool.get(name)
    queue, points = broker.new_queue(), held_in_the_middle(tmp_path)
    with (
        standalone_cluster(tmp_path, {**os.environ, **points.environment()}) as master,
        writing(broker, tmp_path, master, points, queue) as write,
    ):
        write.wait_held()
        write.wait_written()
        write.finish()
    check(broker, queue, tmp_path)
