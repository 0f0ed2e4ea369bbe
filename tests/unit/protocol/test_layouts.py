"""spark_stomp.protocol.layouts: which header layouts are known."""

from __future__ import annotations

import pytest

from spark_stomp.protocol import layouts
from spark_stomp.protocol.layouts import LayoutCache, Numbers, compile_layout
from spark_stomp.protocol.raw import RawNames


class Cache(LayoutCache):
    def __init__(self) -> None:
        super().__init__(lambda names: compile_layout(names, RawNames(b"ack")))

    @property
    def names(self) -> list[str]:
        return [",".join(known.names) for known in self.known]


def teach(cache: Cache, *names: str, times: int = 2) -> None:
    for _ in range(times):
        cache.saw(tuple((name, "v") for name in names))


class TestLayoutCache:
    @pytest.mark.parametrize("name", ["", "a:b", "a\\c", "é", "a b", "a\n", "\x7f", "x" * 129])
    def test_only_plain_names_are_learned(self, name: str) -> None:
        cache = Cache()
        teach(cache, "a", name)
        assert cache.names == []

    def test_long_layouts_are_not_learned(self) -> None:
        cache = Cache()
        teach(cache, *["x"] * (layouts.MAX_NAMES + 1))
        assert cache.names == []
        teach(cache, *["x"] * layouts.MAX_NAMES)
        assert len(cache.known) == 1

    def test_once_full_a_newcomer_is_paid_for_with_unknown_frames(self) -> None:
        cache = Cache()
        for number in range(layouts.MAX_KNOWN):
            teach(cache, f"n{number}")
        assert len(cache.known) == layouts.MAX_KNOWN
        teach(cache, "late", times=layouts.COMPILE_EVERY - 1)
        assert "late" not in cache.names
        teach(cache, "late", times=1)
        assert cache.names[0] == "late"
        assert len(cache.known) == layouts.MAX_KNOWN
        assert "n0" not in cache.names
        # A layout that was dropped is learned again; a name that is not plain never is, but pays.
        teach(cache, "n0", times=2)
        assert "n0" not in cache.names
        teach(cache, "a b", times=layouts.COMPILE_EVERY)
        teach(cache, "n0", times=1)
        assert cache.names[0] == "n0"

    def test_candidates_are_bounded(self) -> None:
        cache = Cache()
        for number in range(layouts.MAX_CANDIDATES + 1):
            teach(cache, f"n{number}", times=1)
        teach(cache, "n0", times=1)
        assert cache.names == []
        teach(cache, f"n{layouts.MAX_CANDIDATES}", times=1)
        assert cache.names == [f"n{layouts.MAX_CANDIDATES}"]


def test_numbers_are_kept_but_not_without_bound() -> None:
    numbers = Numbers()
    most = layouts.MOST_NUMBERS
    assert [numbers[b"%d" % n] for n in range(most)] == list(range(1, most + 1))
    assert len(numbers) == most
    assert (numbers[b"7"], len(numbers)) == (8, most)
    assert (numbers[b"007"], len(numbers)) == (8, 1)
