"""A broker and a frame server at ::1."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers.fixtures import BrokerPool
from support.driven import Run, publish
from support.tcp import needs_ipv6

from spark_stomp.commands.main import main


@needs_ipv6
@pytest.mark.broker
def test_rabbitmq(broker_pool: BrokerPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker, password = broker_pool.get("rabbitmq"), tmp_path / "password"
    password.write_text(str(broker.password))
    queue, url = broker.new_queue(), f"stomp://[::1]:{broker.port}"
    options = broker.options(url=url, destination=queue)
    with Run(options, frameServerHost="::1") as query:
        assert publish(options, queue, [b"one", b"two"]) == 2
        assert [row["body"] for row in query.gather(2)] == [b"one", b"two"]
        query.commit()
        broker.wait_for(queue, ready=0)
    assert main(["probe", url, "--login", "guest", "--password-file", str(password)]) == 0
    assert capsys.readouterr().out.startswith(f"{url}\n")
