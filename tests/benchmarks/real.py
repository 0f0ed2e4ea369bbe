"""Messages a second from a real broker's queue to rows counted in ``foreachBatch``, on ``local[2]``.

In each round of a case all candidates run in turn, each on a queue of its own that was filled just before (or
is filled while it runs, with ``--meanwhile``): a bare socket, our receiver without Spark, and Spark with
default and with tuned options; with bodies of 235 B also with a journal on the local disk. The time is from
the subscription to the last message counted (and, without Spark, ACKed).

    python -m benchmarks.real --brokers rabbitmq --cases "235 B" --rounds 1
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial

from pyspark.sql import SparkSession
from support.spark import spark_session

from benchmarks.alone import Alone
from benchmarks.brokers import NAMES, BenchmarkBroker, each_broker, new_queue, new_stream
from benchmarks.plots import SHOWN
from benchmarks.programs import program, result_of
from benchmarks.ready_made import ReadyMade
from benchmarks.results import Case, Figures, Goal, Results, Series, add_arguments
from benchmarks.streams import rate, run
from benchmarks.usage import READER, Processes, difference
from spark_stomp import register

BODIES = {"235 B": 235, "1 KB": 1_000, "10 KB": 10_000, "1 MB": 1_000_000}
PERSISTENT = "235 B, persistent"
CASES = (*BODIES, PERSISTENT)
JOURNALS = {"with a journal": "commit", "ackAfter=journal": "journal"}
READY = "ready-made batches"
FLOOR = "what two cores allow"
STREAM = "a stream"
CANDIDATES = ("bare socket", "receiver alone", "default", "tuned", *JOURNALS, STREAM, READY)
_OWN = "reader and worker s a million"
GOALS = [
    Goal("default", figure=_OWN, at_most=6),
    Goal("default", "bare socket", at_least=0.55),
    Goal("tuned", "bare socket", at_least=0.7),
    Goal("with a journal", "default", at_least=0.9),
    Goal("ackAfter=journal", "default", at_least=1.0),
]
# Cases with goals have so many rounds. Others have one, with a third of the messages.
ROUNDS = 3
OTHERS = 3
MOST_OCTETS = 1_000_000_000
# Bytes bound the batches of larger bodies, and Artemis makes a window of bytes from the prefetch before it
# saw any: a smaller one lets a single body through.
LARGE = 1_000_000
MIDDLE = 10_000
# Of what two cores allow.
SHARES = {"235 B": 0.8, "10 KB": 0.8, "1 MB": 0.7}
CORES = 2


@dataclass(frozen=True)
class Load:
    """One case of ``CASES``: what is in the queue."""

    name: str
    meanwhile: bool = False

    @property
    def persistent(self) -> bool:
        return self.name == PERSISTENT

    @property
    def octets(self) -> int:
        return BODIES[self.name.partition(",")[0]]

    @property
    def is_shown(self) -> bool:
        """Whether it is the case of small messages that the goals are about."""
        return self.name == SHOWN and not self.meanwhile

    @property
    def has_goals(self) -> bool:
        return self.is_shown or self.octets >= MIDDLE

    @property
    def goals(self) -> list[Goal]:
        share = [Goal("default", FLOOR, at_least=SHARES[self.name])] if self.has_goals else []
        return [*share, *GOALS] if self.is_shown else share

    def messages(self, asked: int) -> int:
        """How many are measured if ``asked`` are wanted of 235 B; never more than ``MOST_OCTETS``."""
        wanted = asked if self.has_goals else asked // OTHERS
        return max(1, min(wanted, MOST_OCTETS // self.octets))

    def rounds(self, asked: int | None) -> int:
        """How many are measured; ``asked`` by the arguments."""
        return asked or (ROUNDS if self.has_goals else 1)

    @property
    def tuned(self) -> dict[str, str]:
        """Options for much traffic: a window of more messages than by default, of which a batch takes half. A
        minimum would leave a core idle while Spark waits for it."""
        return {"prefetch": str(max(200, min(100_000, 256_000_000 // self.octets)))}


class Measurement:
    """A load on a broker, measured by each candidate."""

    def __init__(self, spark: SparkSession, broker: BenchmarkBroker, load: Load, messages: int) -> None:
        self._spark, self._broker, self._load = spark, broker, load
        self._messages = load.messages(messages)
        self._processes = Processes(broker.processes)
        self._candidates: dict[str, Callable[[str], Figures]] = {
            "bare socket": self._bare,
            "receiver alone": self._alone,
            "default": partial(self._through_spark, {}),
        }
        if load.octets < LARGE:
            self._candidates["tuned"] = partial(self._through_spark, load.tuned)
        for name, moment in JOURNALS.items() if load.is_shown else ():
            self._candidates[name] = partial(self._with_journal, moment)
        if load.is_shown and broker.name == "rabbitmq":
            self._candidates[STREAM] = self._of_stream

    def round(self, names: Sequence[str]) -> tuple[dict[str, Figures], Series]:
        """The figures of each candidate, one after another."""
        wanted = [name for name in names if name in self._candidates]
        found = {name: self._measured(self._candidates[name], name == STREAM) for name in wanted}
        if READY in names and "default" in found:
            found[READY] = self._ready_made(int(found["default"]["median batch"]))
            if "bare socket" in found:
                found[FLOOR] = self._floor(found["bare socket"], found[READY])
        return found, {}

    def _floor(self, bare: Figures, ready: Figures) -> Figures:
        """The rate if each process took what it takes for nothing but the same messages."""
        least = {
            "broker": bare["broker s"] * 1e6 / self._messages,
            "bare client": bare["client s"] * 1e6 / self._messages,
            "JVM and worker of ready-made batches": sum(
                ready.get(f"{role} s a million", 0.0) for role in ("JVM", "worker")
            ),
        }
        named = {f"{name} s a million": round(seconds, 2) for name, seconds in least.items()}
        return {"value": CORES * 1e6 / sum(least.values()), "messages": self._messages, **named}

    def _measured(self, candidate: Callable[[str], Figures], of_stream: bool) -> Figures:
        queue = new_stream(self._broker) if of_stream else new_queue()
        with self._published(queue):
            return candidate(queue)

    @contextmanager
    def _published(self, queue: str) -> Iterator[None]:
        load = {"messages": self._messages, "body": self._load.octets, "persistent": self._load.persistent}
        with program("bare", self._broker.program("publish", queue, **load)) as publisher:
            if not self._load.meanwhile:
                publisher.line()
            yield

    def _bare(self, queue: str) -> Figures:
        prefetch = int(self._load.tuned["prefetch"])
        headers = self._broker.prefetch(prefetch, self._load.octets)
        settings = {"messages": self._messages, "headers": headers}
        return self._by_itself("bare", self._broker.program("receive", queue, **settings))

    def _alone(self, queue: str) -> Figures:
        options = {**self._broker.options(queue), **self._load.tuned}
        return self._by_itself("alone", asdict(Alone(options, self._messages)))

    def _by_itself(self, name: str, settings: dict[str, object]) -> Figures:
        before = self._processes.seconds()
        found = result_of(name, settings)
        spent = difference(self._processes.seconds(), before).get("broker s", 0.0)
        rate, own = self._messages / found["seconds"], round(found["processor"], 2)
        return {"value": rate, "messages": self._messages, "broker s": spent, "client s": own}

    def _through_spark(self, tuning: dict[str, str], queue: str) -> Figures:
        return self._with_options({**self._broker.options(queue), **tuning})

    def _of_stream(self, stream: str) -> Figures:
        return self._with_options({**self._broker.options(stream), "startingOffsets": "earliest"})

    def _with_options(self, options: dict[str, str]) -> Figures:
        streamed = run(self._spark, options, self._messages, processes=self._processes)
        rate = self._messages / streamed.seconds
        figures = streamed.figures()
        own = sum(figures.get(f"{role} s a million", 0.0) for role in (READER, "worker"))
        return {"value": rate, "messages": self._messages, **figures, _OWN: own}

    def _ready_made(self, batch: int) -> Figures:
        """Batches as large as ours, because each costs some 0.2 s whatever its size."""
        stream = self._spark.readStream.format("ready-made").options(batch=batch, tasks=2)
        frame = stream.options(messages=self._messages, body=self._load.octets).load()
        found, spent = rate(frame, self._messages, self._processes)
        return {"value": found, "messages": self._messages, **spent}

    def _with_journal(self, ack_after: str, queue: str) -> Figures:
        # The process that receives may outlive its query for a moment.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            return self._through_spark({"journal": f"{folder}/journal", "ackAfter": ack_after}, queue)


def main() -> None:
    arguments = _arguments()
    results, every = Results("real"), loads(arguments)
    spark = spark_session("local[2]")
    register(spark)
    spark.dataSource.register(ReadyMade)
    for broker in each_broker(arguments.brokers):
        for load in every:
            measurement = Measurement(spark, broker, load, arguments.messages)
            # Bodies of another size are new to Java's compiler: the first 100,000 of 10 KB came half as fast.
            measurement.round(["default", READY])
            measured = partial(measurement.round, arguments.candidates.split(","))
            rounds = argparse.Namespace(fresh=arguments.fresh, rounds=load.rounds(arguments.rounds))
            results.measure(as_case(broker.name, load), rounds, measured)
    spark.stop()


def as_case(broker: str, load: Load) -> Case:
    """The case of the results file."""
    section = broker + (", published meanwhile" if load.meanwhile else "")
    return Case(section, load.name, "messages/s", "bare socket", load.goals)


def loads(arguments: argparse.Namespace) -> list[Load]:
    names = [one.strip() for one in arguments.cases.split(";") if one.strip()]
    if unknown := set(names) - set(CASES):
        raise SystemExit(f"no such case: {', '.join(unknown)}; there are: {'; '.join(CASES)}")
    return [Load(name, arguments.meanwhile) for name in names or CASES]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.real")
    parser.add_argument("--messages", type=int, default=240_000, help="of 235 B")
    parser.add_argument("--brokers", default=",".join(NAMES))
    parser.add_argument("--cases", default="", help=f"of {'; '.join(CASES)}; all by default")
    parser.add_argument("--candidates", default=",".join(CANDIDATES))
    parser.add_argument("--meanwhile", action="store_true", help="publish while reading")
    add_arguments(parser, rounds=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
