"""What the connector promises, on every broker alike; differences only where the dialect declares them.

Each test ends with what the broker's own management says of its queue: empty, and nothing un-acked.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.brokers import Broker
from support.brokers.fixtures import (
    on_every_broker,
    on_every_other_transport,
    on_every_release,
    on_rabbitmq_and_others_in_soak,
)
from support.columns import projection_of
from support.driven import Run, bodies, publish, send_rows
from support.spark import Recorder, Running, stomp_stream

from spark_stomp.brokers import Dialect
from spark_stomp.errors import BrokerError, StompError, TooManyMessages
from spark_stomp.options import parse_batch_options
from spark_stomp.spark.readers import StompBatchReader

BODIES = [b"message %d" % number for number in range(300)]


def run(broker: Broker, queue: str, *columns: str, **options: Any) -> Run:
    return Run(broker.options(destination=queue, **options), columns or ("body",))


def send(broker: Broker, queue: str, bodies: list[bytes], *headers: tuple[str, str]) -> None:
    assert publish(broker.options(), queue, bodies, *headers) == len(bodies)


def drain(broker: Broker, queue: str, count: int, *columns: str, **options: Any) -> list[dict[str, Any]]:
    """Read and commit ``count`` messages."""
    with run(broker, queue, *columns, **options) as query:
        rows = query.take(count)
        query.commit()
        return rows


@on_every_release
class TestReading:
    def test_everything_in_order_and_acked_only_after_the_commit(self, broker: Broker, queue: str) -> None:
        send(broker, queue, BODIES)
        with run(broker, queue) as query:
            assert bodies(query.gather(300)) == BODIES
            broker.wait_for(queue, ready=0, unacked=300)
            assert bodies(query.read()) == BODIES
            query.commit()
            # The last batch needs no further message to be ACKed.
            broker.wait_for(queue, ready=0, unacked=0)

    def test_a_minimum_beyond_the_window_is_no_standstill(self, broker: Broker, queue: str) -> None:
        send(broker, queue, BODIES[:100])
        rows = drain(broker, queue, 100, prefetch=20, minMessagesPerTrigger=50, maxTriggerDelay="1s")
        assert bodies(rows) == BODIES[:100]

    def test_what_was_not_committed_is_redelivered(
        self, broker: Broker, queue: str, dialect: Dialect
    ) -> None:
        send(broker, queue, BODIES[:50])
        columns = ("body", "stable_id", "redelivered")
        with run(broker, queue, *columns) as query:
            before = query.gather(50)
        broker.wait_for(queue, ready=50, unacked=0)
        after = drain(broker, queue, 50, *columns)
        assert bodies(after) == bodies(before) == BODIES[:50]
        assert {row["redelivered"] for row in after} == {not dialect.unsubscribe_returns}
        assert [row["stable_id"] for row in after] == [row["stable_id"] for row in before]
        known = len({row["stable_id"] for row in after} - {None})
        assert known == (0 if dialect.id_header is None else 50)


@on_every_release
class TestSelectors:
    def test_select_on_the_broker_or_are_refused(self, broker: Broker, queue: str, dialect: Dialect) -> None:
        send(broker, queue, BODIES[:5], ("colour", "red"))
        send(broker, queue, BODIES[5:10], ("colour", "blue"))
        with run(broker, queue, selector="colour = 'blue'") as query:
            if not dialect.selectors:
                with pytest.raises(StompError, match="selector"):
                    query.batch()
            else:
                assert bodies(query.gather(5)) == BODIES[5:10]
                query.commit()
        drain(broker, queue, 5 if dialect.selectors else 10)


@on_every_release
class TestLooking:
    def test_shows_all_and_takes_nothing(
        self, broker: Broker, queue: str, dialect: Dialect, caplog: pytest.LogCaptureFixture
    ) -> None:
        send(broker, queue, BODIES[:30])
        with caplog.at_level(logging.WARNING, "spark_stomp"):
            assert look(broker, queue) == BODIES[:30]
        assert ("cannot browse" in caplog.text) == (dialect.browse_headers is None)
        broker.wait_for(queue, ready=30, unacked=0)
        assert look(broker, queue, maxMessages=7) == BODIES[:7]
        broker.wait_for(queue, ready=30, unacked=0)
        drain(broker, queue, 30)

    def test_shows_all_of_many_or_fails(self, broker: Broker, queue: str) -> None:
        many = [b"%d" % number for number in range(2500)]
        send(broker, queue, many)
        with pytest.raises(TooManyMessages, match="maxMessages"):
            look(broker, queue)
        assert look(broker, queue, maxMessages=3000) == many
        broker.wait_for(queue, ready=2500, unacked=0)
        drain(broker, queue, 2500)

    def test_shows_all_of_large_messages(self, broker: Broker, queue: str) -> None:
        """More bytes than any broker is let send to a stream at the start."""
        large = [b"%d " % number + b"x" * 100_000 for number in range(60)]
        send(broker, queue, large)
        assert look(broker, queue) == large
        broker.wait_for(queue, ready=60, unacked=0)
        drain(broker, queue, 60)


def look(broker: Broker, queue: str, **options: Any) -> list[bytes]:
    given = broker.options(destination=queue, idleTimeout="2s", **options)
    reader = StompBatchReader(parse_batch_options(given), projection_of("body"))
    parts = [part for partition in reader.partitions() for part in reader.read(partition)]
    return [row["body"] for part in parts for row in part.to_pylist()]


@on_every_broker
class TestContent:
    def test_bodies(self, broker: Broker, queue: str) -> None:
        odd = [bytes(range(256)), b"", b"\0", b"\n\n\0\n", b"\xff" * 10, bytes(1 << 20), b"x" * (3 << 20)]
        send(broker, queue, odd)
        assert bodies(drain(broker, queue, len(odd))) == odd

    def test_the_largest_that_the_broker_takes_and_one_beyond(self, broker: Broker, queue: str) -> None:
        largest = broker.largest_body or 16 << 20
        send(broker, queue, [bytes(largest)])
        (body,) = bodies(drain(broker, queue, 1))
        assert body == bytes(largest)
        if broker.largest_body is not None:
            # Not every broker says which message it refused.
            with pytest.raises(BrokerError):
                publish(broker.options(), queue, [bytes(largest + 1)])

    @pytest.mark.parametrize("version", ["1.1", "1.2"])
    def test_odd_headers(self, broker: Broker, queue: str, dialect: Dialect, version: str) -> None:
        if version in dialect.forged_versions:
            pytest.skip("this version is not read from")
        odd = {
            "colon": "a:b::c:",
            "co:lon": "in the name",
            "backslash": "C:\\new\\\\",
            "newline": "one\ntwo\n",
            "letters": "Grüße, 漢字, 😀",
            "grün": "in the name",
            "blank": " padded ",
            "empty": "",
        }
        odd |= {"return": "one\r\ntwo"} if version == "1.2" else {}
        options = broker.options(acceptVersions=version)
        assert publish(options, queue, [b"x"], *odd.items()) == 1
        (row,) = drain(broker, queue, 1, "headers", acceptVersions=version)
        assert {name: value for name, value in row["headers"] if name in odd} == odd

    def test_of_a_repeated_header_the_first_counts(self, broker: Broker, queue: str) -> None:
        rows = [(b"x", [("colour", "red"), ("colour", "blue")])]
        assert send_rows(broker.options(), queue, rows) == 1
        (row,) = drain(broker, queue, 1, "headers")
        assert dict(row["headers"])["colour"] == "red"

    def test_columns(self, broker: Broker, queue: str, dialect: Dialect) -> None:
        moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone.utc)
        unit = {"ms": 1_000, "s": 1}[dialect.timestamp_unit]
        stamp = str(int(moment.timestamp()) * unit)
        send(broker, queue, ["Grüße".encode()], ("content-type", "text/plain"), ("timestamp", stamp))
        (row,) = drain(broker, queue, 1, "destination", "content_type", "timestamp", "redelivered", "body")
        assert (row["destination"], row["content_type"]) == (queue, "text/plain")
        if broker.stamps_messages:
            assert abs(datetime.now(timezone.utc) - row["timestamp"]) < timedelta(minutes=1)
        else:
            assert row["timestamp"] == moment
        assert not row["redelivered"]
        assert row["body"].decode() == "Grüße"


ODD = [b"", bytes(range(256)) * 4096]


@on_every_other_transport
def test_written_looked_at_and_read(broker: Broker, transport: str, queue: str) -> None:
    """Over everything else that the broker listens on."""
    sent, over = BODIES + ODD, broker.over(transport)
    assert publish(over, queue, sent) == len(sent)
    assert look(broker, queue, **over) == sent
    with run(broker, queue, **over) as query:
        assert bodies(query.gather(len(sent))) == sent
        query.commit()
        broker.wait_for(queue, ready=0, unacked=0)


@pytest.mark.spark
@on_rabbitmq_and_others_in_soak
class TestSpark:
    """The core once more with Spark on top."""

    def test_written_looked_at_and_read_run_after_run(
        self, broker: Broker, queue: str, spark: SparkSession, tmp_path: Path
    ) -> None:
        recorder = Recorder()
        options = broker.options()
        for part in (BODIES[:150], BODIES[150:] + ODD):
            rows = spark.createDataFrame([(body,) for body in part], "body binary").coalesce(1)
            rows.write.format("stomp").options(**options, destination=queue).mode("append").save()
            broker.wait_for(queue, ready=len(part))
            shown = spark.read.format("stomp").options(**options, idleTimeout="2s").load(queue)
            assert sorted(bytes(row.body) for row in shown.select("body").collect()) == sorted(part)
            broker.wait_for(queue, ready=len(part))
            frame = stomp_stream(spark, destination=queue, **options)
            with Running(frame, tmp_path, recorder, availableNow=True) as running:
                running.finish()
            broker.wait_for(queue, ready=0, unacked=0)
        assert recorder.bodies == BODIES + ODD
