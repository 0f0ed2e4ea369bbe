"""``python -m spark_stomp.demo``: publishes the flights, runs both queries, and proves that nothing was lost.

Exit status: 0 if nothing was lost or doubled, 1 if something was, 2 if the demonstration could not run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from spark_stomp.demo.flights import Expected, airline_names, flights, messages
from spark_stomp.demo.queries import (
    ALERTS,
    ARCHIVE,
    FLIGHTS,
    Statistics,
    start_archive,
    start_session,
    start_statistics,
)
from spark_stomp.demo.report import Sample, checks, progress_line, result_table, save_plot
from spark_stomp.devbroker import DevBroker

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryManager

# Flights in the file.
ALL_ROWS: Final = 336_776
PROOF_HOLDS, PROOF_FAILS, CANNOT_RUN = 0, 1, 2
LEAST_JAVA: Final = 17
# Seconds without progress after which the demonstration ends. The first batch takes up to half a minute,
# because Spark starts its workers (November 2026).
_STALLED: Final = 120.0
# Seconds between two samples.
_SAMPLE_EVERY: Final = 1
HOW_TO_INSTALL: Final = f"""\
Spark needs Java {LEAST_JAVA} or later. To install it:
  Debian, Ubuntu    sudo apt-get install openjdk-17-jre-headless
  Fedora, RHEL      sudo dnf install java-17-openjdk-headless
  macOS             brew install openjdk@17
  elsewhere         https://adoptium.net
If it is installed already, set JAVA_HOME to its folder."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m spark_stomp.demo", description=__doc__)
    parser.add_argument("--rows", type=int, default=ALL_ROWS, help="most flights to publish (%(default)s)")
    parser.add_argument(
        "--plot", type=Path, default=Path("artifacts/flights.png"), help="file for the plot (%(default)s)"
    )
    arguments = parser.parse_args(argv)
    if not has_java():
        print(HOW_TO_INSTALL, file=sys.stderr)
        return CANNOT_RUN
    # The workers that Spark starts must run the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="spark-stomp-demo-") as folder:
        return PROOF_HOLDS if _run(arguments.rows, arguments.plot, Path(folder)) else PROOF_FAILS


def has_java() -> bool:
    """Whether Spark finds a Java of at least version 17: in JAVA_HOME or, if that is not set, on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        # -version prints to stderr.
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr)
    return match is not None and int(match[1]) >= LEAST_JAVA


def _run(rows: int, plot: Path, folder: Path) -> bool:
    """Publish the flights, run the queries, and print the proof; returns whether it holds."""
    expected, results = Expected(), Statistics()
    with DevBroker() as broker:
        headers = [("content-type", "application/json")]
        broker.publish_many(FLIGHTS, messages(flights(rows), expected), headers)
        print(f"{expected.flights:,} flights are in {FLIGHTS} of the dev broker at {broker.url}.")
        print("Starting Java and Spark ...", flush=True)
        spark = start_session()
        try:
            print("Starting the two queries; the first batch takes some seconds ...", flush=True)
            start_statistics(spark, broker.url, folder / "statistics", results)
            start_archive(spark, broker.url, folder / "archive")
            samples = _watch(spark.streams, broker, results, expected)
            for query in spark.streams.active:
                query.stop()
        except PySparkException as failure:
            print(f"The demonstration failed: {failure}", file=sys.stderr)
            return False
        finally:
            spark.stop()
        archive = broker.bodies(ARCHIVE)
    print(f"\n{result_table(results.totals(), airline_names())}\n")
    save_plot(plot, results.totals(), samples)
    print(f"Plot: {plot}\nProof:")
    proof = checks(samples[-1], results, expected, archive)
    print("\n".join(map(str, proof)), flush=True)
    return all(check.holds for check in proof)


def _watch(
    queries: StreamingQueryManager, broker: DevBroker, results: Statistics, expected: Expected
) -> list[Sample]:
    """Take a sample each second until everything has arrived, or nothing has changed for two minutes.

    Raises:
        StreamingQueryException: one of the ``queries`` has failed.
    """
    begun = time.monotonic()
    shown = moved = _sample(broker, results, 0.0)
    samples = [moved]
    while not samples[-1].complete(expected) and samples[-1].seconds - moved.seconds < _STALLED:
        # Waits for a second. If a query has failed, this raises its error.
        if queries.awaitAnyTermination(_SAMPLE_EVERY):
            break
        sample = _sample(broker, results, time.monotonic() - begun)
        samples.append(sample)
        if not sample.same_state(moved):
            moved = sample
        if sample.batches > shown.batches:
            print(progress_line(sample, shown, expected.flights), flush=True)
            shown = sample
    return samples


def _sample(broker: DevBroker, results: Statistics, seconds: float) -> Sample:
    return Sample(
        seconds,
        results.rows,
        len(results.batches),
        broker.queue(FLIGHTS),
        broker.queue(ALERTS),
        broker.queue(ARCHIVE).enqueued,
    )


if __name__ == "__main__":
    sys.exit(main())
