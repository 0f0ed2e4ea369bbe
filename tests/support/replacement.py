"""Code that is found by the name of what it stands in and by its syntax tree, and replaced.

Indentation, line breaks, comments and quotes do not matter: reformatting a module changes nothing here, and
what renames a name in the code can rename it in the snippets as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

__all__ = ["Replacement"]


@dataclass(frozen=True)
class Replacement:
    """``old`` becomes ``new`` inside ``symbol``.

    ``symbol`` is ``package.module:Class.method``, without what all modules have in common. ``old`` is an
    expression, or statements that follow each other in one body; ``new`` is the same, or statements where
    ``old`` is all of a statement. Without ``new`` the statements are removed.
    """

    symbol: str
    old: str
    new: str

    @property
    def module(self) -> str:
        """The path of the module."""
        return self.symbol.partition(":")[0].replace(".", "/") + ".py"

    @property
    def qualname(self) -> str:
        return self.symbol.partition(":")[2]

    def count(self, source: str) -> int:
        """How often ``old`` is there; LookupError if ``symbol`` is not."""
        return len(list(self._places(ast.parse(source))))

    def apply(self, source: str) -> str:
        """The source of the module with ``new``; LookupError unless ``old`` is there exactly once."""
        tree = ast.parse(source)
        places = list(self._places(tree))
        if len(places) != 1:
            raise LookupError(f"found {len(places)} times in {self.symbol}, not once: {self.old}")
        places[0].put(self._new())
        return ast.unparse(ast.fix_missing_locations(tree))

    def _new(self) -> list[ast.stmt]:
        return ast.parse(dedent(self.new)).body

    def _places(self, tree: ast.Module) -> Iterator[_Place]:
        old, new = ast.parse(dedent(self.old)).body, self._new()
        if not old:
            raise ValueError(f"nothing to look for in {self.symbol}")
        expressions = [_expression(body) for body in (old, new)]
        for place in _places(_definition(tree, self.qualname), len(old)):
            if all(expressions):
                if place.length is None and _shape(place.found) == _shape(expressions[0]):
                    yield place
            elif place.length is not None and _shape(place.found) == _shape(old):
                yield place


@dataclass(frozen=True)
class _Place:
    """``length`` statements of a body, from ``index`` on; or one expression, with ``length`` None."""

    owner: ast.AST
    field: str
    index: int | None
    length: int | None = None

    @property
    def found(self) -> Any:
        value = getattr(self.owner, self.field)
        if self.index is None:
            return value
        return value[self.index] if self.length is None else value[self.index : self.index + self.length]

    def put(self, new: list[ast.stmt]) -> None:
        value = getattr(self.owner, self.field)
        if self.length is not None and self.index is not None:
            value[self.index : self.index + self.length] = new
            if not value:
                value.append(ast.Pass())
        elif self.index is None:
            setattr(self.owner, self.field, _expression(new))
        else:
            value[self.index] = _expression(new)


def _places(node: ast.AST, length: int) -> Iterator[_Place]:
    """Every expression below ``node``, and all ``length`` statements that follow each other there."""
    for field, value in ast.iter_fields(node):
        children: list[tuple[int | None, Any]]
        if not isinstance(value, list):
            children = [(None, value)]
        else:
            children = list(enumerate(value))
            if value and isinstance(value[0], ast.stmt):
                for begin in range(len(value) - length + 1):
                    yield _Place(node, field, begin, length)
        for index, child in children:
            if isinstance(child, ast.expr):
                yield _Place(node, field, index)
            if isinstance(child, ast.AST):
                yield from _places(child, length)


def _definition(tree: ast.Module, qualname: str) -> ast.AST:
    node: ast.AST = tree
    for name in qualname.split("."):
        found = [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and child.name == name
        ]
        if len(found) != 1:
            raise LookupError(f"{name} of {qualname} is defined {len(found)} times, not once")
        node = found[0]
    return node


def _expression(body: list[ast.stmt]) -> ast.expr | None:
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None


def _shape(node: Any) -> Any:
    """What is compared: the tree without positions, and without whether a name is read or assigned."""
    if isinstance(node, list):
        return [_shape(child) for child in node]
    if not isinstance(node, ast.AST):
        return type(node), node
    fields = {name: _shape(value) for name, value in ast.iter_fields(node) if name not in _IGNORED}
    return type(node), fields


_IGNORED = {"ctx", "kind", "type_comment"}
