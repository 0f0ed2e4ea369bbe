"""The package ``pyspark_stomp``, through which Spark finds the data source automatically.

Spark imports every top-level module whose name begins with ``pyspark_``, and registers its ``DefaultSource``.
The wheel installs this folder as ``pyspark_stomp``, so that ``spark.read.format("stomp")`` works without a
call of :func:`spark_stomp.register`.
"""

from spark_stomp.spark.datasource import StompDataSource as DefaultSource

__all__ = ["DefaultSource"]
