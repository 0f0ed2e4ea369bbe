"""The two streaming queries: flights to statistics and alerts, alerts to the archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_stomp.demo.flights import BADLY_DELAYED, LATE
from spark_stomp.demo.results import BatchResult, Statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHTS: Final = "/queue/flights"
ALERTS: Final = "/queue/alerts"
ARCHIVE: Final = "/queue/archive"

_MAX_MESSAGES: Final = "40000"
_FLIGHT: Final = (
    "id long, carrier string, flight int, origin string, dest string, dep_delay int, time_hour string"
)


def start_session() -> SparkSession:
    """A Spark session on two cores; the rest is as the folder named by SPARK_CONF_DIR says."""
    return SparkSession.builder.master("local[2]").appName("spark-stomp demo").getOrCreate()


def start_statistics(spark: SparkSession, url: str, checkpoint: Path, results: Statistics) -> StreamingQuery:
    """The first query: adds up delays per carrier and airport, and sends an alert for each bad one."""
    flights = (
        spark.readStream.format("stomp")
        .schema("body string")
        .option("url", url)
        .option("maxMessagesPerTrigger", _MAX_MESSAGES)
        .option("checkpointLocation", str(checkpoint))
        .load(FLIGHTS)
    )
    return (
        flights.writeStream.queryName("statistics")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(_batch_function(url, results))
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


def _batch_function(url: str, results: Statistics) -> Callable[[DataFrame, int], None]:
    def update(batch: DataFrame, batch_id: int) -> None:
        # The range of a batch can be read as often as one likes; parsing the JSON once is merely cheaper.
        flights = batch.select(f.from_json("body", _FLIGHT).alias("flight")).select("flight.*").persist()
        try:
            alerts = _alerts(flights)
            alerts.write.format("stomp").mode("append").option("url", url).option(
                "destination", ALERTS
            ).save()
            results.put(batch_id, _result(flights))
        finally:
            flights.unpersist()

    return update


def _alerts(flights: DataFrame) -> DataFrame:
    """One message for each badly delayed flight, the flight in its body."""
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
            f.count_if(delay >= BADLY_DELAYED).alias("alerts"),
        )
        .collect()
    )
    ids = flights.select("id").toArrow().column("id").to_numpy()
    totals = {(row["carrier"], row["origin"]): _counts(row.asDict()) for row in groups}
    return BatchResult(ids, totals, sum(row["alerts"] for row in groups))


def _counts(row: dict[str, Any]) -> dict[str, int]:
    return {name: row[name] for name in ("flights", "departures", "minutes", "late")}
