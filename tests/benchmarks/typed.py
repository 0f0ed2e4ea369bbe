"""What people run: messages of a queue become typed rows in a Parquet table; with dead letters too.

The typed source beside the bare one, beside Spark's ``from_json`` and our ``rescue_json`` behind it, and
beside Spark's own source for Kafka with ``from_json``, on ``local[2]``. The last one is for some releases of
Spark only, so all of it runs on such a release (``kafka.py``), if Maven has what it needs.

    python -m benchmarks.typed [--parts rates,trigger,latency,frame] [--messages 120000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from support.brokers import Unavailable
from support.spark import Running, spark_session

from benchmarks import kafka
from benchmarks.bare import NOW
from benchmarks.brokers import BenchmarkBroker, each_broker, new_queue
from benchmarks.latency import percentile
from benchmarks.plots import ROW
from benchmarks.programs import Json, program, result_of
from benchmarks.results import Case, Figures, Goal, Results, Series, add_arguments
from benchmarks.streams import connected_since
from benchmarks.usage import Meter, Processes, difference
from spark_stomp import dead_letters, register, rescue_json

BARE, FROM_JSON, TYPED, RESCUE = "bare source", "from_json", "typed source", "rescue_json"
WRITE, LETTERS, BAD = "foreachBatch(write)", "dead_letters", "dead_letters, one in a hundred bad"
KAFKA: Final = "Kafka + from_json"
PARTS = ("rates", "trigger", "latency", "frame")
RATE, TRIGGER_RATE = "messages/s", 20
LATENCY_RATE = 1_000
# So many triggers, and seconds at the rate of LATENCY_RATE, do not count.
_FIRST_TRIGGERS, _WARM_UP = 3, 3.0
_TRIGGER, *_PARTS_OF_TRIGGER = "triggerExecution", "queryPlanning", "addBatch", "latestOffset"
# So many bodies are sent in turn.
_BODIES = 200
_PATIENCE, _LOOK = 600.0, 0.1

FLAT = "symbol STRING, price DOUBLE, volume BIGINT, side STRING, venue STRING, day STRING"
NESTED = (
    "volume BIGINT, who STRUCT<name: STRING, mail: STRING, address: STRUCT<street: STRING, town: STRING>>, "
    "lines ARRAY<STRUCT<article: STRING, price: DECIMAL(10, 2), count: INT>>"
)
Fields = dict[str, Any]


def _trade(number: int) -> Fields:
    price = (number * 7_919) % 90_000 / 100
    day = f"2026-11-27 10:{number % 60:02}:05"
    names = {"symbol": f"ACME{number % 100}", "price": price, "volume": 1_000_000_000 + number}
    return {**names, "side": "buy", "venue": "XPAR", "day": day}


def _shuffled(number: int) -> Fields:
    trade = _trade(number)
    return {name: trade[name] for name in ("venue", "day", "volume", "price", "side", "symbol")}


def _order(number: int) -> Fields:
    """Fields of the same names are in the order of the schema nowhere."""
    lines = [{"count": one + 1, "price": (number + one) / 4, "article": f"a{one}"} for one in range(2)]
    address = {"town": "Bern", "street": f"Gasse {number % 50}"}
    who = {"mail": f"n{number}@example.org", "address": address, "name": f"N{number}"}
    return {"who": who, "lines": lines, "volume": 1_000_000_000 + number}


@dataclass(frozen=True)
class Shape:
    """Bodies of a kind, and their schema. Each has a number ``volume``."""

    name: str
    schema: str
    fields: Callable[[int], Fields]

    def texts(self, *, bad: bool = False, stamped: bool = False) -> list[str]:
        """Bodies; with ``bad`` one in a hundred does not fit, with ``stamped`` the volume is the time."""
        found = []
        for number in range(_BODIES):
            fields = self.fields(number) | ({"volume": NOW} if stamped else {})
            if bad and number % 100 == 0:
                fields |= {"price": "n/a"}
            found.append(json.dumps(fields, separators=(",", ":")).replace(f'"{NOW}"', NOW))
        return found

    @cached_property
    def struct(self) -> str:
        """The schema as the type of a column."""
        return f"STRUCT<{self.schema}>"


IN_ORDER = Shape("in the schema's order", FLAT, _trade)
SHUFFLED = Shape("in another order", FLAT, _shuffled)
NEST = Shape("nested, in another order", NESTED, _order)
SHAPES = (IN_ORDER, SHUFFLED, NEST)
# Of each shape. What goals do not need is measured once.
RATES = {
    IN_ORDER: (BARE, FROM_JSON, TYPED, RESCUE, WRITE, LETTERS, BAD, KAFKA),
    SHUFFLED: (FROM_JSON, TYPED, RESCUE, KAFKA),
    NEST: (FROM_JSON, TYPED, RESCUE, KAFKA),
}
TRIGGERS = {IN_ORDER: (FROM_JSON, TYPED, RESCUE, WRITE, LETTERS), NEST: (FROM_JSON, TYPED, RESCUE)}
LATENCIES = (BARE, TYPED)

GOALS = [Goal(TYPED, FROM_JSON, at_most=1.0), Goal(TYPED, KAFKA, at_most=1.8)]
RATE_GOALS = [Goal(TYPED, KAFKA, at_least=0.6)]
TRIGGER_GOALS = [Goal(TYPED, FROM_JSON, at_most=1.1), Goal(LETTERS, WRITE, at_most=1.2)]
LATENCY_GOALS = [Goal(TYPED, BARE, at_most=1.1)]
FRAME_GOALS = [Goal(RESCUE, FROM_JSON, at_most=1.6)]


class Table:
    """A foreachBatch function that writes ``columns`` to a Parquet table, a folder for each batch."""

    def __init__(self, folder: Path, columns: str = "*") -> None:
        self._folder, self._columns = folder, columns
        self.rows = 0
        self.written: dict[Path, float] = {}
        """The folders, and when each was there."""

    def __call__(self, batch: DataFrame, number: int) -> None:
        part = self._folder / f"batch={number}"
        batch.select(self._columns).write.parquet(str(part))
        self.written[part] = time.time()
        self.rows += sum(pq.ParquetFile(file).metadata.num_rows for file in part.glob("*.parquet"))

    def has(self, rows: int = 0, batches: int = 0) -> bool:
        """Whether it has so many by now."""
        return self.rows >= rows and len(self.written) >= batches

    def latencies(self, warm_up: float) -> list[float]:
        """Milliseconds from each row's ``volume`` to its being there, in order of size."""
        found = [(sent, at - sent) for part, at in self.written.items() for sent in _sent(part)]
        begun = min(sent for sent, _ in found) + warm_up
        return sorted(1_000 * took for sent, took in found if sent >= begun)


def _sent(part: Path) -> Iterator[float]:
    for file in part.glob("*.parquet"):
        for body in pq.ParquetFile(file).read(["body"])["body"].to_pylist():
            yield (json.loads(body) if isinstance(body, bytes) else body)["volume"] / 1e6


@dataclass
class Sources:
    """Where messages are: queues of a broker and, if it can be had, topics of Kafka."""

    spark: SparkSession
    broker: BenchmarkBroker
    kafka: kafka.Kafka | None
    _topics: set[str] = field(default_factory=set)

    def has(self, candidate: str) -> bool:
        return candidate != KAFKA or self.kafka is not None

    @cached_property
    def processes(self) -> Processes:
        return Processes((*self.broker.processes, *(self.kafka.processes if self.kafka else ())))

    def rows(self, candidate: str, shape: Shape, place: str, **options: str) -> DataFrame:
        """The rows that a candidate makes of a queue, with options of our source, or of a topic."""
        if self.kafka and candidate == KAFKA:
            stream = self.kafka.read(self.spark, place)
            return stream.select("partition", "offset", _from_json("value", shape))
        typed = f"body {shape.struct}, rescued BINARY, malformed STRING"
        if candidate == TYPED:
            return self._stream(place, f"message_id STRING, {typed}", options)
        if candidate in (WRITE, LETTERS, BAD):
            own = "destination STRING, headers MAP<STRING, STRING>, stable_id STRING"
            return self._stream(place, f"{own}, {typed}", options)
        stream = self._stream(place, "message_id STRING, body BINARY", options)
        if candidate == FROM_JSON:
            return stream.select("message_id", _from_json("body", shape))
        return rescue_json(stream, shape.schema) if candidate == RESCUE else stream

    def sink(self, candidate: str, place: str, table: Table) -> Callable[[DataFrame, int], None]:
        """What writes these rows."""
        if candidate not in (LETTERS, BAD):
            return table
        options = self.broker.options(f"{place}.dead")
        return dead_letters(table, options.pop("destination"), **options)

    def _stream(self, queue: str, schema: str, options: Mapping[str, str]) -> DataFrame:
        stream = self.spark.readStream.format("stomp").options(**self.broker.options(queue), **options)
        return stream.schema(schema).load()

    def filled(self, candidate: str, shape: Shape, messages: int) -> str:
        """A new queue with so many messages, or the topic that has them."""
        if self.kafka and candidate == KAFKA:
            topic = f"{SHAPES.index(shape)}-{messages}"
            if topic not in self._topics:
                self.kafka.publish(bodies(self.spark, shape, messages), topic)
                self._topics.add(topic)
            return topic
        queue = new_queue()
        result_of("bare", self.load(queue, shape.texts(bad=candidate == BAD), messages))
        return queue

    def load(self, queue: str, texts: Sequence[str], messages: int, **more: object) -> Json:
        """Settings for the program ``bare`` that publishes them in turn."""
        return self.broker.program("publish", queue, messages=messages, body=0, texts=texts, **more)


def bodies(spark: SparkSession, shape: Shape, messages: int) -> DataFrame:
    """A DataFrame of the bodies that a publisher sends."""
    every = f.array(*map(f.lit, shape.texts()))
    return spark.range(0, messages, 1, 2).select(
        f.element_at(every, (f.col("id") % _BODIES + 1).cast("int")).alias("body")
    )


def _from_json(column: str, shape: Shape) -> Any:
    return f.from_json(f.col(column).cast("string"), shape.schema).alias("body")


def rates(sources: Sources, shape: Shape, messages: int) -> tuple[dict[str, Figures], Series]:
    """Each candidate in turn: what a row takes of the processor, and rows a second, from a filled queue."""
    found = {}
    for candidate in filter(sources.has, RATES[shape]):
        found[candidate] = _drained(sources, candidate, shape, messages)
    return found, {}


def _drained(sources: Sources, candidate: str, shape: Shape, messages: int) -> Figures:
    """From the subscription on, or on Kafka from the first trigger, to the last row in the table."""
    place = sources.filled(candidate, shape, messages)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        table = Table(Path(name) / "table", _columns(candidate))
        status = Path(name) / "status.json"
        rows = sources.rows(candidate, shape, place, statusFile=str(status))
        sink, meter = sources.sink(candidate, place, table), Meter(sources.processes)
        looks = [(time.time(), meter.seconds())]
        with Running(rows, Path(name) / "checkpoint", sink, availableNow=True) as query:
            looks.append((time.time(), meter.seconds()))
            while not query.query.awaitTermination(_LOOK):  # type: ignore[arg-type]
                looks.append((time.time(), meter.seconds()))
            begun = connected_since(status) or _first_trigger(query)
        before = [seconds for at, seconds in looks if at <= begun][-1]
        spent, seconds = difference(meter.seconds(), before), max(table.written.values()) - begun
    expected = messages - (len(range(0, messages, 100)) if candidate == BAD else 0)
    if table.rows != expected:
        raise RuntimeError(f"{candidate}: {table.rows} rows are in the table, and {expected} should be")
    own = {f"{role.removesuffix(' s')} us": round(used * 1e6 / messages, 2) for role, used in spent.items()}
    whole = {"value": sum(spent.values()) * 1e6 / messages, RATE: messages / seconds}
    start = sum(before.values())
    return {**whole, "messages": messages, "batches": len(table.written), "start s": round(start, 2), **own}


def _first_trigger(query: Running) -> float:
    return datetime.fromisoformat(
        query.query.recentProgress[0]["timestamp"].replace("Z", "+00:00")
    ).timestamp()


def _columns(candidate: str) -> str:
    return "body.*" if candidate in (WRITE, LETTERS, BAD) else "*"


def triggers(sources: Sources, shape: Shape, count: int) -> tuple[dict[str, Figures], Series]:
    """Milliseconds of a trigger that has rows: the median of so many, without the first ones."""
    found = {}
    for candidate in TRIGGERS[shape]:
        most = int(TRIGGER_RATE * _PATIENCE)
        with _at_rate(sources, candidate, shape, TRIGGER_RATE, most) as (query, table):
            enough = _FIRST_TRIGGERS + count
            # Spark tells of a batch after its end.
            query.wait(partial(table.has, batches=enough + 1), _PATIENCE, f"{enough + 1} batches", 0.05)
            took = [one["durationMs"] for one in query.query.recentProgress if one["numInputRows"]]
        steady = took[_FIRST_TRIGGERS:]
        parts = {part: statistics.median(one.get(part, 0) for one in steady) for part in _PARTS_OF_TRIGGER}
        first = {"first": took[0][_TRIGGER], "triggers": len(steady)}
        found[candidate] = {"value": statistics.median(one[_TRIGGER] for one in steady), **first, **parts}
    return found, {}


def latencies(sources: Sources, seconds: float) -> tuple[dict[str, Figures], Series]:
    """Milliseconds from publishing a message to its row in the table."""
    found, messages = {}, int(LATENCY_RATE * (seconds + _WARM_UP))
    for candidate in LATENCIES:
        with _at_rate(sources, candidate, IN_ORDER, LATENCY_RATE, messages) as (query, table):
            query.wait(partial(table.has, rows=messages), _PATIENCE, f"{messages} rows", 0.05)
            took = table.latencies(_WARM_UP)
        found[candidate] = {"value": percentile(took, 50), "p99": percentile(took, 99), "rows": len(took)}
    return found, {}


@contextmanager
def _at_rate(
    sources: Sources, candidate: str, shape: Shape, rate: int, messages: int
) -> Iterator[tuple[Running, Table]]:
    """A running query, and the table that it writes, while messages are published."""
    queue = new_queue()
    texts = shape.texts(bad=candidate == BAD, stamped=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        table = Table(Path(name) / "table", _columns(candidate))
        rows, sink = sources.rows(candidate, shape, queue), sources.sink(candidate, queue, table)
        load = sources.load(queue, texts, messages, rate=rate)
        with Running(rows, Path(name) / "checkpoint", sink) as query:
            with program("bare", load):
                yield query, table
            # Spark prints a stack trace of a thousand lines if it stops in the middle of a batch.
            query.query.processAllAvailable()


def frames(
    spark: SparkSession, processes: Processes, shape: Shape, messages: int
) -> tuple[dict[str, Figures], Series]:
    """Processor time of a row of a DataFrame, from Parquet to nowhere."""
    with tempfile.TemporaryDirectory() as name:
        bodies(spark, shape, messages).write.parquet(f"{name}/bodies")
        rows = spark.read.parquet(f"{name}/bodies")
        made = {
            FROM_JSON: rows.select(_from_json("body", shape)),
            RESCUE: rescue_json(rows, shape.schema),
        }
        return {name: _evaluated(frame, processes, messages) for name, frame in made.items()}, {}


def _evaluated(frame: DataFrame, processes: Processes, messages: int) -> Figures:
    meter = Meter(processes)
    frame.write.format("noop").mode("overwrite").save()
    return {"value": sum(meter.seconds().values()) * 1e6 / messages, "messages": messages}


def cases(broker: str, shape: Shape) -> tuple[Case, Case]:
    """The processor time of a row, and the rate."""
    own = f"{broker}, processor time of a row in all processes but the brokers'"
    return (
        Case(own, shape.name, ROW, FROM_JSON, GOALS),
        Case(f"{broker}, messages a second", shape.name, RATE, KAFKA, RATE_GOALS),
    )


def measure(sources: Sources, results: Results, arguments: argparse.Namespace) -> None:
    """All parts that the arguments name."""
    broker, parts = sources.broker.name, arguments.parts.split(",")
    if "rates" in parts:
        for shape in SHAPES:
            # For Java's compiler; what it has to do for the topic's producer is done by then.
            if sources.has(KAFKA):
                sources.filled(KAFKA, shape, arguments.messages)
            rates(sources, shape, arguments.messages // 4)
            case, other = cases(broker, shape)
            measured = partial(rates, sources, shape, arguments.messages)
            results.measure(case, arguments, measured, {RATE: other})
    if "trigger" in parts:
        for shape in TRIGGERS:
            case = Case(f"{broker}, trigger at {TRIGGER_RATE} messages a second", shape.name, "ms", FROM_JSON)
            case.goals += TRIGGER_GOALS
            results.measure(case, arguments, partial(triggers, sources, shape, arguments.triggers))
    if "latency" in parts:
        name = f"{broker}, from publishing to a row in the table"
        case = Case(name, f"p50 at {LATENCY_RATE:,} messages a second", "ms", BARE, LATENCY_GOALS)
        results.measure(case, arguments, partial(latencies, sources, arguments.seconds))


def measure_frames(
    spark: SparkSession, processes: Processes, results: Results, arguments: argparse.Namespace
) -> None:
    """The part that has no source."""
    for shape in SHAPES if "frame" in arguments.parts.split(",") else ():
        case = Case("JSON of a DataFrame, processor time of a row", shape.name, "us", FROM_JSON, FRAME_GOALS)
        measured = partial(frames, spark, processes, shape)
        measured(arguments.messages // 10)
        results.measure(case, arguments, partial(measured, arguments.messages // 2))


def main() -> None:
    arguments = _arguments()
    with ExitStack() as stack:
        node, conf = None, dict[str, str]()
        try:
            classes = kafka.source_classes()
            if not kafka.is_here():
                raise SystemExit(kafka.run_on_its_spark("benchmarks.typed"))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            node = stack.enter_context(kafka.running(folder))
            conf["spark.driver.extraClassPath"] = classes
        except (Unavailable, AssertionError) as why:
            print(f"skipped: Kafka cannot be had: {why}")
        spark, results = spark_session("local[2]", **conf), Results("typed")
        register(spark)
        for broker in each_broker(arguments.brokers):
            measure(Sources(spark, broker, node), results, arguments)
        measure_frames(spark, Processes(node.processes if node else ()), results, arguments)
        spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.typed")
    parser.add_argument(
        "--messages", type=int, default=120_000, help="of each candidate of rates; half of it of frame"
    )
    parser.add_argument("--triggers", type=int, default=15, help="of each candidate")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each candidate of latency")
    parser.add_argument("--brokers", default="artemis")
    parser.add_argument("--parts", default=",".join(PARTS))
    add_arguments(parser, rounds=3)
    arguments = parser.parse_args()
    if unknown := {*arguments.parts.split(",")} - {*PARTS}:
        raise SystemExit(f"no such part: {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    return arguments


if __name__ == "__main__":
    main()
