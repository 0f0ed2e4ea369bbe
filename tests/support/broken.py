"""Copies of the package with one function broken, and tests that are run on them."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import spark_stomp

TESTS = Path(__file__).parents[1]
PACKAGE = Path(spark_stomp.__file__).parent
# Copied once: pytest changes it while threads run the tests.
_ENVIRONMENT = dict(os.environ)


@dataclass(frozen=True)
class Mutant:
    """A function or method of the package, ``module:name``, and what is changed in it.

    ``change`` is one of these:

    ========================  =====================================================================
    ``drops NAME``            the statements that call NAME, or give it a value, are left out
    ``always NAME``           each condition, or part of one, that has NAME in it is true
    ``never NAME``            is false
    ``shifts NAME``           what NAME is set to, or called with first, is one more
    ``without NAME``          a call of NAME gives its first argument
    ``puts VALUE for NAME``   the value of NAME is VALUE, an expression
    ``returns VALUE``         the function does nothing else
    ========================  =====================================================================

    NAME is the end of what stands in the code: ``room`` or ``_inbox.room`` for ``self._inbox.room()``.
    """

    symbol: str
    change: str

    def __str__(self) -> str:
        return f"{self.symbol.partition(':')[2]} {self.change}"

    @property
    def module(self) -> str:
        """The path of the module that is changed."""
        return self.symbol.partition(":")[0].replace(".", "/") + ".py"

    def apply(self, source: str) -> str:
        """The source of the module, broken; LookupError if there is nothing to change."""
        tree = ast.parse(source)
        node: Any = tree
        for name in self.symbol.partition(":")[2].split("."):
            (node,) = (child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == name)
        kind, _, rest = self.change.partition(" ")
        before = ast.dump(node)
        _KINDS[kind](node, rest)
        if ast.dump(node) == before:
            raise LookupError(f"{self.symbol} has nothing that this changes: {self.change}")
        return ast.unparse(ast.fix_missing_locations(tree))


def _is(node: ast.AST, name: str) -> bool:
    """Whether this is the variable or attribute ``name``."""
    return isinstance(node, ast.Name | ast.Attribute) and f".{ast.unparse(node)}".endswith(f".{name}")


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_is(one, name) for one in ast.walk(node))


def _replace(node: ast.AST, new: Callable[[Any], Any]) -> None:
    """Ask for each node below ``node`` what stands there instead, the innermost first; None leaves it out."""
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            _replace(value, new)
            setattr(node, field, new(value))
        elif isinstance(value, list):
            kept = []
            for one in value:
                if isinstance(one, ast.AST):
                    _replace(one, new)
                    one = new(one)
                    if one is None:
                        continue
                kept.append(one)
            setattr(node, field, kept or [ast.Pass()] * (field == "body"))


def _sets(node: ast.AST, name: str) -> bool:
    """Whether this is an assignment, or a keyword argument, that gives ``name`` a value."""
    if isinstance(node, ast.keyword):
        return node.arg == name
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return False
    return any(
        _is(target, name) for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )


def _drops(function: ast.AST, name: str) -> None:
    def new(node: ast.AST) -> Any:
        if isinstance(node, ast.Expr):
            calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
            return None if any(_is(call.func, name) for call in calls) else node
        return None if isinstance(node, ast.stmt) and _sets(node, name) else node

    _replace(function, new)


def _is_always(function: ast.AST, name: str, *, value: bool) -> None:
    """The innermost conditions first; what contains one that was replaced mentions ``name`` no more."""

    def settled(node: Any) -> Any:
        return ast.Constant(value) if _mentions(node, name) else node

    for node in [*ast.walk(function)][::-1]:
        if isinstance(node, ast.BoolOp):
            node.values = [settled(one) for one in node.values]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = settled(node.operand)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            node.test = settled(node.test)
        elif isinstance(node, ast.comprehension):
            node.ifs = [settled(one) for one in node.ifs]
    _replace(function, lambda node: settled(node) if isinstance(node, ast.Compare) else node)


def _shifts(function: ast.AST, name: str) -> None:
    def more(value: Any) -> ast.BinOp:
        return ast.BinOp(value, ast.Add(), ast.Constant(1))

    def new(node: Any) -> Any:
        if isinstance(node, ast.Call) and _is(node.func, name):
            node.args[0] = more(node.args[0])
        elif _sets(node, name):
            node.value = more(node.value)
        return node

    _replace(function, new)


def _without(function: ast.AST, name: str) -> None:
    _replace(
        function, lambda node: node.args[0] if isinstance(node, ast.Call) and _is(node.func, name) else node
    )


def _puts(function: ast.AST, value_for_name: str) -> None:
    value, _, name = value_for_name.rpartition(" for ")

    def new(node: Any) -> Any:
        is_read = isinstance(getattr(node, "ctx", None), ast.Load)
        return ast.parse(value, mode="eval").body if is_read and _is(node, name) else node

    _replace(function, new)


def _returns(function: Any, value: str) -> None:
    function.body = [ast.Return(ast.parse(value, mode="eval").body)]


_KINDS: dict[str, Callable[[ast.AST, str], None]] = {
    "drops": _drops,
    "always": partial(_is_always, value=True),
    "never": partial(_is_always, value=False),
    "shifts": _shifts,
    "without": _without,
    "puts": _puts,
    "returns": _returns,
}


def run(tests: Sequence[str], folder: Path, *changes: Mutant) -> subprocess.CompletedProcess[str]:
    """Run the tests, up to the first that fails, on a copy of the package in ``folder``, with ``changes``."""
    copy = folder / "spark_stomp"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for change in changes:
        module = copy / change.module
        module.write_text(change.apply(module.read_text(encoding="utf-8")), encoding="utf-8")
    # Some rules are seen to be broken by waiting in vain.
    path = os.pathsep.join([str(folder), str(TESTS)])
    environment = {**_ENVIRONMENT, "PYTHONPATH": path, "SPARK_STOMP_TEST_PATIENCE": "10"}
    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=broken"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(str(TESTS / test) for test in tests)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
        cwd=folder,
        check=False,
    )
