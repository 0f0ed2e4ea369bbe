"""What differs between the releases of Spark. Nothing else in this package asks which one it is.

=======  ==========================================================================================
before   ``latestOffset()`` is called without the committed end and without a limit, and Trigger.AvailableNow
4.2      and Once make one batch: :data:`ADMISSION_CONTROL`
before   a stream writer gets rows, not record batches: :data:`ARROW_STREAM_WRITER`
4.1
4.0      ``register`` refuses a name that Spark has found by itself: :func:`is_known_already`
before   there is no Python data source at all: :func:`require_supported`
4.0
=======  ==========================================================================================

Platforms have Sparks of their own, with other numbers: what a release has is looked for, if it can be seen.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final

import pyspark

from spark_stomp.errors import UnsupportedError

LEAST: Final = (4, 0)


def release(version: str = pyspark.__version__) -> tuple[int, int]:
    """The major and minor number of Spark."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else LEAST


def require_supported(version: str = pyspark.__version__) -> None:
    """Raises UnsupportedError if Spark is too old to have Python data sources."""
    if release(version) < LEAST:
        raise UnsupportedError(f"this is PySpark {version}, and a data source in Python needs 4.0 or later")


def _has(module: str, name: str) -> bool:
    return find_spec(module) is not None and hasattr(__import__(module, fromlist=[name]), name)


require_supported()

ADMISSION_CONTROL: Final = _has("pyspark.sql.streaming.datasource", "SupportsTriggerAvailableNow")
"""Whether a source learns of its trigger, and of what is committed."""

ARROW_STREAM_WRITER: Final = _has("pyspark.sql.datasource", "DataSourceStreamArrowWriter")
"""Whether a stream writer can take record batches."""


def is_known_already(error: Exception) -> bool:
    """Whether Spark refuses to register what it has found by itself."""
    return "DATA_SOURCE_ALREADY_EXISTS" in str(error)
