"""The source: what one streaming query is while it runs, and batch reads. Imports no pyspark."""
