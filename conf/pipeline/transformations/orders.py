"""Orders from a queue: their messages, their values, a summary, and confirmations that go back."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import StructType

from spark_stomp import rescue_json

spark = SparkSession.active()
BROKER = {"url": spark.conf.get("orders.broker.url")}
# A pipeline keeps the checkpoint to itself, so the journal takes its place: what is in it is acknowledged.
JOURNAL = {"journal": spark.conf.get("orders.journal"), "ackAfter": "journal", "drain": "true"}
# Here, because a function of a pipeline may not ask Spark what DDL text says.
ORDER = StructType.fromDDL("id BIGINT, item STRING, amount DOUBLE")


@dp.table(comment="The messages as they came. Only this table reads the queue.")
def messages() -> DataFrame:
    return spark.readStream.format("stomp").options(**BROKER, **JOURNAL).load("/queue/orders")


@dp.table(comment="One row for each order. A body that is none is in `_rescued`.")
def orders() -> DataFrame:
    bodies = spark.readStream.table("messages").select("message_id", "body")
    return rescue_json(bodies, ORDER)


@dp.materialized_view(comment="What was sold. Each update computes it again.")
def sales() -> DataFrame:
    return spark.read.table("orders").groupBy("item").agg(expr("sum(amount) AS amount"))


dp.create_sink("confirmations", "stomp", {**BROKER, "destination": "/queue/confirmations"})


@dp.append_flow(target="confirmations")
def confirm() -> DataFrame:
    orders = spark.readStream.table("orders").where("_rescued IS NULL AND id IS NOT NULL")
    return orders.selectExpr("concat('confirmed ', id) AS body")
