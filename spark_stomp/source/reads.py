"""What one task of a streaming batch reads, and how frames become rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark_stomp.arrow import OnError, RowRules, decode_frames
from spark_stomp.brokers import Dialect, dialect_named
from spark_stomp.columns import MALFORMED, Projection
from spark_stomp.errors import OptionError
from spark_stomp.frameserver import FrameServerAddress, RangeTicket, fetch
from spark_stomp.options import SourceOptions
from spark_stomp.options.stream_positions import stream_name


@dataclass(frozen=True)
class FrameRanges:
    """Ranges of raw frames and where to fetch them. The ``repr`` does not show the token."""

    address: FrameServerAddress
    tickets: tuple[RangeTicket, ...]


@dataclass(frozen=True)
class RowSettings:
    """How frames become rows: all that a task needs of the options."""

    projection: Projection
    id_header: str | None
    body_decode_errors: OnError
    streams: bool

    @classmethod
    def of(cls, options: SourceOptions, projection: Projection) -> RowSettings:
        """The settings of a query.

        Raises OptionError if an option asks for the column ``malformed`` and the schema does not name it.
        """
        asked = {"onMalformed": options.on_malformed, "bodyDecodeErrors": options.body_decode_errors}
        without = [key for key, value in asked.items() if value == "column"]
        if without and MALFORMED not in projection.columns:
            raise OptionError(
                f"{key} = column needs the column `{MALFORMED}`: name it in .schema(...), as in "
                f'.schema("destination string, body binary, {MALFORMED} string")'
                for key in without
            )
        streams = options.of_streams
        return cls(projection, options.id_header, options.body_decode_errors, streams)

    def rules(self, dialect: Dialect, receiver: str) -> RowRules:
        """The rules for frames that ``receiver`` got from a broker of this dialect.

        The option ``idHeader`` has priority over the dialect.
        """
        return RowRules(
            id_header=self.id_header or dialect.id_header,
            timestamp_unit=dialect.timestamp_unit,
            body_decode_errors=self.body_decode_errors,
            id_separator=None if self.id_header else dialect.id_separator,
            id_time_header=None if self.id_header else dialect.id_time_header,
            stream=stream_name(receiver.rpartition("#")[0]) if self.streams else None,
            offset_header=dialect.offset_header,
            quoted_names=dialect.quoted_names,
        )


def read_ranges(ranges: FrameRanges, settings: RowSettings) -> Iterator[pa.RecordBatch]:
    """Fetch the frames of ``ranges`` and decode them. Yields a record batch for about each MiB of frames."""
    for ticket in ranges.tickets:
        for batch in fetch(ranges.address, ticket):
            rules = settings.rules(dialect_named(batch.dialect), batch.receiver)
            yield decode_frames(batch, settings.projection, rules)
