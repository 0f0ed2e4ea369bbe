"""Writes what this release leaves on disk, to be kept as tests/data/golden/NAME and read by later releases.

Run once for each released format: ``python -m support.golden NAME`` in tests/. What is there is not written
again. ``names.json`` has the names on which users' programs depend; none of them may go or change.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np

from spark_stomp import errors
from spark_stomp.devbroker import DevBroker
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import JournalSettings, open_journal
from spark_stomp.options import OPTIONS, parse_sink_options
from spark_stomp.status.end import EndPart, keep_end
from spark_stomp.status.figure import Part
from spark_stomp.status.receivers import ReceiverPart, TotalsPart
from spark_stomp.status.sink import SinkPart, TaskFigures, report
from spark_stomp.status.source import JournalPart, QueryPart, QueuePart, UnfitPart

PARTS: dict[str, type[Part]] = {
    "query": QueryPart,
    "totals": TotalsPart,
    "receivers": ReceiverPart,
    "queues": QueuePart,
    "unfit": UnfitPart,
    "journal": JournalPart,
    "sink": SinkPart,
    "ended": EndPart,
}
"""The parts of a status, by their keys."""

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
COLUMNS = ("body", "stable_id", "redelivered", "received_at", "receiver", "sequence")

KINDS = ("journal", "objects")
"""A journal on a disk, and one on a mount. They have the same form."""

REMEMBERED = [MessageKey("/queue/ä", b"ID:old-%d" % number, bytes([number]) * 16) for number in range(3)]


def main(name: str) -> None:
    folder = GOLDEN / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, write in (
        ("journal", write_journal),
        ("status.json", write_status),
        ("names.json", write_names),
    ):
        if not (folder / file).exists():
            write(folder)


@contextmanager
def kind_of_journal(kind: str, directory: Path) -> Iterator[None]:
    """What is opened in ``directory`` is a journal of this kind."""
    mounts = (str(directory),) if kind == "objects" else ()
    with mock.patch("spark_stomp.files._MOUNTS", mounts):
        yield


def write_journal(folder: Path) -> None:
    """A batch that is committed and one that is not; the rows of the latter as they were first read."""
    from support.driven import Run  # needs Spark, and what reads the files does not

    path = folder / "journal"
    with DevBroker() as broker:
        options = {"url": broker.url, "destination": "/queue/a"}
        with Run(options | {"journal": str(path)}, COLUMNS) as run:
            broker.publish_many("/queue/a", [b"committed %d" % number for number in range(5)])
            run.gather(5)
            run.commit()
            broker.publish_many("/queue/a", ["planned ä".encode(), b"", bytes(range(256))])
            rows = run.gather(3)
            state = {"start": run.start, "end": run.end, "rows": [plain(row) for row in rows]}
    (folder / "journal.offsets.json").write_text(json.dumps(state, indent=1))
    opened = open_journal(JournalSettings(str(path), 1 << 20, max_remembered=1_000))
    opened.remember(REMEMBERED)
    opened.close()
    for file in ("lock", "reserve"):
        (path / file).unlink(missing_ok=True)


def write_status(folder: Path) -> None:
    """What a query with a journal and a sink, whose program has kept its error, leaves."""
    from support.driven import Run

    with TemporaryDirectory() as place, DevBroker() as broker:
        path = Path(place, "status.json")
        own = {"statusFile": str(path), "journal": str(Path(place, "journal"))}
        with Run({"url": broker.url, "destination": "/queue/a", **own}, COLUMNS) as run:
            broker.publish_many("/queue/a", [b"body"] * 5)
            run.gather(5)
            run.commit()
        given = {"url": broker.url, "destination": "/queue/b", "statusFile": str(path)}
        figures = TaskFigures(connections=1, confirmed=5)
        figures.count_latencies(np.full(5, 0.004))
        report(parse_sink_options(given), figures, "00c5b0e9", 0)
        keep_end(str(path), "[STOMP_LOGIN_REFUSED] broker:61613 refused CONNECT", "STOMP_LOGIN_REFUSED")
        # Nothing of this machine.
        address = broker.url.removeprefix("stomp://")
        for name in ("status.json", "status.sink.json", "status.end.json"):
            text = Path(place, name).read_text(encoding="utf-8").replace(address, "broker:61613")
            text = text.replace(place, "/data").replace(f'"{platform.node()}"', '"etl-1"')
            (folder / name).write_text(text, encoding="utf-8")


def names() -> dict[str, Any]:
    """The codes of errors, the options with their defaults, and the metrics, as they are now."""
    classes = {name: getattr(errors, name) for name in errors.__all__}
    return {
        "codes": {name: one.code for name, one in classes.items()},
        "options": {f"{scope} {one.key}": one.default for one in OPTIONS for scope in sorted(one.scopes)},
        "metrics": {
            part.metric_of(one): one.metric_type
            for part in PARTS.values()
            for one in part.figures()
            if one.metric_type
        },
        "status": {
            f"{name} {one.key}": one.metric_type for name, part in PARTS.items() for one in part.figures()
        },
    }


def write_names(folder: Path) -> None:
    (folder / "names.json").write_text(json.dumps(names(), indent=1) + "\n", encoding="utf-8")


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON can hold it."""
    return {**row, "body": row["body"].hex(), "received_at": row["received_at"].isoformat()}


if __name__ == "__main__":
    main(sys.argv[1])
