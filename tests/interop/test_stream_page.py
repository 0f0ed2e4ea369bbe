"""The streams of docs/reading.md on RabbitMQ: the example as it is printed, the command line, and times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support.brokers.rabbitmq import RabbitMQ
from support.driven import publish
from support.pages import READING, programs
from support.streams import new_stream
from support.waiting import PATIENCE

from spark_stomp.commands.main import main
from spark_stomp.options import parse_batch_options, parse_source_options
from spark_stomp.source.offsets import INITIAL
from spark_stomp.source.planning import Mode
from spark_stomp.source.query import QueryRuntime
from spark_stomp.source.reads import read_stream

pytestmark = pytest.mark.broker

SECTION = "Streams of RabbitMQ"
URL = "stomp://localhost:61613"
QUEUE = "orders"
LATER = "2100-01-01T00:00:00Z"


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(330)  # 40 s on two idle cores (November 2026)
def test_the_example(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    (program,) = programs(READING, SECTION)
    (printed,) = programs(READING, SECTION, "text")
    assert URL in program and f"/queue/{QUEUE}" in program
    (tmp_path / "streams.py").write_text(program.replace(URL, rabbitmq.url), encoding="utf-8")
    # As a reader starts it, whatever this session has set for Spark.
    clean = {name: value for name, value in os.environ.items() if not re.match("(PY)?SPARK_", name)}
    try:
        result = subprocess.run(
            [sys.executable, "streams.py"],
            cwd=tmp_path,
            env=clean,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        rabbitmq.delete_queue(f"/queue/{QUEUE}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.findall(r"\| +(\d+)\| *order (\d+)\|", result.stdout.partition("stable_id")[0]) == [
        (str(number), str(number)) for number in range(15)
    ]
    assert printed in result.stdout


on_rabbitmq = pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)


@on_rabbitmq
@pytest.mark.usefixtures("credentials")
def test_the_command_line(broker: RabbitMQ, capfd: pytest.CaptureFixture[str]) -> None:
    stream = new_stream(broker)
    publish(broker.options(), stream, [b"one", b"two", b"three"])
    of_streams = ["-o", "startingOffsets=earliest"]
    for _ in range(2):  # nothing is taken
        assert main(["peek", broker.url, stream, "-n", "2", "--bodies", *of_streams]) == 0
        assert capfd.readouterr().out.splitlines() == ["one", "two"]
        for name in (stream, stream.removeprefix("/amq")):
            assert main(["tail", broker.url, name, "-n", "2", "--bodies"]) == 0
            assert capfd.readouterr() == ("two\nthree\n", "")
    # What is left out by a filter is not waited for.
    filtered = ["-o", 'subscribeHeaders={"x-stream-filter": "none"}', "-o", "idleTimeout=500ms"]
    assert main(["tail", broker.url, stream, "--bodies", *filtered]) == 0
    capfd.readouterr()
    assert main(["tail", broker.url, stream, "-n", "9", "--bodies"]) == 0
    assert capfd.readouterr().out.splitlines() == ["one", "two", "three"]
    assert main(["probe", broker.url, stream, *of_streams]) == 0
    printed = capfd.readouterr().out
    assert re.search(rf"{stream} +stream, id ", printed) and re.search("begins at +first", printed)


@on_rabbitmq
@pytest.mark.usefixtures("credentials")
def test_tail_follows_a_stream(broker: RabbitMQ) -> None:
    stream = new_stream(broker)
    command = [sys.executable, "-m", "spark_stomp", "tail", broker.url, stream, "-f", "-n", "1", "--bodies"]
    publish(broker.options(), stream, [b"one", b"two"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "two\n"
        # More than RabbitMQ sends without an ACK.
        publish(broker.options(), stream, [b"%d" % number for number in range(5_000)])
        assert [process.stdout.readline() for _ in range(5_000)] == [f"{number}\n" for number in range(5_000)]
        process.kill()


@on_rabbitmq
@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("tail {queue}", "{queue} is a queue: to show its newest messages, the broker would"),
        ("tail -f /amq{queue}", "spark-stomp peek shows its oldest ones"),
        ("tail {queue}-missing", "{queue}-missing is not there"),
        ("peek --yes {queue}-missing", "{queue}-missing is not there"),
        ("peek --yes {stream}", "{stream} is a stream: spark-stomp tail shows its newest"),
        ("peek --yes {queue}", "{queue} has no messages, or they are un-acked at other"),
        ("tail {stream}", "{stream} has no messages"),
    ],
)
def test_what_cannot_be_shown_is_said(
    broker: RabbitMQ, command: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """In the names that the user has given; and no queue is made by looking."""
    names = {"queue": broker.new_queue(), "stream": new_stream(broker).removeprefix("/amq")}
    # Makes the queue, and leaves nothing in it.
    publish(broker.options(ttl="1ms"), names["queue"], [b"brief"])
    name, *rest = command.format(**names).split()
    with suppress(SystemExit):
        main([name, broker.url, *rest])
    assert words.format(**names) in capfd.readouterr().err


def test_a_time_after_the_last_message_gives_nothing_and_is_not_waited_for(rabbitmq: RabbitMQ) -> None:
    stream = new_stream(rabbitmq)
    publish(rabbitmq.options(), stream, [b"one"])
    options = rabbitmq.options(
        destination=stream, startingOffsets=LATER, idleTimeout="500ms", maxDrainTime=f"{PATIENCE:g}s"
    )
    # After maxDrainTime this would raise.
    assert list(read_stream(parse_batch_options(options), stream)) == []
    query = QueryRuntime(parse_source_options(options | {"maxDrainTime": "1h"}))
    try:
        query.start(INITIAL, INITIAL)
        query.await_subscriptions()
        assert query.latest_offset(INITIAL, Mode.DRAIN) == INITIAL
    finally:
        query.stop()
