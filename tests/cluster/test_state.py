"""State behind the source, in RocksDB: after kills it has counted each message once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from support.drivers import START, application
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.cluster, pytest.mark.timeout(900)]

QUEUE = "/queue/orders"
BODIES = [b"%c %d" % (b"abcde"[number % 5], number) for number in range(3_000)]
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
}
# Batches that are there when it is killed.
KILLED_AT = (2, 7)


def test_each_message_is_counted_once(devbroker: DevBroker, tmp_path: Path) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    output = tmp_path / "output"

    def batches() -> list[int]:
        return sorted(int(path.name.partition("-")[2]) for path in output.glob("batch-*"))

    given = (devbroker.url, QUEUE, str(tmp_path), json.dumps(ROCKSDB))
    for at_least in (*KILLED_AT, None):
        with application(Path(__file__).with_name("stateful.py"), tmp_path, *given) as process:

            def there(at_least: int | None = at_least) -> bool:
                assert process.poll() is None, (tmp_path / "log").read_text(errors="replace")[-3_000:]
                if at_least is None:
                    return devbroker.queue(QUEUE).depth == 0
                return len(batches()) >= at_least

            wait_until(there, START, f"{at_least or 'all'} batches")
    counts: dict[str, int] = {}
    for number in batches():
        counts |= json.loads((output / f"batch-{number}").read_text())
    assert counts == Counter(body.decode()[0] for body in BODIES)
