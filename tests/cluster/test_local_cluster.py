"""Two executors in processes of their own: tasks fetch over the exchange, and one executor may die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.drivers import START
from support.processes import executors
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/orders"
BODIES = [b"order %05d" % number for number in range(5_000)]
APPLICATION = Path(__file__).with_name("application.py")

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


@pytest.mark.timeout(600)
def test_an_executor_that_dies_costs_no_message(devbroker: DevBroker, tmp_path: Path) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
    }
    command = [sys.executable, str(APPLICATION), devbroker.url, QUEUE, str(tmp_path)]
    with (tmp_path / "log").open("wb") as output:
        application = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        wait_until(lambda: (tmp_path / "halfway").exists(), START, "the first batches")
        running = executors(application.pid)
        assert len(running) == 2
        running[0].kill()
        (tmp_path / "go on").touch()
        wait_until(lambda: application.poll() is not None, START, "the end of the application")
    finally:
        application.kill()
        application.wait(PATIENCE)
    assert application.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert sorted(seen) == [body.decode() for body in BODIES]
    wait_until(lambda: devbroker.queue(QUEUE).depth == 0, what="all ACKs")
