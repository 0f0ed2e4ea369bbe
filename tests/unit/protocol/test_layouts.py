"""spark_stomp.protocol.layouts."""

from __future__ import annotations

import re

import pytest

from spark_stomp.protocol import layouts
from spark_stomp.protocol.layouts import Layout, LayoutCache


def new_cache() -> LayoutCache[str]:
    """A cache that keeps the names of its layouts."""
    return LayoutCache(lambda layout: ",".join(layout.names))


def teach(cache: LayoutCache[str], *names: str, times: int = 2) -> None:
    for _ in range(times):
        cache.saw("MESSAGE", tuple((name, "v") for name in names))


class TestLayout:
    def test_the_first_of_a_name_is_its_place(self) -> None:
        layout = Layout("SEND", ("a", "b", "a"))
        assert (layout.position("a"), layout.position("b"), layout.position("c")) == (0, 1, None)

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


class TestLayoutCache:
    def test_a_layout_enters_when_seen_again(self) -> None:
        cache = new_cache()
        teach(cache, "a", times=1)
        assert cache.known == []
        teach(cache, "a", times=1)
        assert cache.known == ["a"]

    def test_it_enters_once(self) -> None:
        cache = new_cache()
        teach(cache, "a", times=9)
        assert cache.known == ["a"]

    def test_the_latest_used_stands_first(self) -> None:
        cache = new_cache()
        for name in "abc":
            teach(cache, name)
        assert cache.known == ["c", "b", "a"]
        cache.used(2)
        assert cache.known == ["a", "c", "b"]
        cache.used(0)
        assert cache.known == ["a", "c", "b"]
        teach(cache, "a")
        assert cache.known == ["a", "c", "b"]

    def test_it_forgets(self) -> None:
        cache = new_cache()
        teach(cache, "a")
        teach(cache, "b", times=1)
        cache.clear()
        assert cache.known == []
        teach(cache, "a", times=1)
        teach(cache, "b", times=1)
        assert cache.known == []
        teach(cache, "a", times=1)
        assert cache.known == ["a"]

    @pytest.mark.parametrize("name", ["", "a:b", "a\\c", "é", "a b", "a\n", "\x7f", "x" * 129])
    def test_only_plain_names_are_learned(self, name: str) -> None:
        cache = new_cache()
        teach(cache, "a", name)
        assert cache.known == []

    def test_long_layouts_are_not_learned(self) -> None:
        cache = new_cache()
        teach(cache, *["x"] * (layouts.MAX_NAMES + 1))
        assert cache.known == []
        teach(cache, *["x"] * layouts.MAX_NAMES)
        assert len(cache.known) == 1

    def test_once_full_a_newcomer_is_paid_for_with_unknown_frames(self) -> None:
        cache = new_cache()
        for number in range(layouts.MAX_KNOWN):
            teach(cache, f"n{number}")
        assert len(cache.known) == layouts.MAX_KNOWN
        teach(cache, "late", times=layouts.COMPILE_EVERY - 1)
        assert "late" not in cache.known
        teach(cache, "late", times=1)
        assert cache.known[0] == "late"
        assert len(cache.known) == layouts.MAX_KNOWN
        assert "n0" not in cache.known
        teach(cache, "later", times=2)
        assert "later" not in cache.known

    def test_one_that_had_to_go_is_learned_anew(self) -> None:
        cache = new_cache()
        for number in range(layouts.MAX_KNOWN):
            teach(cache, f"name{number}")
        teach(cache, "late", times=layouts.COMPILE_EVERY)
        assert "name0" not in cache.known
        # Frames of unknown layout that pay for one more; a name that is not plain is never learned.
        teach(cache, "a b", times=layouts.COMPILE_EVERY)
        teach(cache, "name0", times=1)
        assert "name0" not in cache.known
        teach(cache, "name0", times=1)
        assert cache.known[0] == "name0"

    def test_candidates_are_bounded(self) -> None:
        cache = new_cache()
        for number in range(layouts.MAX_CANDIDATES + 1):
            teach(cache, f"n{number}", times=1)
        teach(cache, "n0", times=1)
        assert cache.known == []
        teach(cache, f"n{layouts.MAX_CANDIDATES}", times=1)
        assert cache.known == [f"n{layouts.MAX_CANDIDATES}"]
