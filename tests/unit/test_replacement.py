"""Code that is found by its symbol and its syntax tree."""

from __future__ import annotations

import pytest
from support.replacement import Replacement

SOURCE = '''
class Ledger:
    """Keeps handles."""

    def take(self, upto):
        taken = []
        while self.heap and self.heap[0] < upto:
            taken.append(self.heap.pop(0))
            self.count -= 1
        return taken

    def clear(self):
        self.count -= 1
        self.heap.clear()

def take():
    return "taken"
'''


def applied(symbol: str, old: str, new: str) -> str:
    return Replacement(symbol, old, new).apply(SOURCE)


def line(text: str) -> str:
    return " ".join(text.split())


def test_an_expression() -> None:
    changed = applied("ledger:Ledger.take", "self.heap[0] < upto", "True")
    assert "while self.heap and True:" in changed
    compile(changed, "ledger", "exec")


def test_how_it_is_laid_out_does_not_matter() -> None:
    changed = applied("ledger:take", "(  # a comment\n  'taken'\n)", "'given'")
    assert changed.endswith("return 'given'")


def test_statements_that_follow_each_other() -> None:
    old = """
        taken.append(self.heap.pop(0))
        self.count -= 1
    """
    changed = applied("ledger:Ledger.take", old, "break")
    assert "while self.heap and self.heap[0] < upto: break return taken" in line(changed)


def test_an_expression_that_is_a_statement_may_become_statements() -> None:
    changed = applied("ledger:Ledger.clear", "self.heap.clear()", "for one in self.heap:\n    one.close()")
    assert "self.count -= 1 for one in self.heap: one.close() def take" in line(changed)


def test_without_new_code_it_is_removed() -> None:
    changed = applied("ledger:Ledger.clear", "self.heap.clear()", "")
    assert "def clear(self): self.count -= 1 def take" in line(changed)


def test_a_body_of_which_nothing_is_left_passes() -> None:
    assert applied("ledger:take", "return 'taken'", "").endswith("def take():\n    pass")


def test_it_is_looked_for_in_the_symbol_alone() -> None:
    assert Replacement("ledger:Ledger.clear", "self.count -= 1", "").count(SOURCE) == 1
    assert Replacement("ledger:Ledger", "self.count -= 1", "").count(SOURCE) == 2
    assert Replacement("ledger:take", "self.count -= 1", "").count(SOURCE) == 0


@pytest.mark.parametrize("old", ["self.count -= 1", "self.nothing"])
def test_it_must_be_there_once(old: str) -> None:
    with pytest.raises(LookupError, match="times in ledger:Ledger, not once"):
        applied("ledger:Ledger", old, "pass")


@pytest.mark.parametrize("qualname", ["Ledger.taken", "Book.take", "gone"])
def test_the_symbol_must_be_there(qualname: str) -> None:
    with pytest.raises(LookupError, match="is defined 0 times"):
        applied(f"ledger:{qualname}", "self.count -= 1", "")


def test_part_of_a_statement_cannot_become_a_statement() -> None:
    with pytest.raises(LookupError):
        applied("ledger:Ledger.take", "self.heap[0] < upto", "return")


@pytest.mark.parametrize(("old", "count"), [("1", 1), ("True", 0), ("1.0", 0)])
def test_constants_of_another_type_differ(old: str, count: int) -> None:
    assert Replacement("ledger:Ledger.clear", old, "2").count(SOURCE) == count


def test_the_path_of_the_module() -> None:
    assert Replacement("source.commits:CommitEvidence.planned", "x", "").module == "source/commits.py"
