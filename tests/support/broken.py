"""Copies of the package with one place broken, and tests that are run on them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spark_stomp

TESTS = Path(__file__).parents[1]
PACKAGE = Path(spark_stomp.__file__).parent
# Copied once: pytest changes it while threads run the tests.
_ENVIRONMENT = dict(os.environ)


@dataclass(frozen=True)
class Broken:
    """``rule`` is broken, and ``test`` fails, once ``old`` is replaced by ``new`` in ``symbol``.

    ``old`` is an expression, or statements that follow each other in one body; ``new`` is the same, or
    statements if ``old`` is all of a statement. Without ``new`` the statements are removed. How the code is
    laid out does not matter.
    """

    rule: str
    symbol: str
    old: str
    new: str
    test: str

    def __str__(self) -> str:
        return f"{self.rule} {self.test.rpartition('::')[2]}"

    @property
    def module(self) -> str:
        """The path of the module that is changed."""
        return self.symbol.partition(":")[0].replace(".", "/") + ".py"

    def apply(self, source: str) -> str:
        """The source of the module with ``new``; LookupError unless ``old`` is there exactly once."""
        tree = ast.parse(source)
        node: Any = tree
        for name in self.symbol.partition(":")[2].split("."):
            (node,) = (child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == name)
        old, new = ast.parse(self.old).body, ast.parse(self.new).body
        expressions = [
            body[0].value for body in (old, new) if len(body) == 1 and isinstance(body[0], ast.Expr)
        ]
        count = (
            _replace(node, *([one] for one in expressions))
            if len(expressions) == 2
            else _replace(node, old, new)
        )
        if count != 1:
            raise LookupError(f"found {count} times in {self.symbol}, not once: {self.old}")
        return ast.unparse(ast.fix_missing_locations(tree))


def _replace(node: ast.AST, old: list[Any], new: list[Any]) -> int:
    """Replace ``old`` wherever it is below ``node``; returns how often that was."""
    count = 0
    for field, value in ast.iter_fields(node):
        parts = value if isinstance(value, list) else [value]
        count += sum(_replace(part, old, new) for part in parts if isinstance(part, ast.AST))
        for place in reversed(range(len(parts) - len(old) + 1)):
            if _shapes(parts[place : place + len(old)]) == _shapes(old):
                parts[place : place + len(old)] = new
                count += 1
        if parts is not value:
            setattr(node, field, parts[0])
        elif field == "body" and not parts:
            parts.append(ast.Pass())
    return count


def _shapes(nodes: list[Any]) -> list[str]:
    """What is compared: trees without positions."""
    return [ast.dump(node) if isinstance(node, ast.AST) else "" for node in nodes]


def entries(text: str) -> list[Broken]:
    """The entries in ``text``: a rule, ``module:name``, ``| old -> new`` on one line or more, and a test.

    Lines with ``#`` are headings.
    """
    lines = re.sub(r"\n#.*", "", text).strip()
    return [_entry(one) for one in re.split(r"\n(?=[1-9JRS]\.\d)", lines)]


def _entry(text: str) -> Broken:
    rule, symbol, _, code = text.split(None, 3)
    *lines, test = map(str.strip, code.splitlines())
    old, _, new = " ".join(lines).partition("->")
    return Broken(rule, symbol, old.strip(), new.strip(), test)


def run(tests: list[str], folder: Path, *changes: Broken) -> subprocess.CompletedProcess[str]:
    """Run the tests on a copy of the package in ``folder``, with ``changes``."""
    copy = folder / "spark_stomp"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for change in changes:
        module = copy / change.module
        module.write_text(change.apply(module.read_text(encoding="utf-8")), encoding="utf-8")
    path = os.pathsep.join([str(folder), str(TESTS)])
    # Some rules are seen to be broken by waiting in vain.
    environment = {**_ENVIRONMENT, "PYTHONPATH": path, "SPARK_STOMP_TEST_PATIENCE": "10"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile=broken",
    ]
    return subprocess.run(
        [*command, *(str(TESTS / test) for test in tests)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
        cwd=folder,
        check=False,
    )
