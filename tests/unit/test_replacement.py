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


TWO = """
    taken.append(self.heap.pop(0))
    self.count -= 1
"""


@pytest.mark.parametrize(
    ("qualname", "old", "new", "then"),
    [
        ("Ledger.take", "self.heap[0] < upto", "True", "while self.heap and True:"),
        # How it is laid out does not matter.
        ("take", "(  # a comment\n  'taken'\n)", "'given'", "return 'given'"),
        ("Ledger.take", TWO, "break", "while self.heap and self.heap[0] < upto: break return taken"),
        ("Ledger.clear", "self.heap.clear()", "one()\ntwo()", "self.count -= 1 one() two() def take"),
        # It is looked for in the symbol alone.
        ("Ledger.clear", "self.count -= 1", "", "def clear(self): self.heap.clear()"),
        ("take", "return 'taken'", "", "def take(): pass"),
    ],
)
def test_code_is_replaced(qualname: str, old: str, new: str, then: str) -> None:
    changed = Replacement(f"ledger:{qualname}", old, new).apply(SOURCE)
    compile(changed, "ledger", "exec")
    assert then in " ".join(changed.split())


@pytest.mark.parametrize(
    ("qualname", "old", "new"),
    [
        ("Ledger", "self.count -= 1", "pass"),
        ("Ledger", "self.nothing", "pass"),
        ("gone", "self.count -= 1", "pass"),
        # Part of a statement cannot become a statement.
        ("Ledger.take", "self.heap[0] < upto", "return"),
        # A constant of another type differs.
        ("Ledger.clear", "True", "2"),
    ],
)
def test_what_is_not_there_once_is_an_error(qualname: str, old: str, new: str) -> None:
    with pytest.raises(LookupError):
        Replacement(f"ledger:{qualname}", old, new).apply(SOURCE)
