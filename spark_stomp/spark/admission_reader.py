"""The stream reader for Spark 4.2 and later, which tells a source its trigger."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_stomp.source.planning import Mode
from spark_stomp.spark.stream_reader import StompStreamReader

_NO_LIMIT = (1 << 63) - 1


class AdmissionStreamReader(StompStreamReader, SupportsTriggerAvailableNow):
    """Adds Trigger.AvailableNow, and distinguishes Trigger.Once from the default trigger."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """A limit that limits nothing: the reader applies its own limits, in any combination.

        It must not be ReadAllAvailable, because Spark passes that only for Trigger.Once.
        """
        return ReadMaxRows(_NO_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Drain from now on, until all receivers are idle for ``idleTimeout``, at most ``maxDrainTime``."""
        self._mode = Mode.DRAIN

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """What the query's progress shows as ``latestOffset``. Spark does not use it as an offset."""
        return None if self._runtime is None else self._runtime.progress()

    def _mode_of(self, limit: ReadLimit | None) -> Mode:
        if self._mode is Mode.STREAMING and isinstance(limit, ReadAllAvailable):
            return Mode.ONCE
        return self._mode
