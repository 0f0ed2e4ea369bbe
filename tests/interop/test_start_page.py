"""docs/start.md on RabbitMQ: the two orders are sent, and the program writes them, as the page says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.brokers.rabbitmq import RabbitMQ
from support.pages import ROOT, programs
from support.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PAGE = ROOT / "docs" / "start.md"
URL = "stomp://localhost:61613"
QUEUE = "/queue/orders"


@pytest.mark.soak  # a notebook and the tests of sinks do the same
@pytest.mark.timeout(330)
def test_the_first_job(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    (program,) = programs(PAGE, "A first job")
    sends = re.findall(r"^    (echo '.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    queue, credentials = rabbitmq.new_queue(), rabbitmq.credentials
    # As a reader starts it, whatever this session has set for Spark.
    clean = {name: value for name, value in os.environ.items() if not re.match("(PY)?SPARK_", name)}
    clean |= {"SPARK_STOMP_PASSWORD": credentials["password"], "ORDERS_PASSWORD": credentials["password"]}

    def own(text: str) -> str:
        text = text.replace(URL, rabbitmq.url).replace(QUEUE, queue).replace("guest", credentials["login"])
        return text.replace("venv/bin", str(Path(sys.executable).parent))

    assert len(sends) == 2
    for command in sends:
        subprocess.run(own(command), shell=True, env=clean, cwd=tmp_path, check=True, timeout=60)
    (peek,) = re.findall(r"```console\n\$ (.*?\n)(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    command, expected = map(own, peek)
    printed = subprocess.run(
        command,
        shell=True,
        env=clean,
        cwd=tmp_path,
        check=True,
        timeout=60,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert printed.stdout == expected
    (tmp_path / "orders.py").write_text(own(program), encoding="utf-8")
    with subprocess.Popen([sys.executable, "orders.py"], cwd=tmp_path, env=clean) as running:
        try:
            wait_until(
                lambda: running.poll() is not None or len(rows(tmp_path)) == 2, what="two rows", timeout=240
            )
            assert running.poll() is None
            rabbitmq.wait_for(queue, ready=0, unacked=0)
            running.send_signal(signal.SIGINT)  # Ctrl-C
            assert running.wait(60) == 0
        finally:
            running.kill()
    found = sorted(rows(tmp_path), key=lambda row: row["id"])
    assert [(row["id"], row["article"], row["price"]) for row in found] == [
        (1, "bread", 2.5),
        (2, "cheese", 7.0),
    ]
    assert all(row["rescued"] is None and row["malformed"] is None for row in found)


def rows(folder: Path) -> list[dict[str, object]]:
    """What is in the files that Spark has written."""
    files = [path for path in (folder / "orders").glob("*.parquet") if path.stat().st_size]
    return [row for path in files for row in pq.read_table(path).to_pylist()]
