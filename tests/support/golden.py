"""Writes what this release leaves on disk, to be kept as tests/data/golden/NAME and read by later releases.

Run once for each released format: ``python -m support.golden NAME`` in tests/. Never write one again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from spark_stomp.devbroker import DevBroker
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal import JournalSettings, open_journal

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
COLUMNS = ("body", "stable_id", "redelivered", "received_at", "receiver", "sequence")

KINDS = ("journal", "objects")
"""A journal on a disk, and one on a mount. They have the same form."""

REMEMBERED = [MessageKey("/queue/ä", b"ID:old-%d" % number, bytes([number]) * 16) for number in range(3)]


def main(name: str) -> None:
    folder = GOLDEN / name
    folder.mkdir(parents=True, exist_ok=True)
    write(folder)


@contextmanager
def kind_of_journal(kind: str, directory: Path) -> Iterator[None]:
    """What is opened in ``directory`` is a journal of this kind."""
    mounts = (str(directory),) if kind == "objects" else ()
    with mock.patch("spark_stomp.files._MOUNTS", mounts):
        yield


def write(folder: Path) -> None:
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
    for left in ("lock", "reserve"):
        (path / left).unlink(missing_ok=True)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON can hold it."""
    return {**row, "body": row["body"].hex(), "received_at": row["received_at"].isoformat()}


if __name__ == "__main__":
    main(sys.argv[1])
