"""The stream reader for Spark 4.2 and later, which informs a source of its trigger."""

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
        """Anything but ReadAllAvailable, so that ReadAllAvailable means Trigger.Once.

        Spark's limits come one at a time; the reader applies its own, in any combination.
        """
        return ReadMaxRows(_NO_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Drain until the subscriptions are idle, or for ``maxDrainTime``."""
        self._mode = Mode.DRAIN

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """What the query's progress shows as ``latestOffset``; no offset is made of it."""
        return None if self._runtime is None else self._runtime.progress()

    def _mode_of(self, limit: ReadLimit | None) -> Mode:
        if self._mode is Mode.STREAMING and isinstance(limit, ReadAllAvailable):
            return Mode.ONCE
        return self._mode
