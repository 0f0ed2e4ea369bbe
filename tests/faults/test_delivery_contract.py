"""docs/delivery-contract.md and what guards it: every point has tests, and every test names points of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from support.broken import Broken
from support.contract_rules import RULES

TESTS = Path(__file__).parents[1]
CONTRACT = TESTS.parent / "docs" / "delivery-contract.md"
SECTIONS = ["1", "2", "3", "4", "5", "6", "7", "J", "R", "S"]


def sections_and_points() -> tuple[list[str], list[str]]:
    text = CONTRACT.read_text(encoding="utf-8")
    sections = re.findall(r"^## ([1-9JRS])\. ", text, re.MULTILINE)
    return sections, re.findall(r"^- \*\*([1-9JRS]\.\d+)\*\* ", text, re.MULTILINE)


POINTS = sections_and_points()[1]


@cache
def marked(path: Path) -> dict[str, set[str]]:
    """The tests of a module, as pytest names them, with the points that each is marked with."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    whole = {point for node in body for point in points_of_module(node)}
    functions = [("", set(), node) for node in body] + [
        (f"{node.name}::", set(points_of(node)), inner)
        for node in body
        if isinstance(node, ast.ClassDef)
        for inner in node.body
    ]
    return {
        outer + node.name: whole | common | set(points_of(node))
        for outer, common, node in functions
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def points_of_module(node: ast.stmt) -> Iterator[str]:
    """The points of ``pytestmark = pytest.mark.rule(...)``."""
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
        yield from points_named(node.value)


def points_of(node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        yield from points_named(decorator)


def points_named(mark: ast.expr) -> Iterator[str]:
    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.rule":
        yield from (ast.literal_eval(argument) for argument in mark.args)


def test_sections_and_points_are_numbered_in_order() -> None:
    sections, points = sections_and_points()
    assert sections == SECTIONS
    assert [section for section, _ in groupby(points, lambda point: point[0])] == SECTIONS
    for _, numbered in groupby(points, lambda point: point[0]):
        # The numbers of points that went are not used again, since comments and tests name them.
        found = [int(point.partition(".")[2]) for point in numbered]
        assert found == sorted(set(found))


def test_every_point_is_broken_once_or_twice_in_their_order() -> None:
    broken = [(rule, len(list(entries))) for rule, entries in groupby(RULES, lambda entry: entry.rule)]
    assert [rule for rule, _ in broken] == POINTS
    assert max(entries for _, entries in broken) <= 2


@pytest.mark.parametrize("point", POINTS)
def test_every_point_is_guarded_by_a_test(point: str) -> None:
    assert any(point in points for path in TESTS.rglob("test_*.py") for points in marked(path).values())


def test_every_mark_names_a_point() -> None:
    unknown = {
        f"{path.relative_to(TESTS)}::{test}": sorted(points - {*POINTS})
        for path in TESTS.rglob("test_*.py")
        for test, points in marked(path).items()
        if not points <= {*POINTS}
    }
    assert unknown == {}


@pytest.mark.parametrize("broken", RULES, ids=str)
def test_the_test_of_every_broken_rule_is_marked_with_it(broken: Broken) -> None:
    assert broken.rule in POINTS
    path, _, test = broken.test.partition("::")
    assert broken.rule in marked(TESTS / path)[test.partition("[")[0]]
