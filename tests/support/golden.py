"""Writes what this release leaves on disk, to be kept as tests/data/golden/NAME and read by later releases.

Run once for each released format: ``python tests/support/golden.py NAME``. Nothing there is written again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from spark_stomp.devbroker import DevBroker
from spark_stomp.journal import JournalSettings, open_journal
from spark_stomp.receiver import Key
from support.driven import Run

__all__ = ["COLUMNS", "GOLDEN", "SETTLED", "plain"]

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
COLUMNS = ("body", "stable_id", "redelivered", "received_at", "receiver", "sequence")

SETTLED = [Key("/queue/ä", b"ID:old-%d" % number, bytes([number]) * 16) for number in range(3)]


def main(name: str) -> None:
    folder = GOLDEN / name
    folder.mkdir(parents=True)
    write(folder, journaled=False)
    write(folder, journaled=True)


def write(folder: Path, *, journaled: bool) -> None:
    """A batch that is committed and one that is not; the rows of the latter as they were first read."""
    with tempfile.TemporaryDirectory() as temporary, DevBroker() as broker:
        journal = folder / "journal" if journaled else Path(temporary)
        options = {"url": broker.url, "destination": "/queue/a"}
        with Run(options | ({"journal": str(journal)} if journaled else {}), COLUMNS) as run:
            broker.publish_many("/queue/a", [b"committed %d" % number for number in range(5)])
            run.gather(5)
            run.commit()
            broker.publish_many("/queue/a", ["planned ä".encode(), b"", bytes(range(256))])
            rows = run.gather(3)
            state = {"start": run._start, "end": run._end, "rows": [plain(row) for row in rows]}
    name = "journal.offsets.json" if journaled else "offsets.json"
    (folder / name).write_text(json.dumps(state, indent=1))
    if journaled:
        opened = open_journal(JournalSettings(str(journal), 1 << 20))
        opened.settle(SETTLED)
        opened.close()
        (journal / "lock").unlink()


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON can hold it."""
    return {**row, "body": row["body"].hex(), "received_at": row["received_at"].isoformat()}


if __name__ == "__main__":
    main(sys.argv[1])
