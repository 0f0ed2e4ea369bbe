"""What Spark calls, and all code that knows Spark. Only this folder and the demo import pyspark."""
