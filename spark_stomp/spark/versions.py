"""What differs between releases of Spark. Only this module asks which release it is.

==========  =======================================================================================
before 4.2  ``latestOffset()`` is called without the committed end and without a limit, a restart
            begins with ``partitions(end, end)``, and Trigger.AvailableNow and Once make one batch:
            :data:`ADMISSION_CONTROL`
before 4.1  a stream writer gets rows, not record batches: :data:`ARROW_STREAM_WRITER`; a function over
            Arrow gets all columns of a DataFrame, not those it names: :data:`ARROW_UDF`
4.0         ``register`` refuses a name that Spark has found automatically: :func:`is_known_already`
before 4.0  there is no Python data source at all: :func:`require_supported`
==========  =======================================================================================

Platforms have their own builds of Spark with other version numbers. So this module looks for a class that the
release has, if there is one, rather than at the release's number.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final

import pyspark

from spark_stomp.errors import UnsupportedError

LEAST: Final = (4, 0)


def release(version: str) -> tuple[int, int]:
    """The major and minor version of Spark, such as (4, 0)."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else LEAST


def require_supported(version: str) -> None:
    """Raise UnsupportedError if Spark is too old to have Python data sources."""
    if release(version) < LEAST:
        raise UnsupportedError(f"this is PySpark {version}, and a data source in Python needs 4.0 or later")


def _has(module: str, name: str) -> bool:
    return find_spec(module) is not None and hasattr(__import__(module, fromlist=[name]), name)


require_supported(pyspark.__version__)

ADMISSION_CONTROL: Final = _has("pyspark.sql.streaming.datasource", "SupportsTriggerAvailableNow")
"""Whether Spark tells a source its trigger, and what is committed."""

ARROW_STREAM_WRITER: Final = _has("pyspark.sql.datasource", "DataSourceStreamArrowWriter")
"""Whether a stream writer can take record batches."""

ARROW_UDF: Final = _has("pyspark.sql.functions", "arrow_udf")
"""Whether a column can be computed over Arrow."""


def is_known_already(error: Exception) -> bool:
    """Whether ``error`` says that Spark has already found the source automatically."""
    return "DATA_SOURCE_ALREADY_EXISTS" in str(error)
