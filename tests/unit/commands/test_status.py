"""spark-stomp status: files that it cannot show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_stomp.commands.main import main


def test_the_part_of_the_sink_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = {"version": 1, "query": "q", "run": "a1", "host": "here", "confirmed": 5}
    (tmp_path / "status.sink.json").write_text(json.dumps(sink))
    assert main(["status", str(tmp_path / "status.json")]) == 0
    assert "sink     confirmed 5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no status file"),
        ("{}", "is not a status file"),
        ('{"version": 9}', "version 9"),
        ('{"version": 1}', "is not a status file"),
        ("[" * 100_000, "is not a status file"),
        ('{"version": 1, "query": "q", "running": true, "written_at": "now"}', "its written_at is 'now'"),
        ('{"version": 1, "query": "q", "written_at": 5}', "its written_at is 5"),
        ('{"version": 1, "query": "q", "totals": {"rows": "many"}}', "its rows is 'many'"),
        ('{"version": 1, "query": "q", "totals": {"unacked": "many"}}', "is not the status of a query"),
    ],
)
def test_a_file_that_is_no_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "status.json").write_text(content)
    assert main(["status", str(tmp_path / "status.json")]) == 1
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1


def test_an_unknown_place(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["status", "nowhere://ada:s3cret@x/y"])
    assert left.value.code == 2
    assert "s3cret" not in capsys.readouterr().err
