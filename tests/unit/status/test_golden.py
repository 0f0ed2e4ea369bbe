"""A status that a released version wrote is read, and no name that its users depend on has gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.golden import GOLDEN, PARTS, names

from spark_stomp.commands.diagnosis import Health
from spark_stomp.commands.main import main
from spark_stomp.status import prometheus, read_status

RELEASES = sorted(path.parent for path in GOLDEN.glob("*/status.json"))
each_release = pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)


def test_there_is_one_of_every_release() -> None:
    assert [path.name for path in RELEASES] == ["0.3"]


@each_release
@pytest.mark.parametrize("kind", ["codes", "options", "metrics", "status"])
def test_a_name_stays_with_its_meaning(release: Path, kind: str) -> None:
    """New ones may come."""
    kept = json.loads((release / "names.json").read_text(encoding="utf-8"))[kind]
    now = names()[kind]
    assert len(kept) > 50
    assert {name: now.get(name, "it is gone") for name in kept} == kept


@each_release
def test_every_key_of_its_files_is_read(release: Path) -> None:
    status: dict[str, Any] = {**read_status(release / "status.json")}
    assert status["totals"]["rows"] == status["journal"]["committed"] == status["sink"]["confirmed"] == 5
    assert status["ended"]["failure_code"] == "STOMP_LOGIN_REFUSED"
    keys = {name: {one.key for one in part.figures()} for name, part in PARTS.items()}
    assert status.keys() - {"file"} <= keys["query"]
    keys["totals"] |= keys["receivers"]
    for name in ("totals", "journal", "sink", "ended"):
        assert status[name].keys() <= keys[name]
    for name in ("receivers", "queues", "unfit"):
        assert all(one.keys() <= keys[name] for one in status[name].values())


@each_release
def test_the_commands_show_it(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(release / "status.json")]) == 1
    assert "rows 5" in capsys.readouterr().out
    assert main(["why", str(release / "status.json"), "--offline"]) == Health.FAILED.value
    assert "[STOMP_LOGIN_REFUSED] broker:61613 refused CONNECT" in capsys.readouterr().out
    assert 'spark_stomp_rows_total{query="/queue/a"' in prometheus(release / "status.json")
