"""spark_stomp.demo.flights: the real file, and what it adds up to."""

from __future__ import annotations

import json
from collections import Counter
from importlib import metadata

import pytest

from spark_stomp.demo.flights import Expected, airline_names, flights, messages


def test_the_real_file() -> None:
    expected = Expected()
    bodies = [json.loads(body) for body in messages(flights(900), expected)]
    assert bodies[0] == {
        "id": 0,
        "time_hour": "2013-01-01T10:00:00Z",
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "dep_delay": 2,
        "arr_delay": 11,
        "distance": 1400,
    }
    assert [body["id"] for body in bodies] == list(range(900))
    assert expected.flights == 900
    assert expected.alerts == {body["id"] for body in bodies if (body["dep_delay"] or 0) >= 120} != set()
    assert airline_names()["UA"] == "United Air Lines Inc."


def test_sums() -> None:
    expected = Expected()
    for number, (origin, delay) in enumerate([("EWR", 2), ("EWR", None), ("JFK", 120)]):
        expected.count({"id": number, "carrier": "UA", "origin": origin, "dep_delay": delay})
    assert (expected.flights, expected.alerts) == (3, {2})
    assert expected.totals == {
        ("UA", "EWR"): Counter(flights=2, departures=1, minutes=2, late=0),
        ("UA", "JFK"): Counter(flights=1, departures=1, minutes=120, late=1),
    }


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", nothing)
    with pytest.raises(FileNotFoundError, match="pip install"):
        airline_names()
