"""README.md, CONTRIBUTING.md, SECURITY.md and docs/ say what the code says."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from reference_page import MODULES, REFERENCE, pages
from support.pages import README, programs

from spark_stomp import errors
from spark_stomp.errors import StompError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.options import OPTIONS
from spark_stomp.receiver import Block, DedupIndex, Log

ROOT = README.parent
PACKAGE = ROOT / "spark_stomp"
DOCS = sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "index.md")
EVERY_PAGE = [*sorted(ROOT.glob("*.md")), *DOCS, *sorted((ROOT / "tests").rglob("README.md"))]
CODES = {cls.code for name in errors.__all__ if issubclass(cls := getattr(errors, name), StompError)}

each_page = pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def section(page: Path, heading: str) -> str:
    """The text below ``## heading``."""
    return text_of(page).split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of all tables."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|--")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


@pytest.mark.parametrize(("path", "text"), pages().items(), ids=lambda value: getattr(value, "name", ""))
def test_a_generated_page_is_fresh(path: Path, text: str) -> None:
    # `python tools/reference_page.py` writes it.
    assert text_of(path) == text


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]*)(#[^)]*)?\)", text_of(page))
    targets = [(page.parent / path if path else page, anchor[1:]) for path, anchor in links]
    assert [target for target, _ in targets if not target.exists()] == []
    assert [(target, anchor) for target, anchor in targets if anchor and anchor not in anchors(target)] == []


def anchors(page: Path) -> set[str]:
    """What a link may name behind its #: the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_every_option_in_a_code_block_exists(page: Path) -> None:
    blocks = "".join(re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL))
    used = set(re.findall(r"\.option\(\"(\w+)\"", blocks)) - {"path"}  # of parquet
    assert used <= {option.key for option in OPTIONS}


@each_page
def test_every_error_code_exists(page: Path) -> None:
    named = {code for code in re.findall(r"\bSTOMP_[A-Z_]+", text_of(page)) if not code.endswith("_")}
    assert named <= CODES


def test_what_to_take_instead_exists() -> None:
    # The second cell of each row names what this package has.
    table = rows(section(ROOT / "docs" / "start.md", "From stomp.py or Kafka"))
    named = {name for _, cell in table for name in re.findall(r"`([a-z]+[A-Z]\w*)(?:=[^`]*)?`", cell)}
    assert len(named) > 10
    assert named <= {option.key for option in OPTIONS}


class TestReadme:
    def test_leads_to_every_page(self) -> None:
        links = re.findall(r"\]\(([^)#]+)", text_of(README))
        here = {str(page.relative_to(ROOT)) for page in (*DOCS, *ROOT.glob("*.md"))} - {"README.md"}
        assert here <= set(links)

    def test_is_short(self) -> None:
        assert len(text_of(README).splitlines()) <= 120


class TestReference:
    def test_its_program_uses_nothing_else(self) -> None:
        (block,) = programs(REFERENCE, "Python API")
        used = {
            (node.module, alias.name)
            for node in ast.walk(ast.parse(block))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spark_stomp")
            for alias in node.names
        }
        assert used
        assert all(name in importlib.import_module(str(module)).__all__ for module, name in used)
        assert {str(module) for module, _ in used} <= {*MODULES, errors.__name__}


class TestArchitecture:
    PAGE = ROOT / "docs" / "architecture.md"
    # `journal.api:Journal.append`: a module below spark_stomp, and a name in it.
    NAMED = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*):(\w+(?:\.\w+)?)`")

    def named(self, text: str) -> set[str]:
        return {f"{module}:{name}" for module, name in self.NAMED.findall(text)}

    def test_what_it_names_exists(self) -> None:
        named = self.named(text_of(self.PAGE))
        assert len(named) > 50
        modules = {one.partition(":")[0] for one in named}
        assert named - {f"{module}:{name}" for module in modules for name in names_in(module)} == set()

    def test_is_short(self) -> None:
        assert len(text_of(self.PAGE).split()) <= 1_200

    def test_names_nothing_private_but_locks(self) -> None:
        text = text_of(self.PAGE)
        private = {one for one in self.named(text) if re.search(r"[:.]_", one)}
        assert private <= self.named(section(self.PAGE, "Locks"))

    def test_every_lock_of_the_package_is_in_it(self) -> None:
        table = section(self.PAGE, "Locks")
        assert {lock for module in every_module() for lock in locks_in(module)} <= self.named(table)

    def test_every_lock_in_its_table_is_one(self) -> None:
        table = [cells for cells in rows(section(self.PAGE, "Locks")) if cells[0].isdecimal()]
        named = {name for cells in table for name in self.named(cells[1])}
        assert named <= {lock for module in every_module() for lock in locks_in(module)}
        assert [int(cells[0]) for cells in table] == sorted(int(cells[0]) for cells in table)

    def test_every_thread_is_in_it(self) -> None:
        table = rows(section(self.PAGE, "Threads"))
        named = {name for cells in table for name in re.findall(r"`(stomp(?:-[a-z]+)+)", cells[0])}
        assert named == {name for module in every_module() for name in threads_in(module)}

    def test_every_mark_is_in_it_in_order(self) -> None:
        table = [
            name for cells in rows(section(self.PAGE, "Progress marks")) for name in self.named(cells[0])
        ]
        log = Log(DedupIndex())
        marks = [name for name, value in vars(log).items() if type(value) is int]
        assert sorted(table) == sorted(f"receiver.log:Log.{name}" for name in [*marks, "first_held"])
        for name in ("a", "b", "c"):
            log.add(Block(FrameBatch(name.encode(), [1], 0, 0, "1.2"), None))
        log.permit_acks(2)
        log.commit(1)
        values = [getattr(log, name.rpartition(".")[2]) for name in table]
        assert values[1:] == sorted(values[1:]) == [1, 2, 3]


def every_module() -> list[str]:
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return [".".join(path.parts) for path in paths]


@cache
def tree_of(module: str) -> ast.Module:
    path = PACKAGE / (module.replace(".", "/") + ".py")
    return ast.parse(text_of(path)) if path.exists() else ast.Module([], [])


def names_in(module: str) -> Iterator[str]:
    """Functions, classes, and the members of classes."""
    for node in tree_of(module).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{member}" for member in members(node))


def members(node: ast.ClassDef) -> Iterator[str]:
    """Methods, properties, fields, and what is set on ``self``."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef):
            yield child.name
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            yield child.target.id
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner.attr


def locks_in(module: str) -> Iterator[str]:
    """The attributes of ``self`` that are set to a lock or a condition."""
    for node in tree_of(module).body:
        for inner in ast.walk(node):
            if isinstance(node, ast.ClassDef) and isinstance(inner, ast.Assign) and makes_a_lock(inner.value):
                targets = [target for target in inner.targets if isinstance(target, ast.Attribute)]
                yield from (f"{module}:{node.name}.{target.attr}" for target in targets)


def makes_a_lock(value: ast.expr) -> bool:
    called = [ast.unparse(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)]
    return any(name in {"threading.Lock", "threading.RLock", "threading.Condition"} for name in called)


def threads_in(module: str) -> Iterator[str]:
    """How the names of threads begin: strings, or f-strings, like ``stomp-journal``."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.fullmatch(r"(stomp(?:-[a-z]+)+)-?", node.value)
            if found:
                yield found[1]
