"""A query replays a batch from a journal that a released version wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.driven import Run
from support.golden import COLUMNS, GOLDEN, KINDS, kind_of_journal, plain

from spark_stomp.devbroker import DevBroker

RELEASES = sorted(path.parent for path in GOLDEN.glob("*/journal"))


def begun(broker: DevBroker, state: dict[str, Any], **options: str) -> Run:
    run = Run({"url": broker.url, "destination": "/queue/a", **options}, COLUMNS)
    run.start, run.end = state["start"], state["end"]
    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_batch_in_the_journal_is_replayed(
    release: Path, kind: str, devbroker: DevBroker, tmp_path: Path
) -> None:
    shutil.copytree(release / "journal", tmp_path / kind)
    state = json.loads((release / "journal.offsets.json").read_text())
    with kind_of_journal(kind, tmp_path / kind), begun(devbroker, state, journal=str(tmp_path / kind)) as run:
        assert [plain(row) for row in run.read()] == state["rows"]
        assert len(state["rows"]) == 3
        run.commit()
        devbroker.publish_many("/queue/a", [b"new"])
        (row,) = run.batch()
        assert (row["body"], row["sequence"]) == (b"new", 8)
