"""The example of docs/databricks.md, a declarative pipeline, on a Connect server with executors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.connect import ConnectServer
from support.pages import programs
from support.spark import classic_only
from support.wheel import ROOT

from spark_stomp.devbroker import DevBroker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.core,
    pytest.mark.skipif(find_spec("pyspark.pipelines") is None, reason="declarative pipelines came with 4.1"),
    classic_only("a pipeline needs a server of its own, which this test starts in any mode"),
]

PAGE = ROOT / "docs" / "databricks.md"
QUEUE, CONFIRMED = "/queue/orders", "/queue/confirmations"


def copy_of_the_example(folder: Path, broker: DevBroker) -> Path:
    """The example in ``folder`` with this broker; returns its spec."""
    shutil.copytree(ROOT / "conf" / "pipeline", folder)
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text()
    for placeholder, value in {
        "/data/pipelines/orders": str(folder),
        "stomp://localhost:61613": broker.url,
    }.items():
        assert placeholder in text
        text = text.replace(placeholder, value)
    spec.write_text(text)
    return spec


@contextmanager
def registered(spec: Path) -> Iterator[None]:
    """The source file registers the source, as the page says for Databricks.

    Spark's own client then fails at the end of a run, on a response that it does not know.
    """
    (register,) = programs(PAGE, "Pipelines")
    (source,) = (spec.parent / "transformations").glob("*.py")
    text = source.read_text()
    source.write_text(register + text)
    yield
    source.write_text(text)


def pipelines(server: ConnectServer, command: str, spec: Path) -> None:
    """What the command ``spark-pipelines`` runs, as a client of ``server``."""
    program = [sys.executable, "-m", "pyspark.pipelines.cli", command, "--spec", str(spec)]
    variables = {**os.environ, **server.client}
    done = subprocess.run(
        program, env=variables, cwd=spec.parent, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, f"{done.stdout[-2_000:]}{done.stderr[-2_000:]}\n{server.log}"


@pytest.mark.soak
@pytest.mark.timeout(420)  # 70 s on two idle cores (November 2026)
def test_two_updates_take_each_message_once(devbroker: DevBroker, tmp_path: Path) -> None:
    spec = copy_of_the_example(tmp_path / "example", devbroker)

    def publish(numbers: range) -> None:
        orders = ({"id": number, "item": f"item {number % 2}", "amount": 1.5} for number in numbers)
        devbroker.publish_many(QUEUE, [json.dumps(order).encode() for order in orders])

    def table(name: str) -> list[dict[str, Any]]:
        return pq.read_table(tmp_path / "server" / "warehouse" / name).to_pylist()

    (tmp_path / "server").mkdir()
    with ConnectServer(tmp_path / "server") as server:
        publish(range(3))
        with registered(spec):
            pipelines(server, "dry-run", spec)
        view = devbroker.queue(QUEUE)
        assert (view.delivered, view.depth) == (0, 3), "a dry run reads nothing"
        pipelines(server, "run", spec)
        publish(range(3, 8))
        pipelines(server, "run", spec)

    assert sorted(row["id"] for row in table("orders")) == list(range(8))
    assert len(table("messages")) == 8
    assert {row["item"]: row["amount"] for row in table("sales")} == {"item 0": 6.0, "item 1": 6.0}
    view = devbroker.queue(QUEUE)
    assert (view.acked, view.depth) == (8, 0)
    assert sorted(devbroker.bodies(CONFIRMED)) == [b"confirmed %d" % number for number in range(8)]
