"""spark_stomp.demo.java: a machine without a usable Java is told what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_stomp.demo import app
from spark_stomp.demo.java import HOW_TO_INSTALL, java_version, missing_java


def fake_java(folder: Path, says: str, status: int = 0) -> Path:
    """A Java home whose java prints ``says`` as Java does."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """JAVA_HOME, with nothing there yet."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("Unable to locate a Java Runtime.", None),
    ],
)
def test_version(tmp_path: Path, says: str, version: int | None) -> None:
    assert java_version(str(fake_java(tmp_path, says))) == version


def test_one_that_fails_is_none(tmp_path: Path) -> None:
    assert java_version(str(fake_java(tmp_path, 'version "17"', status=1))) is None
    assert java_version(str(tmp_path / "nothing")) is None


def test_one_that_is_new_enough(home: Path) -> None:
    fake_java(home, 'openjdk version "17.0.1"')
    assert missing_java() is None


def test_one_that_is_too_old(home: Path) -> None:
    fake_java(home, 'openjdk version "11.0.2"')
    reason = missing_java()
    assert reason is not None
    assert "is Java 11" in reason and "openjdk-17" in reason


def test_a_home_without_java(home: Path) -> None:
    assert "does not run" in str(missing_java())


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert str(missing_java()).startswith("There is no Java on this machine.")


def test_the_demo_says_so_and_stops(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert app.main([]) == app.CANNOT_RUN != 0
    printed = capsys.readouterr()
    assert HOW_TO_INSTALL in printed.err
    assert printed.out == ""
