"""Which Spark it is, without importing it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def spark_release() -> tuple[int, int]:
    """Its major and minor number; (0, 0) if there is none, as for ``make unit``."""
    try:
        major, minor = version("pyspark").split(".")[:2]
    except PackageNotFoundError:
        return 0, 0
    return int(major), int(minor)
