"""A stream of RabbitMQ is read while the driver is killed, the connection is cut and the broker restarts.

What the sink has is compared with the stream itself: every offset must be there, once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from support.brokers.fixtures import BrokerPool
from support.brokers.rabbitmq import RabbitMQ
from support.driven import publish
from support.drivers import START, SparkDriver
from support.proxy import FaultProxy
from support.soak import ROUNDS, SEED, USUAL, put, show
from support.streams import messages_of, new_stream
from support.waiting import pause, wait_until

from spark_stomp.brokers.rabbitmq import stream_name
from spark_stomp.errors import StompError

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(3600)]

MESSAGES = 50_000 * ROUNDS
BEFORE = MESSAGES // 3
KILLS = CUTS = ROUNDS // 2
RESTARTS = 3
_CHUNK = 2_000
_PAUSE = 0.1


class Flood:
    """Publishes numbered messages; a broker may be away meanwhile.

    A chunk that was not confirmed is published again, so some messages may be in the stream twice.
    """

    def __init__(self, broker: RabbitMQ, stream: str) -> None:
        self._options = broker.options(reconnectTimeout="1ms")
        self._stream = stream
        self._numbers = count()

    def publish(self, messages: int) -> None:
        """Publish so many messages now."""
        for _ in range(0, messages, _CHUNK):
            chunk = [b"%d" % next(self._numbers) for _ in range(_CHUNK)]
            wait_until(lambda chunk=chunk: self._is_confirmed(chunk), START, "the broker", every=_PAUSE)

    @contextmanager
    def publishing(self, messages: int) -> Iterator[None]:
        """Publish so many messages while the block runs, and after it those that are left."""
        with ThreadPoolExecutor(1) as thread:
            published = thread.submit(self.publish, messages)
            yield
            published.result()

    def _is_confirmed(self, chunk: list[bytes]) -> bool:
        with suppress(StompError):
            return publish(self._options, self._stream, chunk) == len(chunk)
        return False


def committed_offset(driver: SparkDriver, stream: str) -> int:
    """The offset up to which Spark has committed the stream."""
    checkpoint = driver.folder / "checkpoint"
    done = {int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")}
    if not done:
        return 0
    text = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1]
    position = json.loads(text)["logs"].get(f"stream:{stream_name(stream)}")
    return int(position["next"]) if position else 0


@pytest.mark.rule("R.1", "R.2", "R.3")
@pytest.mark.parametrize("mode", ["parquet", "batches"])
def test_every_offset_is_in_the_sink_once(
    broker_pool: BrokerPool, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = broker_pool.get("rabbitmq")
    assert isinstance(broker, RabbitMQ)
    stream, chance = new_stream(broker), random.Random(f"{SEED} {mode}")
    flood = Flood(broker, stream)
    flood.publish(BEFORE)
    with FaultProxy(broker.port) as proxy:
        options = broker.options(url=proxy.url, startingOffsets="earliest")
        driver = SparkDriver(tmp_path, mode, stream, options)

        def kill() -> None:
            driver.kill_everything()
            driver.start()

        def committed(offset: int) -> None:
            def reached() -> bool:
                assert driver.running, driver.log
                return committed_offset(driver, stream) >= offset

            wait_until(reached, START, f"offset {offset}")

        strikes = [*[kill] * KILLS, *[proxy.cut] * CUTS, *[broker.restart] * RESTARTS]
        chance.shuffle(strikes)
        with driver:
            for strike in strikes:
                begun = committed_offset(driver, stream)
                with flood.publishing((MESSAGES - BEFORE) // len(strikes)):
                    # Some kills are in the middle of a start.
                    committed(begun + chance.choice([0, 1, 1]))
                    pause(chance.uniform(0.0, 1.0))
                    strike()
            there = messages_of(broker, stream)
            committed(there[-1][0] + 1)
            driver.stop()
    if mode == "batches":
        assert driver.rows() == [body for _, body in there]
    else:
        rows = [(int((stable or "").rpartition("@")[2]), body) for body, stable in driver.records()]
        assert sorted(rows) == there
    faults = f"{KILLS} kills, {CUTS} cuts of the connection, {RESTARTS} restarts of the broker"
    line = f"- {mode}: {len(there)} messages, {faults}: every offset once.\n"
    show(line, capsys)
    if USUAL["ROUNDS"] <= ROUNDS:
        put(f"a stream of RabbitMQ, {mode}", line)
