"""What Spark calls, and all code that knows Spark. Only this folder imports pyspark."""
