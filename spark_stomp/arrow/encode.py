"""Rows of a DataFrame to what a SEND frame carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.slices import EncodedSlice, receipt_id
from spark_stomp.errors import SinkRowError
from spark_stomp.protocol.encoder import SEND_OWNS, encode_frame, send_frame
from spark_stomp.schema import SinkColumns

_CONTENT_TYPE = "content-type"
_COLUMNS = ("body", "destination", "content_type", "headers")


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message to send.

    ``headers`` are those of the options and the row, as text, not escaped; the sender adds its own.
    """

    destination: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def outgoing_messages(
    batch: pa.RecordBatch,
    columns: SinkColumns,
    *,
    destination: str | None,
    send_headers: tuple[tuple[str, str], ...],
) -> Iterator[OutgoingMessage]:
    """The messages of a batch, in order.

    If headers have the same name, the row's ``content_type`` wins over the row's ``headers``, and those win
    over ``send_headers``.

    Args:
        batch: rows with the columns that ``columns`` names.
        destination: the option of that name, which wins over the column; None if it is not set.
        send_headers: headers of every message.

    Raises:
        SinkRowError: a row has no body or no destination, or sets a header that it may not; names the row by
            its number in the batch and its destination.
    """
    common = dict(send_headers)
    rows = zip(*(_values(batch, name, columns) for name in _COLUMNS), strict=True)
    for number, (body, own_destination, content_type, own_headers) in enumerate(rows):
        target = destination or own_destination
        if body is None:
            raise _refused(number, target, "its body is null")
        if not target:
            raise _refused(
                number, target, "it has no destination: set the option `destination`, or the column"
            )
        headers = common
        if own_headers or content_type is not None:
            headers = _headers(common, own_headers or (), content_type, _Row(number, target))
        yield OutgoingMessage(target, tuple(headers.items()), body)


class _Row(NamedTuple):
    """Which row it is, for an error."""

    number: int
    destination: str


def _values(batch: pa.RecordBatch, name: str, columns: SinkColumns) -> Iterable[Any]:
    """A column's values; nulls if the DataFrame does not have it."""
    if name not in columns.columns:
        return repeat(None, batch.num_rows)
    column = batch.column(columns.columns.index(name))
    values: list[Any] = (column.cast(pa.binary()) if name == "body" else column).to_pylist()
    return values


def _headers(
    common: Mapping[str, str], own: Iterable[tuple[str, str | None]], content_type: str | None, row: _Row
) -> dict[str, str]:
    """The headers of one message; raises SinkRowError for a name that a row may not set."""
    headers = dict(common)
    for name, value in own:
        if not name or name.lower() in SEND_OWNS:
            raise _refused(*row, f"it sets the header {name!r}, which only the connector may set")
        if value is not None:
            headers[name] = value
    if content_type is not None:
        headers[_CONTENT_TYPE] = content_type
    return headers


def _refused(number: int, destination: str | None, reason: str) -> SinkRowError:
    return SinkRowError(f"row {number} of the batch (destination {destination!r}) cannot be sent: {reason}")


@dataclass(frozen=True)
class SendRules:
    """What the frames of a task have in common.

    Attributes
    ----------
    version : of STOMP, as the connection negotiated it.
    destination : the option; None leaves the choice to the rows.
    send_headers : headers of every message.
    queue_prefixes, queue_headers : a destination that begins with one of the prefixes needs the headers.
    most_messages, most_bytes : of a slice; one message always goes. The bytes are those of body and headers.
    """

    version: str
    destination: str | None
    send_headers: tuple[tuple[str, str], ...]
    queue_prefixes: tuple[str, ...]
    queue_headers: tuple[tuple[str, str], ...]
    most_messages: int
    most_bytes: int


class RowEncoder:
    """Encodes the rows of one task, slice by slice; receipts are numbered over all of its batches."""

    def __init__(self, columns: SinkColumns, rules: SendRules) -> None:
        self._columns = columns
        self._rules = rules
        self._receipts = 0

    def slices(self, batch: pa.RecordBatch) -> Iterator[EncodedSlice]:
        """The frames of a batch.

        Raises SinkRowError before any row of the slice with the row that cannot be sent was returned.
        """
        rules = self._rules
        messages = outgoing_messages(
            batch, self._columns, destination=rules.destination, send_headers=rules.send_headers
        )
        while some := list(islice(messages, rules.most_messages)):
            frames = [self._frame(message, self._receipts + n) for n, message in enumerate(some)]
            ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
            yield EncodedSlice(memoryview(b"".join(frames)), ends, self._receipts)
            self._receipts += len(frames)

    def _frame(self, message: OutgoingMessage, number: int) -> bytes:
        headers = dict(
            self._rules.queue_headers if message.destination.startswith(self._rules.queue_prefixes) else ()
        )
        headers |= dict(message.headers)
        frame = send_frame(
            message.destination, message.body, headers=tuple(headers.items()), receipt=receipt_id(number)
        )
        return encode_frame(frame, self._rules.version)
