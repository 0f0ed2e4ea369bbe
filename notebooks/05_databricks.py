# Databricks notebook source
# MAGIC %md
# MAGIC # On Databricks: from a queue to a table
# MAGIC
# MAGIC This notebook takes everything that waits in a queue of a STOMP broker and puts it into a Delta table, each
# MAGIC message once. It is also the task of a job: run it again, and it goes on where it ended.
# MAGIC
# MAGIC It needs
# MAGIC
# MAGIC - **compute**: dedicated access mode, Databricks Runtime 17.3 LTS, 18 or 19;
# MAGIC - **a broker** (RabbitMQ, ActiveMQ, Artemis) that the driver's machine can reach;
# MAGIC - **a volume** that this user may read and write, with the wheel of `spark_stomp` in it;
# MAGIC - **a schema** in which this user may make a table;
# MAGIC - **a secret scope** with the keys `login` and `password`.
# MAGIC
# MAGIC **It was not tried on Databricks.** Tests run it cell by cell on Spark Connect servers of Apache Spark, with
# MAGIC stand-ins for `dbutils`, `display` and the volume. `docs/databricks.md` says what is known.

# COMMAND ----------

# MAGIC %md
# MAGIC ## Parameters
# MAGIC The fields above the notebook; a job sets them as parameters. Change `folder` and `wheel` to your volume.

# COMMAND ----------

dbutils.widgets.text("folder", "/Volumes/main/messaging/stomp")
dbutils.widgets.text("wheel", "/Volumes/main/messaging/stomp/spark_stomp-0.3.0-py3-none-any.whl")
dbutils.widgets.text("catalog", "main")
dbutils.widgets.text("schema", "messaging")
dbutils.widgets.text("table", "orders")
dbutils.widgets.text("url", "stomp+ssl://broker.example.com:61614")
dbutils.widgets.text("destination", "/queue/orders")
dbutils.widgets.text("scope", "messaging")
dbutils.widgets.dropdown("mode", "drain", ["drain", "always on"])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Install
# MAGIC `%pip` installs the wheel for this notebook, on the driver and on the executors. Python forgets its variables
# MAGIC when it is restarted; the parameters stay.

# COMMAND ----------

wheel = dbutils.widgets.get("wheel")

# COMMAND ----------

# MAGIC %pip install $wheel

# COMMAND ----------

dbutils.library.restartPython()

# COMMAND ----------

import matplotlib.pyplot as plt

import spark_stomp

spark_stomp.register(spark)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Where things are
# MAGIC Checkpoint and journal belong together, and only one query may use them at a time. Delete neither alone.

# COMMAND ----------

get = dbutils.widgets.get
table = f"{get('catalog')}.{get('schema')}.{get('table')}"
checkpoint = f"{get('folder')}/checkpoints/{get('table')}"
journal = f"{get('folder')}/journals/{get('table')}"
print(f"{get('destination')} -> {table}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The broker
# MAGIC The secrets are read now, and the query keeps their values. If an authority of your own has signed the broker's
# MAGIC certificate, add `"tlsCaFile": dbutils.secrets.get(scope, "ca")` with its text (PEM).

# COMMAND ----------

scope = get("scope")
broker = {
    "url": get("url"),
    "login": dbutils.secrets.get(scope, "login"),
    "password": dbutils.secrets.get(scope, "password"),
}

# COMMAND ----------

# MAGIC %md
# MAGIC ## Messages become rows
# MAGIC A message is in the journal, on the volume, before the broker forgets it (`ackAfter=journal`). With `drain` the
# MAGIC first batch is everything that waits. This is the same on every runtime. `body` is binary: a body of any kind is in
# MAGIC the table as it came. For typed columns of JSON name `body STRUCT<id: BIGINT, ...>, rescued BINARY` in `.schema(...)`.

# COMMAND ----------

drain = get("mode") == "drain"
orders = (
    spark.readStream.format("stomp")
    .options(**broker)
    .option("journal", journal)
    .option("ackAfter", "journal")
    .option("drain", str(drain).lower())
    .option("checkpointLocation", checkpoint)
    .load(get("destination"))
    .select("stable_id", "body", "received_at")
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Rows go into the table
# MAGIC `drain`, the default, ends when the queue is empty: run it as a job on a schedule. Use `always on` if rows must
# MAGIC arrive within seconds: then this cell does not end, and a continuous job keeps it alive.
# MAGIC
# MAGIC **Run the notebook again**, and the query goes on from its checkpoint. A message that the broker sends again is
# MAGIC known by its id (`stable_id`), and gives no second row. A batch that a failed run had begun comes again from the
# MAGIC journal, with the same rows; the table leaves it out if it has it. If `stable_id` is null, as on RabbitMQ without
# MAGIC the option `idHeader`, a message may come twice after a failure.
# MAGIC
# MAGIC **If the query fails**, this cell prints what is wrong and what to do, and the run of the job fails. It begins with a
# MAGIC code like these.
# MAGIC
# MAGIC - `[STOMP_CONNECT_FAILED]`: nobody answers at `url`. Look at the network between driver and broker.
# MAGIC - `[STOMP_LOGIN_REFUSED]`: look at the secrets.
# MAGIC - `[STOMP_FRAME_SERVER_FAILED]`: a task cannot reach the driver. Set `frameServerHost`.
# MAGIC - `[STOMP_JOURNAL_IN_USE]`: another run uses the journal. Let only one run at a time.
# MAGIC - `[STOMP_JOURNAL_MISSING]`: the checkpoint is there, its journal is not.
# MAGIC
# MAGIC `docs/reference.md` has all of them. Nothing is lost: mend the cause, and run the notebook again.

# COMMAND ----------

trigger = {"availableNow": True} if drain else {"processingTime": "10 seconds"}
query = orders.writeStream.option("checkpointLocation", checkpoint).trigger(**trigger).toTable(table)
try:
    query.awaitTermination()
except Exception as error:
    print(spark_stomp.reason(error))  # one sentence; Spark's own is long
    raise

# COMMAND ----------

newest = spark.table(table).orderBy("received_at", ascending=False).limit(10)
display(newest.selectExpr("stable_id", "CAST(body AS STRING) AS body", "received_at"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Rows a minute

# COMMAND ----------

minutes = spark.sql(f"""
    SELECT date_trunc('minute', received_at) AS minute, count(*) AS messages
    FROM {table} GROUP BY minute ORDER BY minute
""").toPandas()
figure, axes = plt.subplots(figsize=(9, 3))
axes.bar(minutes["minute"], minutes["messages"], width=0.9 / 24 / 60, align="edge")
axes.margins(x=0.5)
axes.set_title(f"messages a minute in {table}: {minutes['messages'].sum()}")
axes.set_ylabel("messages")
figure.autofmt_xdate()
display(figure)

# COMMAND ----------

# MAGIC %md
# MAGIC ## For a dashboard
# MAGIC While the query runs, it writes its figures to a JSON file beside the checkpoint; on a volume, every 10 seconds.
# MAGIC `docs/reference.md` explains each of them. Here they become a view.

# COMMAND ----------

status_files = f"{checkpoint}/spark_stomp/status*.json"
status_schema = """
    query STRING, running BOOLEAN, unfinished BOOLEAN, failed BOOLEAN, failure STRING,
    waiting_on STRING, waiting_for STRING, last_commit_at TIMESTAMP, written_at TIMESTAMP,
    totals STRUCT<rows: BIGINT, rows_waiting: BIGINT, unacked: BIGINT, oldest_unacked_seconds: DOUBLE,
        redelivered: BIGINT, more_waiting: BOOLEAN>,
    receivers MAP<STRING, STRUCT<connected: BOOLEAN, last_error: STRING>>,
    journal STRUCT<committed: BIGINT, `end`: BIGINT, bytes: BIGINT>
"""
figures = """
    query, running, unfinished, failed,
    coalesce(waiting_on, '') AS waiting_on, coalesce(waiting_for, '') AS waiting_for, last_commit_at,
    timestampdiff(SECOND, written_at, current_timestamp()) AS seconds_old,
    totals.rows, totals.rows_waiting, totals.more_waiting,
    totals.unacked, totals.oldest_unacked_seconds, totals.redelivered,
    journal.`end` - journal.committed AS journal_backlog, journal.bytes AS journal_bytes,
    size(filter(map_values(receivers), one -> one.connected)) AS connected,
    coalesce(failure, array_join(transform(map_values(receivers), one -> one.last_error), '; ')) AS last_error
"""
spark.read.schema(status_schema).json(status_files, multiLine=True).createOrReplaceTempView("stomp_files")
spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW stomp_status AS SELECT {figures} FROM stomp_files")
display(spark.table("stomp_status"))

# COMMAND ----------

# MAGIC %md
# MAGIC This view ends with the session. For a dashboard, paste what the next cell prints as the SQL of a dataset.
# MAGIC `read_files` exists on Databricks only. Set an alert on `failed`, on `unfinished`, or on `seconds_old > 180` while `running`.

# COMMAND ----------

print(f"""SELECT {figures}
FROM read_files('{status_files}', format => 'json', multiLine => true, schema => '{status_schema}')""")
