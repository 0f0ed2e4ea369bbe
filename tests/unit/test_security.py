"""docs/security.md: every test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
TEXT = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py(?:::\w+)*)`", TEXT)))


@cache
def names_in(path: Path) -> frozenset[str]:
    """Names of the functions and classes at the top of a module, and of methods behind their class."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return frozenset(found)


def test_it_names_some() -> None:
    assert len(NAMED) > 15


@pytest.mark.parametrize("named", NAMED)
def test_it_is_there(named: str) -> None:
    path, _, name = named.partition("::")
    assert (TESTS / path).is_file()
    assert not name or name in names_in(TESTS / path)


def test_a_threat_that_nothing_stops_says_so() -> None:
    rows = [
        line.split("|")[1:-1] for line in TEXT.splitlines() if line.startswith("|") and line.count("|") == 5
    ]
    threats = [row for row in rows if len(row) == 4 and row[0].strip() not in ("who", "---")]
    assert len(threats) > 15
    for _, wish, stops, shown in threats:
        assert shown.strip() or "**" in stops, wish
