"""The columns, as they are declared."""

from __future__ import annotations

import json
from pathlib import Path

from spark_stomp.columns import SINK_COLUMNS, SOURCE_COLUMNS


def test_columns_and_types_are_those_of_every_release() -> None:
    """New columns may come."""
    golden = Path(__file__).parents[1] / "data" / "golden" / "0.3" / "columns.json"
    for kind, columns in (("source", SOURCE_COLUMNS), ("sink", SINK_COLUMNS)):
        now = {column.name: [list(column.types), column.nullable] for column in columns}
        assert json.loads(golden.read_text())[kind].items() <= now.items()


def test_every_column_says_what_it_means() -> None:
    assert all(column.meaning for column in SOURCE_COLUMNS + SINK_COLUMNS)
