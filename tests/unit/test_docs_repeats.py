"""What one page tells, no other page tells again, nor the same page: they link to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
# A run of so many words is more than a name or a phrase.
RUN = 12


def paragraphs(text: str) -> Iterator[list[str]]:
    """The words of each paragraph, list entry and row of a table, without code and targets of links."""
    prose = re.sub(r"```.*?```|^ {4}[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-|]|\d+\.) ?)", prose):
        yield re.findall(r"\w+", paragraph.lower())


def runs(text: str) -> Iterator[str]:
    for words in paragraphs(text):
        for begin in range(len(words) - RUN + 1):
            yield " ".join(words[begin : begin + RUN])


def test_no_run_of_twelve_words_stands_twice() -> None:
    seen: dict[str, str] = {}
    again = []
    for page in PAGES:
        for run in runs(page.read_text(encoding="utf-8")):
            if run in seen:
                again.append(f"{page.name} and {seen[run]}: {run}")
            seen.setdefault(run, page.name)
    assert again == []
