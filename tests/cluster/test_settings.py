"""Settings of Spark that real clusters have: each message is read once, and no secret is in an event log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster.test_local_cluster import APPLICATION, BODIES, QUEUE
from support.drivers import START, application
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.cluster, pytest.mark.timeout(600)]

PASSWORD = "hunter2-of-the-test"
SETTINGS = {
    "authenticated and encrypted": {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "of the test",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
    },
    "speculation": {
        "spark.speculation": "true",
        "spark.speculation.interval": "10ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
    },
    "dynamic allocation": {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
    },
    "new Python workers": {"spark.python.worker.reuse": "false"},
    "bounded Python workers": {"spark.executor.pyspark.memory": "1g"},
    "other serializer": {"spark.serializer": "org.apache.spark.serializer.KryoSerializer"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_each_message_is_read_once(devbroker: DevBroker, settings: dict[str, str], tmp_path: Path) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    run(devbroker, tmp_path, settings)
    assert sorted(json.loads((tmp_path / "seen.json").read_text())) == [body.decode() for body in BODIES]
    wait_until(lambda: devbroker.queue(QUEUE).depth == 0, what="all ACKs")


def test_no_secret_is_in_the_event_log(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    with DevBroker(users={"ada": PASSWORD}) as broker:
        broker.publish_many(QUEUE, BODIES)
        run(
            broker,
            tmp_path,
            {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": str(events),
                "spark.eventLog.compress": "false",
            },
            login="ada",
            password=PASSWORD,
        )
    written = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert "StreamingQuery" in written, "the log is of something else"
    assert PASSWORD not in written and PASSWORD not in (tmp_path / "log").read_text(errors="replace")


def run(broker: DevBroker, folder: Path, settings: dict[str, str], **options: str) -> None:
    (folder / "go on").touch()
    given = (broker.url, QUEUE, str(folder), json.dumps(settings), json.dumps(options))
    with application(APPLICATION, folder, *given) as process:
        assert process.wait(START) == 0, (folder / "log").read_text(errors="replace")[-3_000:]
