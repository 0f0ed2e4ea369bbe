"""What one task of a streaming batch reads, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_stomp.arrow import OnError, RowRules, decode_frames
from spark_stomp.brokers import Dialect, dialect_named
from spark_stomp.errors import OptionError
from spark_stomp.exchange import ExchangeAddress, RangeTicket, fetch
from spark_stomp.framebatch import FrameBatch
from spark_stomp.options import SourceOptions
from spark_stomp.schema import MALFORMED, Projection
from spark_stomp.worker import spare_the_next_task

_GROUP_BYTES = 1 << 20


@dataclass(frozen=True)
class FrameRanges(InputPartition):
    """Ranges of raw frames and where to fetch them. Its ``repr`` does not show the token."""

    address: ExchangeAddress
    tickets: tuple[RangeTicket, ...]


@dataclass(frozen=True)
class RowSettings:
    """How frames become rows; all that a task needs to know of the options."""

    projection: Projection
    id_header: str | None
    body_decode_errors: OnError

    @classmethod
    def of(cls, options: SourceOptions, projection: Projection) -> RowSettings:
        """The settings of a query. OptionError if its schema has no column for the reasons it asks for."""
        asked = {"onMalformed": options.on_malformed, "bodyDecodeErrors": options.body_decode_errors}
        without = [key for key, value in asked.items() if value == "column"]
        if without and MALFORMED not in projection.columns:
            raise OptionError(
                f"{key} = column needs the column `{MALFORMED}`: name it in .schema(...), as in "
                f'.schema("destination string, body binary, {MALFORMED} string")'
                for key in without
            )
        return cls(projection, options.id_header, options.body_decode_errors)

    def rules(self, dialect: Dialect) -> RowRules:
        """The rules for frames of one dialect; the ``idHeader`` option wins over the dialect's own."""
        return RowRules(
            id_header=self.id_header or dialect.id_header,
            timestamp_unit=dialect.timestamp_unit,
            body_decode_errors=self.body_decode_errors,
            id_separator=None if self.id_header else dialect.id_separator,
        )


def read_ranges(partition: FrameRanges, settings: RowSettings) -> Iterator[pa.RecordBatch]:
    """Fetch the frames of ``partition`` and decode them, one record batch for about a MiB of them."""
    fetched = chain.from_iterable(fetch(partition.address, ticket) for ticket in partition.tickets)
    for batches in gathered(fetched):
        rules = settings.rules(dialect_named(batches[0].dialect))
        yield decode_frames(FrameBatch.join(batches), settings.projection, rules)
    spare_the_next_task()


def gathered(batches: Iterable[FrameBatch]) -> Iterator[list[FrameBatch]]:
    """Consecutive batches of one origin, about a MiB together.

    A batch is what one read of the socket brought, maybe a single message. Decoding has a cost per batch, so
    small batches are decoded together.
    """
    group: list[FrameBatch] = []
    size = 0
    for batch in batches:
        if group and (size >= _GROUP_BYTES or not _follows(batch, group[-1])):
            yield group
            group, size = [], 0
        group.append(batch)
        size += len(batch.data)
    if group:
        yield group


def _follows(batch: FrameBatch, other: FrameBatch) -> bool:
    """Whether both can be joined: of a journal that has lost messages, a task may read several parts."""
    return batch.origin == other.origin and batch.first_sequence == other.end
