"""The two streaming queries. The first makes statistics and alerts of flights, the second archives alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_stomp.demo.flights import BADLY_DELAYED, LATE, Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHTS: Final = "/queue/flights"
ALERTS: Final = "/queue/alerts"
ARCHIVE: Final = "/queue/archive"

_FLIGHT: Final = (
    "id long, carrier string, flight int, origin string, dest string, dep_delay int, time_hour string"
)


@dataclass(frozen=True)
class BatchResult:
    """One batch: the ids of its flights, and its totals per (carrier, origin)."""

    ids: list[int]
    totals: Mapping[tuple[str, str], Mapping[str, int]]


@dataclass
class Statistics:
    """The results of the first query, by batch id: a batch that Spark repeats replaces its earlier result.

    The query's thread replaces ``batches`` as a whole, so that other threads may read it at any time.
    """

    batches: Mapping[int, BatchResult] = field(default_factory=dict)

    def put(self, batch_id: int, result: BatchResult) -> None:
        """Keep the result of a batch."""
        self.batches = {**self.batches, batch_id: result}

    @property
    def rows(self) -> int:
        """The number of rows in all batches."""
        return sum(len(result.ids) for result in self.batches.values())

    def distinct_ids(self) -> int:
        """The number of different flights in all batches."""
        return len({number for result in self.batches.values() for number in result.ids})

    def totals(self) -> Totals:
        """The totals of all batches together."""
        summed: Totals = {}
        for result in self.batches.values():
            for key, counts in result.totals.items():
                summed.setdefault(key, Counter()).update(counts)
        return summed


def start_session() -> SparkSession:
    """A Spark session on two cores. Its other settings come from the folder that SPARK_CONF_DIR names."""
    return SparkSession.builder.master("local[2]").appName("spark-stomp demo").getOrCreate()


def start_statistics(spark: SparkSession, url: str, checkpoint: Path, results: Statistics) -> StreamingQuery:
    """The first query: adds up delays by carrier and airport, and sends an alert for each long delay."""
    flights = (
        spark.readStream.format("stomp")
        .schema("body string")
        .option("url", url)
        .option("maxMessagesPerTrigger", 40_000)  # about nine batches, so that there is progress to see
        .option("checkpointLocation", str(checkpoint))
        .load(FLIGHTS)
        .select(f.from_json("body", _FLIGHT).alias("flight"))
        .select("flight.*")
    )

    def update(batch: DataFrame, batch_id: int) -> None:
        # Two jobs use the batch: without this, each would parse its JSON.
        batch.persist()
        try:
            _alerts(batch).write.format("stomp").mode("append").option("url", url).option(
                "destination", ALERTS
            ).save()
            results.put(batch_id, _result(batch))
        finally:
            batch.unpersist()

    return (
        flights.writeStream.queryName("statistics")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(update)
        .start()
    )


def start_archive(spark: SparkSession, url: str, checkpoint: Path) -> StreamingQuery:
    """The second query: passes the alerts on to the archive."""
    alerts = (
        spark.readStream.format("stomp")
        .option("url", url)
        .option("checkpointLocation", str(checkpoint))
        .load(ALERTS)
    )
    return (
        alerts.select("body", "content_type")
        .writeStream.queryName("archive")
        .format("stomp")
        .option("url", url)
        .option("destination", ARCHIVE)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def _alerts(flights: DataFrame) -> DataFrame:
    """A message for each badly delayed flight, with the flight as its body."""
    urgent = f.when(f.col("dep_delay") >= 2 * BADLY_DELAYED, "9").otherwise("4")
    return flights.where(f.col("dep_delay") >= BADLY_DELAYED).select(
        f.to_json(f.struct(*flights.columns)).alias("body"),
        f.lit("application/json").alias("content_type"),
        f.create_map(f.lit("priority"), urgent).alias("headers"),
    )


def _result(flights: DataFrame) -> BatchResult:
    delay = f.col("dep_delay")
    groups = (
        flights.groupBy("carrier", "origin")
        .agg(
            f.count("*").alias("flights"),
            f.count(delay).alias("departures"),
            f.coalesce(f.sum(delay), f.lit(0)).alias("minutes"),
            f.count_if(delay > LATE).alias("late"),
        )
        .collect()
    )
    totals = {}
    for row in groups:
        counts = row.asDict()
        totals[counts.pop("carrier"), counts.pop("origin")] = counts
    return BatchResult(flights.select("id").toArrow().column("id").to_pylist(), totals)
