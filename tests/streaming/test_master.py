"""A local master is seen from the process of a stream reader, on every release of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from support.waiting import PATIENCE

from spark_stomp.frameserver.server import master_is_local

pytestmark = pytest.mark.spark


def looking(seen: Path) -> type[DataSource]:
    """A source whose reader's process notes what it sees, and that has no rows."""

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
            seen.write_text(str(master_is_local()))
            return {"at": 0}

        def latestOffset(self, *more: Any) -> dict[str, int]:  # noqa: N802
            return {"at": 0}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
            return []

        def read(self, partition: InputPartition) -> Any:
            return iter([])

        def commit(self, end: dict[str, int]) -> None: ...

    class Looking(DataSource):
        @classmethod
        def name(cls) -> str:
            return "looking"

        def schema(self) -> str:
            return "x string"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return Reader()

    return Looking


def test_a_local_master_is_seen(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark.sparkContext.master.startswith("local[")
    spark.dataSource.register(looking(tmp_path / "seen"))
    writer = spark.readStream.format("looking").load().writeStream.format("noop")
    query = writer.trigger(availableNow=True).option("checkpointLocation", f"{tmp_path}/c").start()
    assert query.awaitTermination(PATIENCE)
    assert (tmp_path / "seen").read_text() == "True"
