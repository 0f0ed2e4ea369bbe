"""spark_stomp.protocol.layouts."""

from __future__ import annotations

import re

import pytest

from spark_stomp.protocol import layouts
from spark_stomp.protocol.layouts import Layout, LayoutCache


def book() -> LayoutCache[str]:
    """A book that keeps the names of its layouts."""
    return LayoutCache(lambda layout: ",".join(layout.names))


def teach(pupil: LayoutCache[str], *names: str, times: int = 2) -> None:
    for _ in range(times):
        pupil.saw("MESSAGE", tuple((name, "v") for name in names))


class TestLayout:
    def test_the_first_of_a_name_is_its_place(self) -> None:
        layout = Layout("SEND", ("a", "b", "a"))
        assert (layout.place("a"), layout.place("b"), layout.place("c")) == (0, 1, None)

    def test_the_pattern_captures_what_is_asked_for(self) -> None:
        pattern = re.compile(Layout("SEND", ("a", "b.c", "d")).pattern(frozenset({0, 2})))
        match = pattern.fullmatch("SEND\na:1\nb.c:2:3\nd:\n\n")
        assert match is not None and match.groups() == ("1", "")
        assert pattern.fullmatch("SEND\na:1\nbxc:2\nd:\n\n") is None

    def test_a_content_length_must_be_a_number_that_int_takes(self) -> None:
        pattern = re.compile(Layout("SEND", ("content-length", "content-length")).pattern(frozenset({0})))
        assert pattern.fullmatch("SEND\ncontent-length:12\ncontent-length:x\n\n")
        for wrong in ("", "x", "-1", "1 ", "9" * 19, "²"):
            assert pattern.fullmatch(f"SEND\ncontent-length:{wrong}\ncontent-length:1\n\n") is None


class TestLayoutBook:
    def test_a_layout_enters_when_seen_again(self) -> None:
        pupil = book()
        teach(pupil, "a", times=1)
        assert pupil.known == []
        teach(pupil, "a", times=1)
        assert pupil.known == ["a"]

    def test_it_enters_once(self) -> None:
        pupil = book()
        teach(pupil, "a", times=9)
        assert pupil.known == ["a"]

    def test_the_latest_used_stands_first(self) -> None:
        pupil = book()
        for name in "abc":
            teach(pupil, name)
        assert pupil.known == ["c", "b", "a"]
        pupil.used(2)
        assert pupil.known == ["a", "c", "b"]
        pupil.used(0)
        assert pupil.known == ["a", "c", "b"]
        teach(pupil, "a")
        assert pupil.known == ["a", "c", "b"]

    def test_it_forgets(self) -> None:
        pupil = book()
        teach(pupil, "a")
        teach(pupil, "b", times=1)
        pupil.clear()
        assert pupil.known == []
        teach(pupil, "a", times=1)
        teach(pupil, "b", times=1)
        assert pupil.known == []
        teach(pupil, "a", times=1)
        assert pupil.known == ["a"]

    @pytest.mark.parametrize("name", ["", "a:b", "a\\c", "é", "a b", "a\n", "\x7f", "x" * 129])
    def test_only_plain_names_are_learned(self, name: str) -> None:
        pupil = book()
        teach(pupil, "a", name)
        assert pupil.known == []

    def test_long_layouts_are_not_learned(self) -> None:
        pupil = book()
        teach(pupil, *["x"] * (layouts.MAX_NAMES + 1))
        assert pupil.known == []
        teach(pupil, *["x"] * layouts.MAX_NAMES)
        assert len(pupil.known) == 1

    def test_once_full_a_newcomer_is_paid_for_with_unknown_frames(self) -> None:
        pupil = book()
        for number in range(layouts.MAX_KNOWN):
            teach(pupil, f"n{number}")
        assert len(pupil.known) == layouts.MAX_KNOWN
        teach(pupil, "late", times=layouts.COMPILE_EVERY - 1)
        assert "late" not in pupil.known
        teach(pupil, "late", times=1)
        assert pupil.known[0] == "late"
        assert len(pupil.known) == layouts.MAX_KNOWN
        assert "n0" not in pupil.known
        teach(pupil, "later", times=2)
        assert "later" not in pupil.known

    def test_candidates_are_bounded(self) -> None:
        pupil = book()
        for number in range(layouts.MAX_CANDIDATES + 1):
            teach(pupil, f"n{number}", times=1)
        teach(pupil, "n0", times=1)
        assert pupil.known == []
        teach(pupil, f"n{layouts.MAX_CANDIDATES}", times=1)
        assert pupil.known == [f"n{layouts.MAX_CANDIDATES}"]
