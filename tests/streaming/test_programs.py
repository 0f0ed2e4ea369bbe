"""Every program that a reader can copy, with bodies of every kind: none ends it, and it loses none of them.

A program that is added to a page is among them by itself. How it runs, and what counts as kept, is in
``support/bodies.py``.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.bodies import run, stand_in
from support.pages import README, ROOT
from support.spark import classic_only

pytestmark = [pytest.mark.spark, classic_only("it puts stand-ins into the classes of a classic session")]

PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
BEFORE = "Before each recipe"
# What keeps no bodies, on purpose.
KEEPS_NONE = {
    "reading.md: SQL": "counts messages",
}


def sections(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The headings of a page, and the programs below them."""
    for part in page.read_text(encoding="utf-8").split("\n## "):
        yield part.partition("\n")[0], re.findall(r"```python\n(.*?)```", part, re.DOTALL)


def programs() -> dict[str, list[str]]:
    """What can be run, by page and heading: all that reads and starts a query."""
    found = {}
    for page in PAGES:
        blocks = dict(sections(page))
        before = blocks.pop(BEFORE, [])
        for heading, own in blocks.items():
            text = "".join(own)
            reads = re.search(r"readStream|messages\(|orders\(", text)
            if reads and re.search(r"writeStream.*\.(start|toTable)\(", "".join(before) + text, re.DOTALL):
                found[f"{page.name}: {heading}"] = before + own
    return found


PROGRAMS = programs()


def test_all_are_found() -> None:
    assert {
        "README.md: Quickstart",
        "start.md: A first job",
        "reading.md: Feeds",
        "exactly-once.md: toTable",
    } <= PROGRAMS.keys()
    assert KEEPS_NONE.keys() <= PROGRAMS.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_body_ends_it_and_none_is_lost(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable in ("FEED_LOGIN", "FEED_PASSWORD"):
        monkeypatch.setenv(variable, "ada")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # Ctrl-C stays that of the tests
    names: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    with stand_in(spark) as kept:
        run(["import os", *(text.replace("/data/", f"{tmp_path}/") for text in PROGRAMS[name])], names)
    if name not in KEEPS_NONE:
        assert kept.rows
        assert kept.missing() == []
