"""Flaws that tasks notice in messages: counted by kind, and logged once for each kind and destination."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_stomp.arrow import Flaw
from spark_stomp.source.flaws import FlawCounts

KINDS = ("headers_not_text", "bodies_undecoded", "bodies_lost", "bodies_hollow", "bodies_unfit")


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_ones_are_logged_and_all_are_counted(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    flaws = FlawCounts()
    for destination in ("/queue/a", "/queue/a", "/queue/b\n"):
        flaws.take(Counter({Flaw(kind, destination, "activemq"): 2}))
    assert flaws.counts == {kind: 6}
    first, second = (record.getMessage() for record in caplog.records)
    assert "/queue/a: 2 messages w" in first and "/queue/b\\n: 2 messages w" in second
    assert ("an empty body" in first) == (kind == "bodies_hollow")
    assert ("jms-xml" in caplog.text) == (kind in ("bodies_lost", "bodies_hollow"))


def test_kinds_are_those_that_are_known() -> None:
    """A task may report whatever it wants."""
    flaws = FlawCounts()
    with pytest.raises(KeyError):
        flaws.take(Counter({Flaw("other", "/queue/a", "artemis"): 1}))
    assert flaws.counts == {}


def test_lines_are_bounded_whatever_the_destinations(caplog: pytest.LogCaptureFixture) -> None:
    flaws = FlawCounts()
    for number in range(300):
        flaws.take(Counter({Flaw("bodies_lost", f"/queue/{number}", "artemis"): 1}))
    assert flaws.counts == {"bodies_lost": 300} and len(caplog.records) == 100


def test_bodies_that_do_not_fit_are_counted_by_destination_whatever_their_number() -> None:
    flaws = FlawCounts()
    for number in range(300):
        flaws.take(Counter({Flaw("bodies_unfit", f"/queue/{number}", "artemis", f"why {number}"): 2}))
    flaws.take(Counter({Flaw("bodies_unfit", "/queue/7", "artemis", "another"): 1}))
    found = flaws.unfit
    assert flaws.counts == {"bodies_unfit": 601}
    assert sum(one.bodies for one in found.values()) == 601
    assert len(found) == 101
    assert (found["/queue/7"].bodies, found["/queue/7"].reason) == (3, "why 7")
    assert (found["others"].bodies, found["others"].reason) == (400, "why 100")
