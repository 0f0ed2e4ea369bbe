"""spark_stomp.spark.datasource: Spark's Python is compared with this one, before anything fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from spark_stomp import StompDataSource, register
from spark_stomp.errors import WrongPython


class Session:
    """What ``register`` needs of a session of Spark; a Connect session has no ``sparkContext``."""

    def __init__(self, python: str | None, error: Exception | None = None) -> None:
        self.registered: list[type] = []
        self._error = error
        self.dataSource = SimpleNamespace(register=self._register)
        if python is not None:
            self.sparkContext = SimpleNamespace(pythonExec=python)

    def _register(self, source: type) -> None:
        if self._error is not None:
            raise self._error
        self.registered.append(source)


def python(folder: Path, answer: str) -> str:
    """An interpreter that does this."""
    folder.mkdir(exist_ok=True)
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def on_no_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)


def registered(session: Any) -> bool:
    register(session)
    return bool(session.registered == [StompDataSource])


def refusal(session: Any) -> str:
    with pytest.raises(WrongPython) as caught:
        register(session)
    assert session.registered == []
    return str(caught.value)


class TestTheSamePython:
    def test_by_its_path(self) -> None:
        assert registered(Session(sys.executable))

    def test_by_its_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        folder, name = os.path.split(sys.executable)
        monkeypatch.setenv("PATH", folder, prepend=os.pathsep)
        assert registered(Session(name))


class TestAnotherPython:
    def test_of_another_version(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        other = python(tmp_path, "echo 'it is Python 3.1 and not 3.99' >&2; exit 1")
        for name in (other, "python3"):
            text = refusal(Session(name))
            assert text.startswith(
                f"[STOMP_WRONG_PYTHON] Spark runs Python code with {other}: it is Python 3.1 and not 3.99. "
                f"This is {sys.executable}. "
            )
            assert 'os.environ["PYSPARK_PYTHON"] = sys.executable' in text
            assert f"spark.pyspark.python={sys.executable}" in text

    def test_that_is_not_there(self, tmp_path: Path) -> None:
        text = refusal(Session(str(tmp_path / "python3")))
        assert "it does not start here (No such file or directory)" in text

    def test_a_real_one_that_has_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
        monkeypatch.chdir(tmp_path)
        other = python(tmp_path, f'exec "{sys.executable}" -S "$@"')
        assert "No module named 'spark_stomp'" in refusal(Session(other))

    def test_that_has_all_is_fine(self, tmp_path: Path) -> None:
        assert registered(Session(python(tmp_path, f'exec "{sys.executable}" "$@"')))


class TestNoFalseAlarm:
    def test_over_connect(self) -> None:
        assert registered(Session(None))

    def test_on_databricks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
        assert registered(Session(str(tmp_path / "python3")))


def test_what_spark_found_by_itself_is_not_an_error() -> None:
    error = AnalysisException("[DATA_SOURCE_ALREADY_EXISTS] Data source 'stomp' already exists.")
    register(Session(sys.executable, error))  # type: ignore[arg-type]


def test_any_other_error_of_spark_is() -> None:
    with pytest.raises(AnalysisException):
        register(Session(sys.executable, AnalysisException("[ANOTHER]")))  # type: ignore[arg-type]
