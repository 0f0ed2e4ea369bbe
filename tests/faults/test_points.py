"""Points where a process stops or dies name functions that are there; what they do is in the fault matrix."""

from __future__ import annotations

import ast
import functools
import importlib
from pathlib import Path

import pytest
from support.points import Point

TESTS = Path(__file__).parents[1]
OTHERS = [path for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__)]


def points_of(path: Path) -> list[tuple[dict[str, str], str]]:
    """The functions that points are made of there, each with where the names come from that are imported."""
    text = path.read_text(encoding="utf-8")
    if "Point." not in text:
        return []
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func) in ("Point.before", "Point.after")]
    return [(imported, ast.unparse(call.args[0])) for call in made]


@pytest.mark.parametrize(
    ("imported", "function"),
    [
        pytest.param(*point, id=f"{path.relative_to(TESTS)} {point[1]}")
        for path in OTHERS
        for point in points_of(path)
    ],
)
def test_every_point_of_the_suite_names_a_function(imported: dict[str, str], function: str) -> None:
    """Also those that only a long run would come to."""
    name, *attributes = function.split(".")
    module, _, original = imported[name].partition(":")
    found = functools.reduce(getattr, [original, *attributes], importlib.import_module(module))
    assert Point.before(found, 1, "hold").qualname == found.__qualname__
