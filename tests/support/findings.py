"""Results that long runs write into ``tests/faults/README.md``, each between markers of its own."""

from __future__ import annotations

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
    whole = README.read_text()
    README.write_text(whole.replace(_begin(name) + found(name), _begin(name) + text))


def _begin(name: str) -> str:
    return f"<!-- begin: {name} -->\n"


_END = "<!-- end -->\n"
