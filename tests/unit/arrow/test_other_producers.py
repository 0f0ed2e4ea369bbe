"""Rows of messages of other protocols, from the frames that real brokers made of them (tests/data/frames).

``SPARK_STOMP_WRITE_ROWS=1 make unit ARGS="-k other_producers"`` writes the rows again, without a broker.
"""

from __future__ import annotations

import os

import pytest
from support.frames import FOLDER, Recorded


@pytest.mark.parametrize("broker", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_the_rows_are_those_of_the_file(broker: str) -> None:
    recorded = Recorded(broker)
    if os.environ.get("SPARK_STOMP_WRITE_ROWS"):
        recorded.write({})
    assert recorded.rows_now() == {name: recorded.row(name) for name in recorded.messages}
