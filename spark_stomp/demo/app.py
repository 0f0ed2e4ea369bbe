"""The demonstration as a program. Exit status: 0 the proof holds, 1 it does not, 2 it could not be run."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException

from spark_stomp.demo.broker import BrokerProcess
from spark_stomp.demo.flights import Expected, airline_names, find_file, flights, messages
from spark_stomp.demo.java import missing_java
from spark_stomp.demo.plot import save_plot
from spark_stomp.demo.progress import Progress
from spark_stomp.demo.publisher import publish
from spark_stomp.demo.queries import ARCHIVE, FLIGHTS, start_archive, start_session, start_statistics
from spark_stomp.demo.report import Check, checks, result_table
from spark_stomp.demo.results import Statistics
from spark_stomp.demo.watch import Watch
from spark_stomp.errors import StompError

ALL_ROWS: Final = 336_776
DEFAULT_ROWS: Final = ALL_ROWS
PROOF_HOLDS, PROOF_FAILS, CANNOT_RUN = 0, 1, 2


@dataclass(frozen=True)
class Arguments:
    """The command line."""

    rows: int
    plot: Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration; returns its exit status."""
    arguments = _arguments(argv)
    reason = missing_java()
    if reason is not None:
        print(reason, file=sys.stderr)
        return CANNOT_RUN
    # The workers that Spark starts must be of the Python that has the package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="spark-stomp-demo-") as folder:
        return PROOF_HOLDS if _run(arguments, Path(folder)) else PROOF_FAILS


def _arguments(argv: Sequence[str] | None) -> Arguments:
    parser = argparse.ArgumentParser(prog="python -m spark_stomp.demo", description=__doc__)
    parser.add_argument(
        "--rows", type=_rows, default=DEFAULT_ROWS, help=f"how many flights, up to {ALL_ROWS:,} (%(default)s)"
    )
    parser.add_argument(
        "--plot",
        type=Path,
        default=Path("artifacts/flights.png"),
        help="where to write the PNG (%(default)s)",
    )
    parsed = parser.parse_args(argv)
    return Arguments(parsed.rows, parsed.plot)


def _rows(text: str) -> int:
    rows = int(text)
    if not 1 <= rows <= ALL_ROWS:
        raise argparse.ArgumentTypeError(f"must be from 1 to {ALL_ROWS}")
    return rows


def _run(arguments: Arguments, folder: Path) -> bool:
    """Publish, query, prove; whether the proof holds."""
    expected, results, progress = Expected(), Statistics(), Progress(arguments.rows)
    with ExitStack() as stack:
        with progress.waiting("Starting the dev broker in a process of its own"):
            broker = stack.enter_context(BrokerProcess())
        pool = stack.enter_context(ThreadPoolExecutor(1))
        print(f"Dev broker at {broker.url}; publishing {arguments.rows:,} flights to {FLIGHTS}.", flush=True)
        bodies = messages(flights(find_file("flights"), arguments.rows), expected)
        publishing = pool.submit(publish, broker.url, FLIGHTS, bodies)
        watch = Watch(broker, results, publishing, time.monotonic())
        try:
            arrived = _run_queries(watch, progress, folder, broker.url, results)
        except (StompError, PySparkException) as failure:
            progress.end()
            print(f"The demonstration failed: {failure}", file=sys.stderr)
            return False
        end, archive = watch.take(), broker.bodies(ARCHIVE)
    print(f"\n{result_table(results.totals(), airline_names())}\n")
    save_plot(arguments.plot, results.totals(), watch.samples)
    print(f"Plot: {arguments.plot}\nProof:")
    proof = [Check("everything arrived", arrived), *checks(end, results, expected, archive)]
    print("\n".join(map(str, proof)), flush=True)
    return all(check.holds for check in proof)


def _run_queries(watch: Watch, progress: Progress, folder: Path, url: str, results: Statistics) -> bool:
    """Run both queries until everything has arrived; False if nothing moves any more."""
    with progress.waiting("Starting Java and Spark"):
        spark = start_session()
    try:
        with progress.waiting("Starting the two queries"):
            start_statistics(spark, url, folder / "statistics", results)
            start_archive(spark, url, folder / "archive")
        arrived = watch.until_all_arrived(spark.streams, progress.show)
        progress.end()
        with progress.waiting("Stopping the queries"):
            for query in spark.streams.active:
                query.stop()
        return arrived
    finally:
        spark.stop()
