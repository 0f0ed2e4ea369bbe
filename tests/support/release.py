"""Which Spark it is, without importing it."""

from __future__ import annotations

from importlib.metadata import version


def spark_release() -> tuple[int, int]:
    """Its major and minor number."""
    major, minor = version("pyspark").split(".")[:2]
    return int(major), int(minor)
