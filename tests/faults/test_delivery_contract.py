"""docs/delivery-contract.md and what guards it: every point has tests, and every test names points of it."""

from __future__ import annotations

from itertools import groupby

from support.contract import POINTS, SECTIONS, marked
from support.mutants import CONTRACT


def test_sections_and_points_are_numbered_in_order() -> None:
    assert SECTIONS == ["1", "2", "3", "4", "5", "6", "7", "J", "R", "S"]
    assert [section for section, _ in groupby(POINTS, lambda point: point[0])] == SECTIONS
    for _, numbered in groupby(POINTS, lambda point: point[0]):
        # The numbers of points that went are not used again, since comments and tests name them.
        found = [int(point.partition(".")[2]) for point in numbered]
        assert found == sorted(set(found))


def test_every_point_is_broken_in_their_order() -> None:
    assert [*dict.fromkeys(point for point, _ in CONTRACT)] == POINTS


def test_every_point_is_guarded_by_a_test_and_every_mark_names_a_point() -> None:
    assert set().union(*marked().values()) == {*POINTS}
