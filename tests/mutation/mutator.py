"""Small changes to a module's source, one at a time, that its tests ought to notice.

Not changed, because nothing would be learned: annotations, docstrings, decorators, assertions, what error
messages say, ``__all__``, numbers and texts that are assigned at module level (sizes that only tune), and
False, which None could stand for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Mutant", "mutants_of"]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "True": "False"}
LEFT_ALONE = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)
NOT_VISITED = {"annotation", "returns", "decorator_list", "bases", "keywords"}


@dataclass(frozen=True)
class Mutant:
    """One change. ``identity`` names it without line numbers, so that it survives edits elsewhere."""

    path: Path
    identity: str
    number: int

    def source(self) -> str:
        """The module with the change."""
        tree = _tree(self.path)
        owner, field, index, _, new, _ = list(_sites(tree, ""))[self.number]
        _put(owner, field, index, new)
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(path: Path, name: str) -> list[Mutant]:
    """Every mutant of the module at ``path``, whose identities begin with ``name``."""
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for number, (_, _, _, old, new, where) in enumerate(_sites(_tree(path), "")):
        before, after = _shown(old), _shown(new)
        identity = f"{name}:{where or '<module>'}: {before} -> {after}"
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] > 1:
            identity = f"{identity} #{seen[identity]}"
        found.append(Mutant(path, identity, number))
    return found


Site = tuple[ast.AST, str, "int | None", ast.AST, ast.AST, str]


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _put(owner: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(owner, field, node)
    else:
        getattr(owner, field)[index] = node


def _shown(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(node)).splitlines()
    return text[0] if len(text) == 1 else f"{text[0]} ..."


def _sites(node: ast.AST, where: str) -> Iterator[Site]:
    """Every place below ``node`` with every replacement for what stands there."""
    for field, value in ast.iter_fields(node):
        if field in NOT_VISITED and not isinstance(node, ast.Call):
            continue
        children: list[tuple[int | None, Any]] = (
            list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        )
        for index, child in children:
            if isinstance(child, ast.AST) and not _left_alone(child, where):
                inner = f"{where}.{child.name}".lstrip(".") if isinstance(child, _NAMED) else where
                yield from ((node, field, index, child, new, inner) for new in _replacements(child))
                yield from _sites(child, inner)


_NAMED = (ast.FunctionDef, ast.ClassDef)


def _left_alone(node: ast.AST, where: str) -> bool:
    if isinstance(node, LEFT_ALONE):
        return True
    if isinstance(node, ast.Assign | ast.AnnAssign) and not where:
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield ast.Compare(node.left, [COMPARISONS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for place in range(len(node.values)):
            rest = node.values[:place] + node.values[place + 1 :]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node)
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        yield ast.Name(NAMES[node.id], ast.Load())
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    else:
        yield from _other_statements(node)


def _other_constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value:
            yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 2)
    elif isinstance(value, str | bytes) and value:
        yield ast.Constant(value[:-1] + ("~" if isinstance(value, str) else b"~"))


def _other_statements(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If | ast.While):
        test = ast.UnaryOp(ast.Not(), node.test)
        yield type(node)(test, node.body, node.orelse)
        if isinstance(node, ast.If):
            yield ast.If(ast.Constant(False), node.body, node.orelse)
    elif isinstance(node, ast.Return) and node.value is not None and not _says_no(node.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Expr | ast.AugAssign):
        yield ast.Pass()
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and not _says_no(node.value):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield ast.Assign(targets, ast.Constant(None), lineno=node.lineno)
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()


def _says_no(node: ast.AST) -> bool:
    """None would say the same."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)
