"""What one task of a streaming batch reads, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_stomp.arrow import RawBlock, RowRules, decode_block
from spark_stomp.dialects import Dialect, dialect_named
from spark_stomp.exchange import ExchangeAddress, RangeTicket, fetch
from spark_stomp.schema import Projection

__all__ = ["FrameRange", "RowSettings", "read_range"]


class FrameRange(InputPartition):
    """A range of raw frames and where to fetch it. Its ``repr`` does not show the token."""

    def __init__(self, address: ExchangeAddress, ticket: RangeTicket, receiver: str) -> None:
        self.address = address
        self.ticket = ticket
        self.receiver = receiver


@dataclass(frozen=True)
class RowSettings:
    """How frames become rows; all that a task needs to know of the options."""

    projection: Projection
    id_header: str | None
    body_decode_errors: Literal["error", "null"]

    def rules(self, dialect: Dialect) -> RowRules:
        """The rules for frames of one dialect; the ``idHeader`` option wins over the dialect's own."""
        return RowRules(
            id_header=self.id_header or dialect.id_header,
            timestamp_unit=dialect.timestamp_unit,
            body_decode_errors=self.body_decode_errors,
            id_separator=None if self.id_header else dialect.id_separator,
        )


def read_range(partition: FrameRange, settings: RowSettings) -> Iterator[pa.RecordBatch]:
    """Fetch the frames of ``partition`` and decode them, one record batch for each run."""
    for run in fetch(partition.address, partition.ticket):
        block = RawBlock(
            data=run.data,
            ends=np.asarray(run.ends, dtype=np.int64),
            version=run.version,
            received_at=run.received_at,
            receiver=partition.receiver,
            first_sequence=run.first_sequence,
        )
        yield decode_block(block, settings.projection, settings.rules(dialect_named(run.dialect)))
