"""``query.stop()`` right after a batch: nothing lost, nothing left behind, an orderly goodbye."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.processes import stream_readers
from support.spark import Recorder, Running, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.soak)])
def test_stops_right_after_a_batch(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, rounds: int
) -> None:
    seen = Recorder()
    sent = []
    for round_number in range(rounds):
        body = b"round %d" % round_number
        devbroker.publish(QUEUE, body)
        sent.append(body)
        with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, seen) as running:
            running.wait(lambda body=body: body in seen.bodies, what=f"round {round_number}")
        wait_until(lambda done=round_number + 1: devbroker.disconnects == done, what="an orderly DISCONNECT")
    assert set(seen.bodies) == set(sent)
    # What was not proved committed comes again; nothing else does, and nothing is gone.
    left = devbroker.bodies(QUEUE)
    assert set(left) <= set(sent)
    assert devbroker.queue(QUEUE).acked + len(left) == rounds
    assert devbroker.connects == devbroker.disconnects == rounds
    wait_until(lambda: not stream_readers(), what="the end of the reader processes")
