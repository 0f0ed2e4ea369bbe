"""Points inside Spark's own processes: a task's worker, the stream reader and the driver die, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.drivers import START, SparkDriver
from support.matrix import MODES
from support.points import Point, Points
from support.spark import BatchFiles
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.spark.stream_reader import StompStreamReader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

QUEUE = "/queue/orders"
BATCH = 20
WORKER = Point.before(StompStreamReader.read, 2, "kill")
READER = Point.after(StompStreamReader.partitions, 5, "kill")
DRIVER = Point.after(BatchFiles.write, 8, "kill-driver")


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=[pytest.mark.soak] * (mode == "plain")) for mode in MODES if mode != "journal"],
)
def test_each_process_dies_once(devbroker: DevBroker, tmp_path: Path, mode: str) -> None:
    bodies = [f"order {number}" for number in range(12 * BATCH)]
    devbroker.publish_many(QUEUE, [body.encode() for body in bodies])
    points = Points(tmp_path / "points", WORKER, READER, DRIVER)
    options = {"url": devbroker.url, "maxMessagesPerTrigger": str(BATCH), **MODES[mode](tmp_path)}
    with SparkDriver(tmp_path, "batches", QUEUE, options, points) as driver:
        for index in (1, 2):
            wait_until(lambda: not driver.running, START, "the end of the driver")
            assert points.reached(index), driver.log
            # A task that dies is tried again, without an end of the query.
            assert points.reached(0)
            driver.start()

        def done() -> bool:
            assert driver.running, driver.log
            return set(bodies) <= set(driver.rows()) and devbroker.queue(QUEUE).depth == 0

        wait_until(done, START, "all rows and all ACKs")
        driver.stop()
    duplicates = len(driver.rows()) - len(bodies)
    assert duplicates <= (4 * BATCH if mode == "plain" else 0)
