"""What ``spark-stomp why`` says in the states that a person on call meets: under Spark, on RabbitMQ."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.brokers import RabbitMQ
from support.driven import publish
from support.processes import stream_readers
from support.spark import Running, classic_only, stomp_stream
from support.waiting import PATIENCE, wait_until

from spark_stomp import reason
from spark_stomp.commands.diagnosis import Health
from spark_stomp.commands.main import main
from spark_stomp.status import read_status

pytestmark = [
    pytest.mark.spark,
    pytest.mark.broker,
    classic_only("the sinks of these tests are in this process"),
]

Sink = Callable[[DataFrame, int], None]


class OnCall:
    """A query on a new queue of RabbitMQ, and whoever asks about it.

    ``login`` is the query's, with its password in a file, as ``why`` needs it.
    """

    def __init__(self, spark: SparkSession, broker: RabbitMQ, folder: Path, capsys: Any) -> None:
        self.broker, self.checkpoint, self.queue = broker, folder / "checkpoint", broker.new_queue()
        self.login = "guest"
        self._password = folder / "password"
        self._password.write_text("guest")
        self._spark, self._capsys = spark, capsys

    def fill(self, bodies: list[bytes]) -> None:
        publish(self.broker.options(), self.queue, bodies)

    def user(self, login: str, password: str, known: str) -> None:
        """The query has a user of its own. ``known`` is the password in the query's file."""
        self.broker.add_user(login, password, ".*", ".*", ".*")
        self.login = login
        self._password.write_text(known)

    @property
    def connection(self) -> dict[str, str]:
        return {"login": self.login, "passwordFile": str(self._password)}

    def stream(self, **options: Any) -> DataFrame:
        own = {**self.connection, "checkpointLocation": self.checkpoint}
        return stomp_stream(self._spark, self.broker.url, self.queue, **own, **options)

    def run(self, sink: Sink, **options: Any) -> Running:
        return Running(self.stream(**options), self.checkpoint, sink)

    def wait(self, holds: Callable[[dict[str, Any]], object], what: str, timeout: float = PATIENCE) -> None:
        """Wait until this holds of the status."""

        def seen() -> bool:
            place = self.checkpoint / "spark_stomp/status.json"
            return place.exists() and bool(holds(read_status(place)))

        wait_until(seen, timeout, what)

    def wait_up(self) -> None:
        self.wait(lambda status: status["totals"]["connected"], "the subscription")

    def says(self, health: Health, why: str, broker: str, step: str) -> None:
        """What the three lines say; the last two begin so."""
        self._capsys.readouterr()
        code = main(["why", str(self.checkpoint)])
        facts = dict(re.findall(r"^(\w+) +(.*)$", self._capsys.readouterr().out, re.MULTILINE))
        assert re.fullmatch(f"checkpoint: {why}", facts["why"]), facts
        assert re.match(broker, facts["broker"]) and facts["next"].startswith(step), facts
        assert code == health.value

    @contextmanager
    def hung(self) -> Iterator[None]:
        """RabbitMQ stands still."""
        process = int(self.broker.evaluate("list_to_integer(os:getpid())."))
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)


@pytest.fixture
def call(
    spark: SparkSession, rabbitmq: RabbitMQ, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> OnCall:
    return OnCall(spark, rabbitmq, tmp_path, capsys)


class Slow:
    """A sink whose first batch ends when this is closed."""

    def __init__(self) -> None:
        self._free = threading.Event()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        batch.count()
        self._free.wait(PATIENCE)

    def close(self) -> None:
        self._free.set()


def fast(batch: DataFrame, batch_id: int) -> None:
    batch.count()


ANSWERED = r"RabbitMQ/\S+ at \S+ answered guest in \d+ ms; "
UI = "Spark's UI (port 4040 of "
TIME = r"[\d.]+ s"
LAST = r"its last run \(a new one shows here up to a minute after its start\)"


def test_a_slow_sink(call: OnCall) -> None:
    call.fill([b"x"] * 300)
    with call.run(slow := Slow(), maxMessagesPerTrigger=100), closing(slow):
        call.wait(lambda status: status["waiting_on"] == "spark" and status["batch_since"], "the batch")
        waits = rf"it has waited for {TIME} for Spark, in batch 0 of [\d,]+ messages?"
        call.says(Health.FINE, waits, ANSWERED, UI)


@pytest.mark.soak
def test_full_memory(call: OnCall) -> None:
    call.fill([b"x" * 50_000] * 100)
    with call.run(slow := Slow(), maxBufferedBytes="1m"), closing(slow):
        call.wait(lambda status: "memory is full" in str(status["waiting_for"]), "full memory")
        waits = (
            rf"it has waited for {TIME} for Spark, in batch 0 of .*; memory is full \(maxBufferedBytes\).*"
        )
        call.says(Health.SLOW, waits, ANSWERED, UI)


def test_a_minimum_that_is_not_reached(call: OnCall) -> None:
    call.fill([b"x"] * 50)
    with call.run(fast, minMessagesPerTrigger=1_000):
        call.wait(lambda status: status["waiting_on"] == "messages", "the wait for messages")
        waits = rf"it has waited for {TIME} for 950 more messages \(minMessagesPerTrigger\), .*"
        call.says(Health.FINE, waits, ANSWERED, "nothing, or set a shorter maxTriggerDelay")


def test_a_login_that_is_refused_at_the_start(call: OnCall) -> None:
    call.user("ada", "right", known="wrong")
    with call.run(fast) as running:
        failure = running.failure()
        assert str(reason(running.query)).startswith("[STOMP_LOGIN_REFUSED]")
        assert reason(running.query.exception()) in failure
    refused = r"\[STOMP_LOGIN_REFUSED\] \S+ refused CONNECT: .*"
    call.says(
        Health.FAILED,
        rf"{LAST} failed {TIME} ago: {refused}",
        "the same",
        f"spark-stomp probe {call.broker.url}",
    )


@pytest.mark.soak
def test_a_login_that_is_refused_at_a_reconnect(call: OnCall) -> None:
    call.user("eve", "one", known="one")
    with call.run(fast):
        call.wait_up()
        call.broker.change_password("eve", "two")
        call.broker.evaluate('rabbit_stomp:close_all_client_connections("test").')
        call.wait(lambda status: "LOGIN_REFUSED" in str(status["receivers"]), "the refusal")
        refused = r"\[STOMP_LOGIN_REFUSED\] \S+ refused CONNECT: .*"
        text = rf"no connection for {call.queue}#0 for {TIME}, \d attempts? failed: {refused}"
        call.says(Health.CONNECTION, text, "the same", "write the password that the broker takes into ")


def test_a_reader_that_was_killed(call: OnCall) -> None:
    with call.run(fast) as running:
        call.wait_up()
        (reader,) = stream_readers()
        reader.kill()
        reader.wait(PATIENCE)
        call.fill([b"x"])
        running.failure()
    text = (
        rf"{LAST}: its process {reader.pid} on \S+ was killed, or the machine is away. It wrote its last .*"
    )
    call.says(Health.GONE, text, ANSWERED, "dmesg -T | grep -i 'killed process'")


def test_a_sink_that_fails(call: OnCall) -> None:
    def fails(batch: DataFrame, batch_id: int) -> None:
        raise ZeroDivisionError("by the sink")

    call.fill([b"x"] * 10)
    with call.run(fails) as running:
        running.failure()
        assert reason(running.query) == "ZeroDivisionError: by the sink"
    call.wait(lambda status: not status["running"], "the last status")
    text = rf"{LAST} ended {TIME} ago, and no commit of its last batch was seen: the query failed, in its .*"
    call.says(Health.UNFINISHED, text, ANSWERED, "read the error where the program printed it")
    # As the program of docs/start.md does it.
    reason(running.query, str(call.checkpoint))
    text = rf"{LAST} failed {TIME} ago: ZeroDivisionError: by the sink"
    call.says(Health.FAILED, text, ANSWERED, "correct what the error says; then start the query again")


def test_a_first_batch_is_empty_and_takes_its_time(call: OnCall) -> None:
    """Spark runs it although nothing is there. What comes meanwhile waits for no trigger."""
    call.broker.declare(call.queue, {})
    slow = Slow()
    with call.run(slow) as running, closing(slow):
        call.wait(lambda status: "which is empty" in str(status["waiting_for"]), "the empty batch")
        call.fill([b"x"] * 3)
        call.wait(lambda status: "3 messages wait" in str(status["waiting_for"]), "messages")
        text = rf"it has waited for {TIME} for Spark, in its first batch, which is empty; 3 messages wait .*"
        call.says(Health.FINE, text, ANSWERED, "nothing, it is starting; spark-stomp status ")
        slow.close()
        wait_until(lambda: running.query.lastProgress, what="the end of the batch")
        call.wait(lambda status: status["totals"]["rows"] == 3, "the rows")


def test_a_queue_that_was_not_there(call: OnCall) -> None:
    with call.run(fast):
        call.wait(lambda status: status["waiting_on"] == "queue", "the missing queue")
        text = rf"it has waited for {TIME} for the broker: a first message in {call.queue}, which was not .*"
        call.says(Health.QUEUE, text, ANSWERED, "correct the name in load(...)")
        call.fill([b"x"])
        call.wait(lambda status: status["waiting_on"] == "broker", "the first message")


@pytest.mark.soak
def test_a_broker_that_hangs(call: OnCall) -> None:
    call.fill([b"x"])
    with call.run(fast, heartbeat="1s,1s"):
        call.wait(lambda status: status["totals"]["rows"], "the row")
        with call.hung():
            call.wait(lambda status: not status["totals"]["connected"], "the loss")
            text = rf"no connection for {call.queue}#0 for {TIME}.*: \[STOMP_\w+\] .*"
            hangs = r"\[STOMP_CONNECT_TIMEOUT\] .* It answered the query before: it hangs"
            call.says(Health.CONNECTION, text, hangs, f"spark-stomp probe {call.broker.url} --login guest")


@pytest.mark.soak
def test_an_alarm_for_memory(call: OnCall) -> None:
    """The sink waits for a broker that reads nothing more. No option says where the management is."""
    call.fill([b"x"] * 3_000)
    target = {**call.connection, "url": call.broker.url, "destination": call.broker.new_queue()}
    rows = call.stream(maxMessagesPerTrigger=2).selectExpr("body").writeStream.format("stomp")
    query = rows.options(**target, checkpointLocation=str(call.checkpoint)).start()
    try:
        call.wait(lambda status: ((status["sink"] or {}).get("batch") or 0) > 1, "batches of the sink")
        call.broker.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.00001).")
        # Small batches are confirmed, and each then waits for five seconds.
        call.wait(lambda status: status["sink"]["blocked_seconds"] > 0, "a blocked sink")
        call.wait(lambda status: status["waiting_on"] == "spark", "a batch")
        waits = rf"it has waited for {TIME} for Spark, in batch .*"
        text = rf"{waits}\. The broker: it reads nothing .*"
        call.says(Health.BLOCKED, text, ANSWERED, "rabbitmq-diagnostics alarms")
    finally:
        call.broker.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.6).")
        query.stop()
