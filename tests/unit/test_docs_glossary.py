"""The words of the delivery contract are in order and name what exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "spark_stomp"
TEXT = (
    (ROOT / "docs" / "delivery-contract.md")
    .read_text(encoding="utf-8")
    .split("## The words\n", 1)[1]
    .split("\n## ", 1)[0]
)
ENTRIES = re.findall(r"^- \*\*(.+?)\*\*((?:.*\n(?!- ))*.*)", TEXT, re.MULTILINE)
CLASS_NAMES = frozenset(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`", TEXT))


def classes_in(folder: Path) -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def test_entries_are_sorted_and_unique() -> None:
    words = [word for word, _ in ENTRIES]
    assert len(words) > 20
    assert words == sorted(set(words), key=str.lower)


@pytest.mark.parametrize(("word", "text"), ENTRIES, ids=[word for word, _ in ENTRIES])
def test_an_entry_has_two_sentences_at_most(word: str, text: str) -> None:
    assert 1 <= len(re.findall(r"[.](?=\s|$)", text)) <= 2


def test_classes_that_it_names_exist() -> None:
    assert classes_in(PACKAGE) >= CLASS_NAMES
