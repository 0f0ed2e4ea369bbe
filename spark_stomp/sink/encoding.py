"""From the options of a sink and what its broker is to how rows become frames."""

from __future__ import annotations

from spark_stomp.arrow import RowEncoder, SendRules
from spark_stomp.brokers import Dialect
from spark_stomp.options import SinkOptions
from spark_stomp.schema import SinkColumns

_SLICE_BYTES = 8 << 20


def row_encoder(options: SinkOptions, columns: SinkColumns, version: str, dialect: Dialect) -> RowEncoder:
    """The encoder of one task; ``version`` is that of its connection.

    Raises UnsupportedError if this broker cannot do what the options ask for.
    """
    rules = SendRules(
        version=version,
        destination=options.destination,
        headers=options.send_headers,
        queue_prefixes=dialect.queue_prefixes,
        queue_headers=dialect.queue_send_headers,
        most_messages=options.receipt_window,
        most_bytes=_SLICE_BYTES,
    )
    return RowEncoder(columns, rules)
