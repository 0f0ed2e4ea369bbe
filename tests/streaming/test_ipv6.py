"""A query under Spark whose broker and frame server are at ::1: tasks in Spark's workers fetch from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.spark import Recorder, Running, stomp_stream
from support.tcp import needs_ipv6
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = [pytest.mark.spark, needs_ipv6]

QUEUE = "/queue/orders"


def test_all_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    bodies, seen = [b"order %d" % number for number in range(100)], Recorder()
    with DevBroker(host="::1") as broker:
        broker.publish_many(QUEUE, bodies)
        frame = stomp_stream(spark, broker.url, QUEUE, frameServerHost="::1")
        with Running(frame, tmp_path, seen) as running:
            running.wait(lambda: len(seen.bodies) >= 100, what="all rows")
        wait_until(lambda: broker.connections == 0, what="the end of the receiver")
    assert seen.bodies == bodies
