"""Rows of a DataFrame to what a SEND frame carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa

from spark_stomp.errors import SinkRowError
from spark_stomp.protocol.encoder import SEND_OWNS
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
