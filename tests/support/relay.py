"""Queue -> Spark -> queue: the options of the query between them, and what the second queue has at last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.brokers import Broker
from support.driven import Run
from support.waiting import wait_until

_DRAIN = 300.0


def _dedup_header(broker: Broker) -> str:
    return "_AMQ_DUPL_ID" if broker.dialect == "artemis" else "dedup-id"


def relay_options(
    broker: Broker, target: str, folder: Path, source_url: str, sink_url: str, **source: Any
) -> dict[str, str]:
    """Options for ``streaming/driver.py`` in its mode ``stomp``: journal here, dedupKey there."""
    sink = broker.options(
        url=sink_url, destination=target, dedupKey="id", sendHeaders=json.dumps(broker.crash_safe)
    )
    read = broker.options(
        url=source_url, journal=folder / "journal", subscribeHeaders=json.dumps(broker.crash_safe), **source
    )
    return read | {f"sink.{key}": value for key, value in sink.items()}


def second_source(broker: Broker, folder: Path, **options: Any) -> dict[str, str]:
    """Options of a source behind the sink, which knows a row that was sent again by its id."""
    return broker.options(
        idHeader=_dedup_header(broker),
        journal=folder / "second journal",
        subscribeHeaders=json.dumps(broker.crash_safe),
        **options,
    )


def drained_once(broker: Broker, queue: str, folder: Path) -> list[str]:
    """The bodies that such a source gives of ``queue``, until nothing is left there."""
    rows: list[str] = []
    with Run(second_source(broker, folder, destination=queue)) as query:

        def drained() -> bool:
            query.end = query.reader.latestOffset(query.start, None)
            if query.end != query.start:
                rows.extend(bytes(row["body"]).decode() for row in query.read())
                query.commit()
            return broker.depth(queue) == 0

        wait_until(drained, _DRAIN, "the end of the second queue")
    return rows
