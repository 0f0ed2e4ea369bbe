"""The points of docs/delivery-contract.md, and the tests that are marked with them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
_TEXT = (TESTS.parent / "docs" / "delivery-contract.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## ([1-9JRS])\. ", _TEXT, re.MULTILINE)
POINTS = re.findall(r"^- \*\*([1-9JRS]\.\d+)\*\* ", _TEXT, re.MULTILINE)

# Those that take longest are the last.
_FOLDERS = ["unit", "integration", "faults", "hostile", "conformance", "interop", "streaming", "cluster"]


@cache
def marked() -> dict[str, set[str]]:
    """Each test, as pytest names it, and the points that it is marked with; below Spark and brokers first."""
    files = sorted((path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")), key=_place)
    return {f"{file}::{name}": points for file in files for name, points in _tests_of(TESTS / file)}


def _place(file: Path) -> tuple[int, Path]:
    return _FOLDERS.index(file.parts[0]) if file.parts[0] in _FOLDERS else len(_FOLDERS), file


def _tests_of(path: Path) -> Iterator[tuple[str, set[str]]]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    whole = {point for node in body for point in _points_of_module(node)}
    functions: list[tuple[str, set[str], ast.stmt]] = [("", set(), node) for node in body] + [
        (f"{node.name}::", set(_points_of(node)), inner)
        for node in body
        if isinstance(node, ast.ClassDef)
        for inner in node.body
    ]
    for outer, common, node in functions:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield outer + node.name, whole | common | set(_points_of(node))


def _points_of_module(node: ast.stmt) -> Iterator[str]:
    """The points of ``pytestmark = pytest.mark.rule(...)``."""
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
        yield from _points_named(node.value)


def _points_of(node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        yield from _points_named(decorator)


def _points_named(mark: ast.expr) -> Iterator[str]:
    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.rule":
        yield from (ast.literal_eval(argument) for argument in mark.args)
