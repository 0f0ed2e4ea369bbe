"""The order of addresses, without a connection."""

from __future__ import annotations

import pytest

from spark_stomp.transport import addresses
from spark_stomp.transport.addresses import Addresses

URL = ["a:1", "b:1", "c:1"]


class Known:
    """A memory with a clock that the test turns."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.memory = Addresses(lambda: self.now)

    @property
    def order(self) -> str:
        return "".join(one[0] for one in self.memory.in_order(URL, str))

    def failed(self, *names: str) -> None:
        self.now += 1
        self.memory.failed(*(f"{name}:1" for name in names))


def test_what_failed_last_is_last() -> None:
    known = Known()
    assert known.order == "abc"
    orders = []
    for name in "abca":
        known.failed(name)
        orders.append(known.order)
    assert orders == ["bca", "cab", "abc", "bca"]


def test_a_failure_is_forgotten_in_time() -> None:
    known = Known()
    known.failed("a")
    known.now += 200
    known.failed("b")
    assert known.order == "cab"
    known.now += 101
    assert known.order == "acb"
    known.now += 200
    assert known.order == "abc"


def test_what_is_forgotten_is_in_its_place_again() -> None:
    known = Known()
    known.failed("a")
    known.memory.forget(["a:1", "never:1"])
    assert known.order == "abc"


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_MOST", 2)
    known = Known()
    for name in "abcdeb":
        known.failed(name)
    assert known.order == "acb" and len(known.memory._failed) == 2
