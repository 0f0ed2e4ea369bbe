"""Lets Spark find the data source by itself.

Spark imports every top-level module whose name begins with ``pyspark_`` and registers its ``DefaultSource``.
The wheel installs this folder as the top-level package ``pyspark_stomp``, so that
``spark.read.format("stomp")`` needs no call before it.
"""

from spark_stomp.spark.datasource import StompDataSource as DefaultSource

__all__ = ["DefaultSource"]
