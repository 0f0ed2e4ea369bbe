"""spark-stomp probe, send, peek and tail on every broker: by what the broker's own management says, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_every_broker

from spark_stomp.brokers import dialect_named
from spark_stomp.commands.main import main


@on_every_broker
@pytest.mark.usefixtures("credentials")
def test_probe_send_and_peek(broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    queue, lines = broker.new_queue(), ["one", "two", "three"]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n")

    assert main(["probe", broker.url, queue]) == 0
    printed = capfd.readouterr().out
    assert re.search(f"  dialect +{broker.dialect}\n", printed)
    assert re.search(f"  {queue} +queue\n", printed)

    assert main(["send", broker.url, queue, str(tmp_path / "lines"), "--header", "colour=blue"]) == 0
    assert "3 messages to " in capfd.readouterr().err
    broker.wait_for(queue, ready=3)

    free = dialect_named(broker.dialect).browse_headers is not None
    if not free:
        with pytest.raises(SystemExit) as ended:
            main(["peek", broker.url, queue])
        assert ended.value.code == 2
        assert "--yes" in capfd.readouterr().err
    yes = [] if free else ["--yes"]
    assert main(["peek", broker.url, queue, "-n", "2", "--bodies", *yes]) == 0
    assert capfd.readouterr().out.splitlines() == lines[:2]
    assert main(["peek", broker.url, queue, "-o", "idleTimeout=500ms", *yes]) == 0
    printed = capfd.readouterr().out
    assert [line for line in printed.splitlines() if line in lines] == lines
    assert printed.count("  colour: blue\n") == 3
    # RabbitMQ alone counts what was given back.
    assert ("redelivered" in printed.partition("\n")[0]) == (not free and broker.dialect == "rabbitmq")
    broker.wait_for(queue, ready=3)
