"""The glossary is in order and names what exists; words that it replaces are gone from the package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "spark_stomp"
TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^- \*\*(.+?)\*\*((?:.*\n(?!- ))*.*)", TEXT, re.MULTILINE)
CLASS_NAMES = frozenset(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`", TEXT))

# Classes that carry the words of receiver/, exchange/, journal/ and source/.
CARRIERS = {
    "receiver": {"AckLedger", "DedupIndex", "FrameStore", "HeldAt", "Receiver"},
    "exchange": {"ExchangeServer", "Pair", "RangeTicket"},
    "journal": {"DedupLog", "Journal", "ListingState", "Manifest", "WriterFence"},
    "source": {"Backlog", "JournalBacklog", "MemoryBacklog", "Offset", "ReceiverGroup"},
}

# Regular expressions; a letter matches in either case.
BANNED = (
    r"settl(e|ing)",
    r"holdings",
    r"fleet",
    r"(key|layout)book",
    r"(?<![a-z])book(?![a-z])",
    r"oddit(y|ies)",
    r"judge(ment|\()",
    r"takeover",
    r"patience",
    r"_bear",
    r"windowcap",
    r"(?<![a-z])look\(",
    r"_say\(",
    r"class (given|opening|place)\b",
)

# Names on disk and keys of the status action, which stay as they are.
FROZEN = (r'"settled"', r"settled\.keys", r"settled/K-T-N-G-W-S")


def classes_in(folder: Path) -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def banned_words(text: str) -> list[str]:
    """The banned words of a module, in its own spelling and case, outside frozen names."""
    for frozen in FROZEN:
        text = re.sub(frozen, "", text)
    return [found.group() for word in BANNED for found in re.finditer(word, text, re.IGNORECASE)]


def test_entries_are_sorted_and_unique() -> None:
    words = [word for word, _ in ENTRIES]
    assert len(words) > 40
    assert words == sorted(set(words), key=str.lower)


@pytest.mark.parametrize(("word", "text"), ENTRIES, ids=[word for word, _ in ENTRIES])
def test_an_entry_has_two_sentences_at_most(word: str, text: str) -> None:
    assert 1 <= len(re.findall(r"[.](?=\s|$)", text)) <= 2


def test_classes_that_it_names_exist() -> None:
    assert classes_in(PACKAGE) >= CLASS_NAMES


@pytest.mark.parametrize("part", CARRIERS)
def test_classes_that_carry_a_word_are_named(part: str) -> None:
    assert classes_in(PACKAGE / part) >= CARRIERS[part]
    assert CARRIERS[part] <= CLASS_NAMES


def test_banned_words_are_gone() -> None:
    paths = list(PACKAGE.rglob("*.py"))
    found = {str(path.relative_to(ROOT)): banned_words(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: words for name, words in found.items() if words} == {}


def test_a_frozen_name_is_not_a_banned_word() -> None:
    assert banned_words('DEDUP_LOG: Final = "settled"\nself._settle(keys)  # the KeyBook') == [
        "settle",
        "KeyBook",
    ]
