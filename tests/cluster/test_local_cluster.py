"""Two executors in processes of their own: tasks fetch over the frame server, and one executor may die."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.drivers import START, application
from support.processes import executors
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/orders"
BODIES = [b"order %05d" % number for number in range(5_000)]
APPLICATION = Path(__file__).with_name("application.py")

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


@pytest.mark.timeout(600)
def test_an_executor_that_dies_costs_no_message(devbroker: DevBroker, tmp_path: Path) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    with application(APPLICATION, tmp_path, devbroker.url, QUEUE, str(tmp_path)) as process:
        wait_until(lambda: (tmp_path / "halfway").exists(), START, "the first batches")
        running = executors(process.pid)
        assert len(running) == 2
        running[0].kill()
        (tmp_path / "go on").touch()
        assert process.wait(START) == 0, (tmp_path / "log").read_text()[-3000:]
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert sorted(seen) == [body.decode() for body in BODIES]
    wait_until(lambda: devbroker.queue(QUEUE).depth == 0, what="all ACKs")
