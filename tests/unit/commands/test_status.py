"""spark-stomp status: files that it cannot show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_stomp.commands.main import main


@pytest.mark.parametrize(
    ("content", "words"),
    [
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    (tmp_path / "status.json").write_text(content)
    assert main(["status", str(tmp_path / "status.json")]) == 1
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1


def test_several_are_shown_one_below_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = {"version": 1, "running": False, "written_at": "2026-11-26T00:00:00+00:00"}
    for name in ("one", "two"):
        (tmp_path / name).write_text(json.dumps(ended | {"query": name}))
    (tmp_path / "checkpoint").mkdir()
    names = [str(tmp_path / name) for name in ("one", "two", "checkpoint")]
    assert main(["status", *names[:2]]) == 0
    out, err = capsys.readouterr()
    assert out.index("one  ended") < out.index("two  ended") and err == ""
    assert main(["status", *names]) == 1
    out, err = capsys.readouterr()
    assert "one  ended" in out and "two  ended" in out
    assert err.startswith(f"spark-stomp: {names[2]}: there is no status file yet: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("form", "words"), [("--json", '"query": "one"'), ("--prometheus", 'spark_stomp_running{query="one"')]
)
def test_for_programs_the_code_says_whether_all_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, words: str
) -> None:
    failed = {"version": 1, "query": "one", "running": False, "failure": "no", "written_at": None}
    (tmp_path / "one").write_text(json.dumps(failed))
    assert main(["status", str(tmp_path / "one"), form]) == 0
    assert words in capsys.readouterr().out
    (tmp_path / "two").write_text("{}")
    assert main(["status", str(tmp_path / "one"), str(tmp_path / "two"), form]) == 1
    out, err = capsys.readouterr()
    assert words in out and f"{tmp_path}/two is not a status file" in err


def test_two_that_prometheus_could_not_tell_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").write_text('{"version": 1, "query": "one", "running": true}')
    with pytest.raises(SystemExit) as ended:
        main(["status", str(tmp_path / "one"), str(tmp_path / "one"), "--prometheus"])
    assert ended.value.code == 2
    assert "two statuses have the same labels" in capsys.readouterr().err
