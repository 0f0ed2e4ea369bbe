"""What Spark calls, and all that knows Spark: only here (and in the demo) pyspark is imported."""
