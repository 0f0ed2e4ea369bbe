"""Every program that a reader can copy, with bodies of every kind: none ends it, and it loses none of them.

A program that is added to a page, to ``notebooks`` or to ``conf`` is among them by itself. How it runs, and
what counts as kept, is in ``support/bodies.py``.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from databricks_runtime import Widgets
from pyspark.sql import SparkSession
from run_notebooks import NOTEBOOKS, read
from support.bodies import run, run_queries, stand_in
from support.pages import README, ROOT
from support.spark import classic_only

pytestmark = [pytest.mark.spark, classic_only("it puts stand-ins into the classes of a classic session")]

PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
BEFORE = "Before each recipe"
PIPELINE = yaml.safe_load((ROOT / "conf" / "pipeline" / "spark-pipeline.yml").read_text(encoding="utf-8"))
# What starts the queries of a file that does not when it is imported.
CALLS = {"demo.py": "start_queries(spark, 'stomp://localhost:61613', Path())"}
# What keeps no bodies, on purpose.
KEEPS_NONE = {
    "reading.md: SQL": "counts messages",
}


def sections(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The headings of a page, and the programs below them."""
    for part in page.read_text(encoding="utf-8").split("\n## "):
        yield part.partition("\n")[0], re.findall(r"```python\n(.*?)```", part, re.DOTALL)


def programs() -> dict[str, list[str]]:
    """What can be run, by page and heading: all that reads and starts a query.

    What comes before each recipe is on the page, or on the one to which it links.
    """
    found = {}
    first = {page.name: dict(sections(page)).get(BEFORE, []) for page in PAGES}
    for page in PAGES:
        linked = re.search(r"\(([\w-]+\.md)#before-each-recipe\)", page.read_text(encoding="utf-8"))
        before = first[linked[1] if linked else page.name]
        for heading, own in sections(page):
            text = "".join(own)
            reads = heading != BEFORE and re.search(r"readStream|messages\(|orders\(", text)
            if reads and re.search(r"writeStream.*\.(start|toTable)\(", "".join(before) + text, re.DOTALL):
                found[f"{page.name}: {heading}"] = before + own
    return found


def notebooks() -> dict[str, str]:
    """The code of each notebook, by its name."""
    code = {
        path.name: "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "code")
        for path in NOTEBOOKS
    }
    sources = ((path.name, path.read_text(encoding="utf-8")) for path in (ROOT / "notebooks").glob("*.py"))
    return code | {name: text for name, text in sources if text.startswith("# Databricks notebook source")}


def files() -> dict[str, str]:
    """The other programs that are files of their own."""
    paths = sorted([*(ROOT / "notebooks").glob("*.py"), *(ROOT / "conf").rglob("*.py")])
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    return {name: text for name, text in texts.items() if "readStream" in text and name not in NOTES}


NOTES = notebooks()
PROGRAMS = programs() | {name: [text, CALLS.get(name, "")] for name, text in files().items()}


def test_all_are_found() -> None:
    assert {
        "README.md: Quickstart",
        "start.md: A first job",
        "reading.md: Dead letters",
        "exactly-once.md: toTable",
        "demo.py",
        "orders.py",
    } <= PROGRAMS.keys()
    assert {"01_quickstart.ipynb", "05_databricks.py"} <= NOTES.keys()
    assert KEEPS_NONE.keys() <= PROGRAMS.keys()


@pytest.fixture(autouse=True)
def no_view_stays(spark: SparkSession) -> Iterator[None]:
    yield
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_body_ends_it_and_none_is_lost(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # Ctrl-C stays that of the tests
    for key, value in PIPELINE["configuration"].items():
        spark.conf.set(key, value)
    names: dict[str, Any] = {"__name__": "a_program", "spark": spark}
    with stand_in(spark) as kept:
        run(["import os", *(text.replace("/data/", f"{tmp_path}/") for text in PROGRAMS[name])], names)
    if name not in KEEPS_NONE:
        assert kept.rows
        assert kept.missing() == []


# The longest is for soak.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] * name.startswith("04_")) for name in NOTES]
)
def test_no_body_ends_a_query_of_a_notebook_and_none_is_lost(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    databricks = {"dbutils": Mock(widgets=Widgets({})), "display": Mock()}
    with stand_in(spark) as kept:
        run_queries(NOTES[name], {"__name__": "a_program", "spark": spark, **databricks})
    assert kept.failed == []
    assert len(kept.queries) == NOTES[name].count(".writeStream")
    assert kept.missing() == []
