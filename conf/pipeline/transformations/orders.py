"""Orders from a queue: their messages, their values, a summary, and confirmations that go back."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

spark = SparkSession.active()
BROKER = {"url": spark.conf.get("orders.broker.url")}
# A pipeline keeps the checkpoint to itself, so the journal takes its place: what is in it is acknowledged.
JOURNAL = {"journal": spark.conf.get("orders.journal"), "ackAfter": "journal", "drain": "true"}
COLUMNS = "message_id STRING, headers MAP<STRING, STRING>, rescued BINARY, malformed STRING"
ORDER = "body STRUCT<id: BIGINT, item: STRING, amount: DOUBLE>"


@dp.table(comment="The messages. A body that is no order is in `rescued`. Only this table reads the queue.")
def messages() -> DataFrame:
    source = spark.readStream.format("stomp").options(**BROKER, **JOURNAL)
    return source.schema(f"{COLUMNS}, {ORDER}").load("/queue/orders")


@dp.table(comment="One row for each order.")
def orders() -> DataFrame:
    return spark.readStream.table("messages").where("rescued IS NULL").select("message_id", "body.*")


@dp.materialized_view(comment="What was sold. Each update computes it again.")
def sales() -> DataFrame:
    return spark.read.table("orders").groupBy("item").agg(expr("sum(amount) AS amount"))


dp.create_sink("confirmations", "stomp", {**BROKER, "destination": "/queue/confirmations"})


@dp.append_flow(target="confirmations")
def confirm() -> DataFrame:
    orders = spark.readStream.table("orders").where("id IS NOT NULL")
    return orders.selectExpr("concat('confirmed ', id) AS body")
