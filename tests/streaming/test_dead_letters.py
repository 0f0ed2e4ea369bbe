"""``dead_letters``: rows with a reason are at their destination before their batch is committed."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from streaming.driver import DEAD
from support.drivers import START, SparkDriver
from support.pages import READING, programs
from support.points import Point, Points
from support.spark import BatchFiles, Running, classic_only, stomp_stream
from support.waiting import wait_until

from spark_stomp import dead_letters, rescue_json
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import OptionError
from spark_stomp.spark.writers import StompBatchWriter

pytestmark = [pytest.mark.spark]

QUEUE, LETTERS = "/queue/orders", "/queue/orders.dead"
HEADERS = "destination string, headers map<string,string>"
COLUMNS = f"{HEADERS}, stable_id string, body binary"


def read(spark: SparkSession, broker: DevBroker, destination: str) -> list[dict[str, Any]]:
    reader = spark.read.format("stomp").option("url", broker.url).option("idleTimeout", "300ms")
    # On Spark 4.0 a body is a bytearray.
    return [row.asDict() | {"body": bytes(row.body)} for row in reader.load(destination).collect()]


def run(frame: DataFrame, folder: Path, broker: DevBroker, **options: Any) -> None:
    """Run a query into ``folder/rows`` until all messages are acknowledged."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(f"{folder}/rows")

    with Running(
        frame, folder / "checkpoint", dead_letters(write, LETTERS, url=broker.url, **options)
    ) as running:
        running.wait(lambda: broker.queue(QUEUE).depth == 0, what="the ACK of every message")


@pytest.mark.core
def test_they_have_body_headers_reason_and_origin_and_go_back(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish(QUEUE, b'{"id":1}', headers=[("desk", "a")])
    devbroker.publish(QUEUE, b"\xff\0", headers=[("desk", "b"), ("content-type", "text/x")])
    orders = stomp_stream(spark, devbroker.url, QUEUE, COLUMNS)
    run(rescue_json(orders, "id INT"), tmp_path, devbroker)

    assert [row.id for row in spark.read.parquet(f"{tmp_path}/rows").collect()] == [1]
    (letter,) = read(spark, devbroker, LETTERS)
    assert letter["body"] == b"\xff\0"
    headers = letter["headers"]
    assert (headers["desk"], headers["content-type"]) == ("b", "text/x")
    assert headers["dead-letter-reason"] == "the body is not UTF-8"
    assert headers["dead-letter-origin"] == QUEUE
    assert headers["dead-letter-id"]


def test_the_program_of_the_page_sends_some_back_and_loses_none(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    program = programs(READING, "Count dead letters, and send some back")[1]
    origin = ("dead-letter-origin", QUEUE)
    for number, reason in enumerate(["no JSON at 1", "the body is not UTF-8", "no JSON at 7"]):
        headers = [("desk", "b"), ("dead-letter-reason", reason), origin]
        devbroker.publish(LETTERS, b"%d" % number, headers=headers)
    devbroker.publish(LETTERS, b"3", headers=[origin])
    devbroker.publish(LETTERS, b"4", headers=[("dead-letter-reason", "no JSON")])
    names = {"spark": spark, "broker": {"url": devbroker.url}}
    exec(compile(program.replace("/data", str(tmp_path)), str(READING), "exec"), names)

    back = {row["body"]: row["headers"] for row in read(spark, devbroker, QUEUE)}
    assert back.keys() == {b"0", b"2"} and all(headers["desk"] == "b" for headers in back.values())
    assert not any(name.startswith("dead-letter-") for headers in back.values() for name in headers)
    kept = {row["body"]: row["headers"] for row in read(spark, devbroker, "/queue/orders.kept")}
    assert kept.keys() == {b"1", b"3", b"4"}
    assert kept[b"1"]["dead-letter-reason"] == "the body is not UTF-8" and kept[b"1"]["desk"] == "b"
    assert kept[b"3"]["dead-letter-origin"] == QUEUE
    assert kept[b"4"]["dead-letter-reason"] == "no JSON"
    assert devbroker.queue(LETTERS).depth == 0


def test_no_header_of_a_message_keeps_its_dead_letter_back(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    """A time to expire would lose it; a value that the sink refuses would end the query, and each restart."""
    headers = [("expires", "4102444800000"), ("priority", "200"), ("reply-to", "/no such"), ("desk", "b")]
    devbroker.publish(QUEUE, b"bad", headers=headers)
    devbroker.publish(QUEUE, b"bad", headers=[("a" * 300, "x"), ("desk", "b")], raw=b"no colon\n")
    orders = stomp_stream(spark, devbroker.url, QUEUE, f"{COLUMNS}, malformed string", onMalformed="column")
    run(rescue_json(orders, "id INT", reason="malformed"), tmp_path, devbroker)
    letters = read(spark, devbroker, LETTERS)
    assert len(letters) == 2
    assert all(b"bad" in letter["body"] for letter in letters)
    assert not any({"expires", "expiration"} & letter["headers"].keys() for letter in letters)
    assert {letter["headers"]["dead-letter-origin"] for letter in letters} == {QUEUE}


def test_a_reason_and_a_body_of_ones_own(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    devbroker.publish_many(QUEUE, [b'{"price":1}', b'{"price":-1}', b"bad"])
    orders = stomp_stream(spark, devbroker.url, QUEUE, COLUMNS).selectExpr("*", "body AS original")
    reason = "coalesce(_rescued_reason, IF(price < 0, 'below\n0', NULL))"
    run(rescue_json(orders, "price INT"), tmp_path, devbroker, reason=reason, body="original")
    letters = {
        letter["body"]: letter["headers"]["dead-letter-reason"] for letter in read(spark, devbroker, LETTERS)
    }
    assert letters.keys() == {b'{"price":-1}', b"bad"}
    assert letters[b'{"price":-1}'] == "below?0"


@pytest.mark.rule("S.15")
def test_the_program_of_the_page_sends_the_body_as_it_came(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    """Also of a message whose JSON is good, and which is a dead letter for another reason."""
    devbroker.publish(QUEUE, b'{"id":1,"article":"a"}', raw=b"x-correlation-id:\xfe\xff\n")
    devbroker.publish(QUEUE, b'{"id":2,"article":"b"}')
    devbroker.publish(QUEUE, b"bad")
    devbroker.publish(QUEUE, b'{"id":3,"article":"c"}', headers=[("a" * 300, "x")], raw=b"no colon\n")
    text = programs(READING, "Dead letters")[0].replace('"/data/', f'"{tmp_path}/')
    names: dict[str, Any] = {"spark": spark}
    exec(text.replace("stomp://localhost:61613", devbroker.url), names)
    try:
        wait_until(lambda: names["query"].exception() or not devbroker.queue(QUEUE).depth, what="the ACKs")
    finally:
        names["query"].stop()
    assert [row.id for row in spark.read.parquet(f"{tmp_path}/orders").collect()] == [2]
    reasons = {
        letter["body"]: letter["headers"]["dead-letter-reason"] for letter in read(spark, devbroker, LETTERS)
    }
    frame = next(body for body in reasons if b"no colon" in body)
    assert frame.endswith(b'{"id":3,"article":"c"}\0')
    assert reasons.keys() == {b'{"id":1,"article":"a"}', b"bad", frame}
    assert reasons[b'{"id":1,"article":"a"}'].startswith("[STOMP_HEADER_NOT_TEXT]")


def test_a_reason_of_ones_own_without_a_body_is_refused() -> None:
    """`_rescued` is null in the rows that it would send."""
    with pytest.raises(OptionError, match="body"):
        dead_letters(BatchFiles(Path()), LETTERS, reason="IF(price < 0, 'below 0', NULL)")


@pytest.mark.parametrize("name", ["headerColumns", "headercolumns"])
def test_an_option_that_it_sets_itself_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"does not take {name}: .*add what else"):
        dead_letters(BatchFiles(Path()), LETTERS, **{name: '["a"]'})


@pytest.mark.rule("S.15")
def test_a_dead_letter_whose_body_is_gone_fails_the_batch(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    """The message stays on the broker. One that had no body is no such thing."""
    devbroker.publish_many(QUEUE, [b'{"price":-1}', b"bad"])
    frame = rescue_json(stomp_stream(spark, devbroker.url, QUEUE, COLUMNS), "price INT")
    reason = "coalesce(_rescued_reason, IF(price < 0, 'below 0', NULL))"
    write = dead_letters(BatchFiles(tmp_path), LETTERS, reason=reason, body="_rescued", url=devbroker.url)
    with Running(frame, tmp_path / "checkpoint", write) as running:
        assert "[STOMP_SCHEMA_INVALID]" in running.failure()
    assert devbroker.queue(QUEUE).depth == 2
    assert devbroker.queue(LETTERS).depth == 0

    nothing = rescue_json(spark.createDataFrame([(None, QUEUE, {})], f"body BINARY, {HEADERS}"), "price INT")
    dead_letters(lambda *_: None, LETTERS, reason=reason, body="_rescued", url=devbroker.url)(nothing, 0)
    (letter,) = read(spark, devbroker, LETTERS)
    assert not letter["body"]
    assert "body is null" in letter["headers"]["dead-letter-reason"]


@pytest.mark.rule("S.15")
@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("rand() < 0.5", marks=classic_only("each action has its own seed")),
        "{moment} < unix_timestamp(current_timestamp())",
    ],
)
def test_each_row_is_a_dead_letter_or_with_the_others(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, reason: str
) -> None:
    """Though the reason would not be the same if it were computed again, for the others."""
    rows = spark.range(200).selectExpr(
        "CAST(id AS STRING) AS body", f"'{QUEUE}' AS destination", "map('n', CAST(id AS STRING)) AS headers"
    )
    moment = int(time.time()) + 4
    others: list[str] = []

    def write(batch: DataFrame, number: int) -> None:
        if "moment" in reason:
            wait_until(lambda: time.time() > moment + 1, what="the moment")
        others.extend(row.body for row in batch.collect())

    expression = f"IF({reason.format(moment=moment)}, 'bad', NULL)"
    dead_letters(write, LETTERS, reason=expression, body="body", url=devbroker.url)(rows, 0)
    letters = [body.decode() for body in devbroker.bodies(LETTERS)]
    assert Counter([*others, *letters]) == Counter(map(str, range(200)))


def test_what_they_need_is_named(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    devbroker.publish(QUEUE, b"bad")
    frame = rescue_json(stomp_stream(spark, devbroker.url, QUEUE, "body binary"), "id INT")
    with Running(frame, tmp_path, dead_letters(BatchFiles(tmp_path), LETTERS, url=devbroker.url)) as running:
        assert "lack destination and headers" in running.failure()
    assert devbroker.queue(QUEUE).depth == 1


@classic_only("the function would count in another process")
def test_a_batch_is_computed_once(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    """Its two parts come from one scan; a second one would also double numInputRows."""
    devbroker.publish_many(QUEUE, [b"bad", b"good"] * 10)
    frame = stomp_stream(spark, devbroker.url, QUEUE, COLUMNS, minMessagesPerTrigger=20, maxTriggerDelay="1h")
    reason = "IF(CAST(body AS STRING) = 'bad', 'bad', NULL)"
    write = dead_letters(BatchFiles(tmp_path), LETTERS, reason=reason, body="body", url=devbroker.url)
    with Running(frame, tmp_path / "checkpoint", write) as running:
        running.wait(lambda: devbroker.queue(QUEUE).depth == 0, what="the ACK of every message")
        counts = [progress["numInputRows"] for progress in running.query.recentProgress]
    assert sum(counts) == 20
    assert devbroker.queue(LETTERS).depth == 10


@pytest.mark.core
@pytest.mark.rule("S.15")
def test_a_batch_that_fails_comes_again_with_its_dead_letters(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, [b"bad", b'{"id":1}'])
    options = {"minMessagesPerTrigger": 2, "maxTriggerDelay": "1h"}
    frame = rescue_json(stomp_stream(spark, devbroker.url, QUEUE, COLUMNS, **options), "id INT")

    def fail(batch: DataFrame, number: int) -> None:
        raise RuntimeError("before the others are written")

    with Running(frame, tmp_path / "checkpoint", dead_letters(fail, LETTERS, url=devbroker.url)) as running:
        assert "before the others are written" in running.failure()
    assert (devbroker.queue(LETTERS).depth, devbroker.queue(QUEUE).acked) == (1, 0)
    run(frame, tmp_path, devbroker)
    assert [row.id for row in spark.read.parquet(f"{tmp_path}/rows").collect()] == [1]
    assert devbroker.bodies(LETTERS) == [b"bad", b"bad"]


# Between the receipts of the dead letters and the commit of their batch: the task dies; the driver dies,
# before and after the other rows are written.
KILLS = {
    "task": Point.after(StompBatchWriter.write, 1, "kill"),
    "driver, before the others": Point.before(BatchFiles.write, 1, "kill-session"),
    "driver, after the others": Point.after(BatchFiles.write, 1, "kill-session"),
}


@pytest.mark.soak
@pytest.mark.rule("S.15")
@classic_only("the drivers are started by the test")
@pytest.mark.timeout(420)
@pytest.mark.parametrize("kill", KILLS)
def test_a_kill_before_the_commit_loses_none(devbroker: DevBroker, tmp_path: Path, kill: str) -> None:
    bodies = [f"{kind} {number}" for number in range(20) for kind in ("bad", "good")]
    devbroker.publish_many(QUEUE, [body.encode() for body in bodies])
    options = {"url": devbroker.url, "minMessagesPerTrigger": str(len(bodies)), "maxTriggerDelay": "1h"}
    points = Points(tmp_path / "points", KILLS[kill])
    with SparkDriver(
        tmp_path, "dead letters", QUEUE, options | {"sink.url": devbroker.url}, points
    ) as driver:
        wait_until(lambda: points.reached(0), START, "the kill")
        if kill != "task":
            wait_until(lambda: not driver.running, START, "the end of the driver")
            assert devbroker.queue(DEAD).depth == 20
            assert devbroker.queue(QUEUE).acked == 0
            driver.start()

        def acked() -> bool:
            assert driver.running, driver.log
            return devbroker.queue(QUEUE).depth == 0

        wait_until(acked, START, "the ACK of every message")
        written = driver.rows()
    letters = Counter(body.decode() for body in devbroker.bodies(DEAD))
    assert letters == {body: 2 for body in bodies if body.startswith("bad")}
    assert set(written) == {body for body in bodies if body.startswith("good")}
