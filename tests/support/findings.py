"""What long runs write into pages, ``tests/faults/README.md`` by default, each between its own markers."""

from __future__ import annotations

import fcntl
from pathlib import Path

README = Path(__file__).parents[1] / "faults" / "README.md"


def found(name: str, page: Path = README) -> str:
    """What stands there under this name."""
    _, begin, rest = page.read_text().partition(_begin(name))
    assert begin, f"{page} has no place for {name!r}"
    return rest.partition(_END)[0]


def put(name: str, text: str, page: Path = README) -> None:
    """Replace what stands there under this name."""
    with page.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # against a run's other process
        whole = file.read().replace(_begin(name) + found(name, page), _begin(name) + text)
        file.seek(0)
        file.truncate()
        file.write(whole)


def _begin(name: str) -> str:
    return f"<!-- begin: {name} -->\n"


_END = "<!-- end -->\n"
