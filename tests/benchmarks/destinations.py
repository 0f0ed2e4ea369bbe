"""What many destinations of one query cost, and whether a busy one starves the quiet ones, on ``local[2]``.

Default trigger, default options. The references are a source that never has anything new, and a query of one
destination.

    python -m benchmarks.destinations [--brokers rabbitmq] [--destinations 1,100,500] [--parts cost,share]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from support.processes import stream_readers
from support.spark import Running, spark_session
from support.waiting import pause, wait_until

from benchmarks.bare import sent_at
from benchmarks.brokers import BenchmarkBroker, each_broker, new_queue
from benchmarks.latency import latencies, percentile
from benchmarks.programs import program
from benchmarks.ready_made import ReadyMade
from benchmarks.results import Case, Figures, Goal, Results, Series, add_arguments
from spark_stomp import register

BROKERS = "rabbitmq"
DESTINATIONS = "1,100,500"
PARTS = "cost,share"
BODY = 235
NOTHING = "a source without messages"
ALONE, BESIDE, QUIET_ONLY = "alone", "beside 499 quiet ones", "the busy one idle"
MANY = 500
# Messages a second over all quiet queues: 0.1 for each.
QUIET_RATE = 50
# Rows of each destination before anything is measured: they prove that all are subscribed, and start workers.
WARM_UP = 3
# So many seconds of a load do not count.
BEGIN = 5.0
# Seconds without messages before a query counts as idle: the last commit and its ACKs are done.
SETTLE = 3.0
_PATIENCE = 300.0


@dataclass
class Seen:
    """A foreachBatch function that counts rows, and collects when those of all queues but ``busy`` were sent
    and how long they took, in seconds."""

    busy: str = ""
    rows: int = 0
    batches: list[tuple[float, int]] = field(default_factory=list)
    """When each batch that had rows of the busy queue ended (monotonic seconds), and how many."""
    quiet: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        is_quiet = sql.col("destination") != self.busy
        sent = sql.collect_list(sql.when(is_quiet, sql.col("body")))
        (found,) = batch.agg(sql.count("*").alias("rows"), sent.alias("sent")).collect()
        now = time.time()
        self.quiet += [(at, now - at) for at in map(sent_at, map(bytes, found.sent))]
        if busy := found.rows - len(found.sent):
            self.batches.append((time.monotonic(), busy))
        self.rows += found.rows

    @property
    def busy_rows(self) -> int:
        return sum(rows for _, rows in self.batches)

    def rate(self, since: float) -> float:
        """Rows of the busy queue a second, from the first batch that ended after ``since`` on."""
        ended = [(at, rows) for at, rows in self.batches if at >= since]
        return sum(rows for _, rows in ended[1:]) / (ended[-1][0] - ended[0][0])

    def took(self, begin: float, end: float) -> list[float]:
        """Milliseconds of quiet messages that were sent in this time (seconds since 1970), by size."""
        return sorted(1_000 * took for at, took in self.quiet if begin <= at <= end)


class Query:
    """A query over new queues, whose warm-up is over: all are subscribed."""

    def __init__(self, broker: BenchmarkBroker, running: Running, queues: Sequence[str], sink: Seen) -> None:
        self._broker, self._running, self._queues = broker, running, queues
        self.sink = sink
        self.reader = the_reader()

    def warm_up(self) -> None:
        wanted = self.sink.rows + WARM_UP * len(self._queues)
        with self.publishing(self._queues, len(self._queues), WARM_UP):
            self.wait(lambda: self.sink.rows >= wanted, f"{wanted} rows")

    def wait(self, condition: Callable[[], object], what: str) -> None:
        self._running.wait(condition, _PATIENCE, what, every=0.05)

    @contextmanager
    def publishing(self, queues: Sequence[str], rate: float, seconds: float) -> Iterator[None]:
        """Publish to the queues in turn meanwhile: ``rate`` messages a second in all, ``seconds`` at most."""
        first, *others = queues
        load = {"messages": int(rate * seconds), "body": BODY, "rate": rate, "others": others}
        with program("bare", self._broker.program("publish", first, **load)):
            yield

    def cores(self, seconds: float) -> float:
        """How many cores the reader process keeps busy."""
        return cores(self.reader, seconds)

    @property
    def connections(self) -> int:
        """How many connections to the broker the reader process has."""
        found = self.reader.net_connections("tcp")
        port = self._broker.peer.port
        return sum(
            one.status == psutil.CONN_ESTABLISHED and bool(one.raddr) and one.raddr.port == port
            for one in found
        )

    @property
    def offset_bytes(self) -> int:
        """Bytes of the last offset in the offset log, which has it in the last line of a file."""
        log = self._running.checkpoint / "offsets"
        newest = max((int(file.name) for file in log.iterdir() if file.name.isdigit()), default=0)
        return len((log / str(newest)).read_bytes().splitlines()[-1])

    def triggers(self, after: int) -> list[dict[str, int]]:
        """Milliseconds of the parts of each trigger that had rows, without those of earlier batches."""
        progress = self._running.query.recentProgress
        return [one["durationMs"] for one in progress if one["numInputRows"] and one["batchId"] > after]

    @property
    def last_batch(self) -> int:
        last = self._running.query.lastProgress
        return -1 if last is None else int(last["batchId"])


@contextmanager
def query_of(
    spark: SparkSession, broker: BenchmarkBroker, queues: Sequence[str], sink: Seen
) -> Iterator[Query]:
    """A query over the queues, after its warm-up."""
    stream = spark.readStream.format("stomp").options(**broker.options(json.dumps(queues))).load()
    with checkpointed(stream, sink) as running:
        query = Query(broker, running, queues, sink)
        query.warm_up()
        yield query
        # If a query is stopped during a batch, Spark looks through the error's text with a pattern that may
        # overflow the stack (4.3), and prints thousands of lines.
        pause(SETTLE)


@contextmanager
def checkpointed(stream: DataFrame, sink: Callable[[DataFrame, int], None]) -> Iterator[Running]:
    """The query while the block runs. It begins when the reader process of the one before has ended."""
    wait_until(lambda: not stream_readers(), what="the end of the last query")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Running(stream, Path(folder), sink) as running,
    ):
        yield running


def the_reader() -> psutil.Process:
    """The process that receives the messages of the only query."""
    wait_until(lambda: len(stream_readers()) == 1, what="the reader process")
    return stream_readers()[0]


def cores(process: psutil.Process, seconds: float) -> float:
    """How many cores the process keeps busy, on average over so long."""
    before, begun = process.cpu_times(), time.monotonic()
    pause(seconds)
    after, ended = process.cpu_times(), time.monotonic()
    return (after.user + after.system - before.user - before.system) / (ended - begun)


def named(destinations: int) -> str:
    return f"{destinations} destination{'s' * (destinations > 1)}"


# --- what destinations cost


def cost_round(
    spark: SparkSession, broker: BenchmarkBroker, sizes: Sequence[int], seconds: float
) -> tuple[dict[str, Figures], Series]:
    """The figures of each number of destinations, and of a source without messages."""
    found = {NOTHING: {"value": idle_of_nothing(spark, seconds)}}
    for size in sizes:
        found[named(size)] = cost(spark, broker, size, seconds)
        more = found[named(size)]["value"] - found[named(sizes[0])]["value"]
        found[named(size)]["more than with the fewest"] = more
    return found, {}


def cost(spark: SparkSession, broker: BenchmarkBroker, size: int, seconds: float) -> Figures:
    """The figures of one query."""
    queues = [new_queue() for _ in range(size)]
    with query_of(spark, broker, queues, Seen()) as query:
        pause(SETTLE)
        idle = query.cores(seconds)
        with query.publishing(queues, size, _PATIENCE):
            pause(BEGIN)
            before = query.last_batch
            busy = query.cores(2 * seconds)
            triggers = query.triggers(before)
        whole = [one["triggerExecution"] for one in triggers]
        latest = [one["latestOffset"] for one in triggers]
        return {
            "value": idle,
            "cores with messages": busy,
            "connections": query.connections,
            "trigger ms": float(statistics.median(whole)),
            "triggers": len(whole),
            "latestOffset ms": float(statistics.median(latest)),
            "largest latestOffset ms": max(latest),
            "offset bytes": query.offset_bytes,
        }


def idle_of_nothing(spark: SparkSession, seconds: float) -> float:
    """Cores that a source keeps busy which only answers that nothing is new."""
    stream = spark.readStream.format("ready-made").options(messages=0, batch=1).load()
    with checkpointed(stream, Seen()):
        reader = the_reader()
        pause(SETTLE)
        return cores(reader, seconds)


def cost_case(broker: str, sizes: Sequence[int]) -> Case:
    """The case of the results file."""
    few, *more = map(named, sizes)
    goals = [Goal(few, at_most=0.05)]
    for name in (few, *more):
        goals += [
            Goal(name, at_most=8, figure="connections"),
            Goal(name, at_most=20, figure="latestOffset ms"),
            Goal(name, at_most=2_000, figure="offset bytes"),
        ]
    for name in more:
        goals += [
            Goal(name, at_most=0.05, figure="more than with the fewest"),
            Goal(name, few, at_most=1.5, figure="trigger ms"),
        ]
    section = f"{broker}, cores of the driver's Python process while no message comes"
    return Case(section, "one message a second each", "cores", NOTHING, goals)


# --- a busy destination among quiet ones


def share(
    spark: SparkSession, broker: BenchmarkBroker, messages: int, seconds: float
) -> tuple[dict[str, Figures], Series]:
    """The busy queue has so many messages. The quiet ones are measured for so long before it has any."""
    busy = new_queue()
    with query_of(spark, broker, [busy], Seen(busy)) as query:
        alone, *_ = rate_of_busy(query, broker, messages)
    busy, *others = queues = [new_queue() for _ in range(MANY)]
    with (
        query_of(spark, broker, queues, Seen(busy)) as query,
        query.publishing(others, QUIET_RATE, _PATIENCE),
    ):
        pause(BEGIN)
        begin = time.time()
        pause(seconds)
        quiet = latency_of_quiet(query, begin, time.time())
        beside, begin, end = rate_of_busy(query, broker, messages)
        return {ALONE: alone, BESIDE: beside | latency_of_quiet(query, begin, end), QUIET_ONLY: quiet}, {}


def rate_of_busy(query: Query, broker: BenchmarkBroker, messages: int) -> tuple[Figures, float, float]:
    """Rows a second from when all messages are in the queue until all are read; the two times since 1970."""
    sink, before = query.sink, query.sink.busy_rows
    with program("bare", broker.program("publish", sink.busy, messages=messages, body=BODY)) as publisher:
        publisher.line()
    since, filled = time.monotonic(), time.time()
    query.wait(lambda: sink.busy_rows >= before + messages, f"{messages} messages")
    read, sizes = time.time(), [rows for at, rows in sink.batches if at >= since]
    figures = {"value": sink.rate(since), "batches": len(sizes), "median batch": statistics.median(sizes)}
    return figures, filled, read


def latency_of_quiet(query: Query, begin: float, end: float) -> Figures:
    """Milliseconds from publishing to the row of the quiet messages that were sent in this time."""
    # Another connection may bring later messages first.
    query.wait(lambda: query.sink.took(end + SETTLE, float("inf")), "messages that were sent later")
    took = query.sink.took(begin, end)
    shown = {f"p{percent} ms": percentile(took, percent) for percent in (50, 99)}
    return {**shown, "largest ms": took[-1], "quiet messages": len(took)}


def share_case(broker: str) -> Case:
    """The case of the results file."""
    goals = [Goal(BESIDE, ALONE, at_least=0.8), Goal(BESIDE, QUIET_ONLY, at_most=2.0, figure="p50 ms")]
    return Case(f"{broker}, a busy queue", f"among {MANY}", "messages/s", ALONE, goals)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.destinations")
    parser.add_argument("--brokers", default=BROKERS)
    parser.add_argument("--destinations", default=DESTINATIONS, help="of a query, the fewest first")
    parser.add_argument("--parts", default=PARTS)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement without messages")
    parser.add_argument("--messages", type=int, default=400_000, help="of the busy queue")
    add_arguments(parser)
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.destinations.split(",")]
    results, spark = Results("destinations"), spark_session("local[2]")
    register(spark)
    spark.dataSource.register(ReadyMade)
    for broker in each_broker(arguments.brokers):
        latencies(spark, broker, 100, arguments.seconds)  # pays for starting workers and what Java compiles
        if "cost" in arguments.parts:
            measured = partial(cost_round, spark, broker, sizes, arguments.seconds)
            results.measure(cost_case(broker.name, sizes), arguments, measured)
        if "share" in arguments.parts:
            measured = partial(share, spark, broker, arguments.messages, arguments.seconds)
            results.measure(share_case(broker.name), arguments, measured)
    spark.stop()


if __name__ == "__main__":
    main()
