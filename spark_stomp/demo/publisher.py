"""Puts the flights into their queue: one connection, one receipt for each message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Final

import pyarrow as pa

from spark_stomp.options import parse_sink_options
from spark_stomp.schema import SinkColumns
from spark_stomp.sink.task import send_batches

_HEADERS: Final = {"content-type": "application/json", "persistent": "true"}
_WINDOW: Final = 5000


def publish(url: str, destination: str, bodies: Iterable[bytes]) -> int:
    """SEND every body; returns how many the broker has confirmed: all of them.

    Raises:
        StompError: the broker did not take them.
    """
    headers = json.dumps(_HEADERS)
    options = parse_sink_options(
        {"url": url, "destination": destination, "receiptWindow": str(_WINDOW), "sendHeaders": headers}
    )
    rest = iter(bodies)
    chunks = iter(lambda: list(islice(rest, _WINDOW)), [])
    batches = (pa.record_batch({"body": pa.array(chunk, pa.binary())}) for chunk in chunks)
    return send_batches(batches, SinkColumns(("body",), False), options).messages
