"""Results that long runs write into ``tests/faults/README.md``, each between markers of its own."""

from __future__ import annotations

import fcntl
from pathlib import Path

__all__ = ["README", "found", "put"]

README = Path(__file__).parents[1] / "faults" / "README.md"


def found(name: str) -> str:
    """What stands there under this name."""
    _, begin, rest = README.read_text().partition(_begin(name))
    assert begin, f"{README} has no place for {name!r}"
    return rest.partition(_END)[0]


def put(name: str, text: str) -> None:
    """Replace what stands there under this name."""
    with README.open("r+") as page:
        fcntl.flock(page, fcntl.LOCK_EX)  # against a run's other process
        whole = page.read().replace(_begin(name) + found(name), _begin(name) + text)
        page.seek(0)
        page.truncate()
        page.write(whole)


def _begin(name: str) -> str:
    return f"<!-- begin: {name} -->\n"


_END = "<!-- end -->\n"
