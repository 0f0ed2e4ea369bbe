"""README.md, CONTRIBUTING.md, SECURITY.md and docs/ say what the code says."""

from __future__ import annotations

import ast
import importlib
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import releases
from broker_settings import SETTINGS, Setting
from reference_page import MODULES, REFERENCE, pages
from releases import ENVIRONMENTS, MODES
from support.pages import README, programs
from support.soak import found

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


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.shown_by)
def test_a_setting_of_a_broker_is_run_by_a_test(setting: Setting) -> None:
    path, name = setting.shown_by.split("::")
    assert name in names_of(ROOT / "tests" / path)


@cache
def names_of(module: Path) -> set[str]:
    """What a module defines at its top."""
    body = ast.parse(text_of(module)).body
    made = {one.name for one in body if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    assigned = (target for one in body if isinstance(one, ast.Assign) for target in one.targets)
    return made | {target.id for target in assigned if isinstance(target, ast.Name)}


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


def test_the_program_of_the_reference_uses_nothing_else() -> None:
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


def code_lines(text: str) -> int:
    """How many lines of a module have code: no blank ones, no comments, no docstrings."""
    between = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line
        for one in tokens
        if one.type not in {*between, tokenize.ENDMARKER}
        for line in range(one.start[0], one.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= {*range(node.lineno, (node.end_lineno or 0) + 1)}
    return len(lines)


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
        assert (
            named - {f"{module}:{name}" for module in modules for name in top_names(tree_of(module))} == set()
        )

    def test_is_short(self) -> None:
        assert len(text_of(self.PAGE).split()) <= 1_200

    def test_each_room_is_in_it_and_about_as_large_as_it_says(self) -> None:
        rooms = re.findall(r"^- (.+) \(([\d,]+)\): .", section(self.PAGE, "Rooms"), re.MULTILINE)
        sizes = {part.relative_to(PACKAGE).parts[0].removesuffix(".py"): 0 for part in PACKAGE.rglob("*.py")}
        for path in PACKAGE.rglob("*.py"):
            sizes[path.relative_to(PACKAGE).parts[0].removesuffix(".py")] += code_lines(text_of(path))
        said = {tuple(re.findall(r"`(\w+)`", names)): int(size.replace(",", "")) for names, size in rooms}
        others = sizes.keys() - {name for names in said for name in names}
        assert all((PACKAGE / f"{name}.py").exists() or name == "_autoload" for name in others)
        there = {names: sum(sizes[name] for name in names or others) for names in said}
        assert {names: size for names, size in there.items() if abs(size - said[names]) > 100} == {}

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
        marks = rows(section(self.PAGE, "Progress marks"))
        table = [name for cells in marks for name in self.named(cells[0])]
        log = Log(DedupIndex())
        marks = [name for name, value in vars(log).items() if type(value) is int]
        assert sorted(table) == sorted(f"receiver.log:Log.{name}" for name in [*marks, "first_held"])
        for name in ("a", "b", "c"):
            log.add(Block(FrameBatch(name.encode(), [1], 0, 0, "1.2"), None))
        log.permit_acks(2)
        log.commit(1)
        values = [getattr(log, name.rpartition(".")[2]) for name in table]
        assert values[1:] == sorted(values[1:]) == [1, 2, 3]


class TestRepeats:
    """What one page tells, no other page tells again, nor the same page: they link to it."""

    # A run of so many words is more than a name or a phrase.
    RUN = 12

    def paragraphs(self, text: str) -> Iterator[list[str]]:
        """The words of each paragraph, list entry and row of a table, without code and targets of links."""
        prose = re.sub(r"```.*?```|^ {4}[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
        prose = re.sub(r"\]\([^)]*\)", "]", prose)
        for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-|]|\d+\.) ?)", prose):
            yield re.findall(r"\w+", paragraph.lower())

    def runs(self, text: str) -> Iterator[str]:
        for words in self.paragraphs(text):
            for begin in range(len(words) - self.RUN + 1):
                yield " ".join(words[begin : begin + self.RUN])

    def test_no_run_of_twelve_words_stands_twice(self) -> None:
        seen: dict[str, str] = {}
        again = []
        pages = [ROOT / f"{name}.md" for name in ("README", "SECURITY", "CONTRIBUTING")]
        for page in (*pages, *sorted((ROOT / "docs").glob("*.md"))):
            for run in self.runs(text_of(page)):
                if run in seen:
                    again.append(f"{page.name} and {seen[run]}: {run}")
                seen.setdefault(run, page.name)
        assert again == []


class TestWordsOfTheContract:
    """They are in order and name what exists."""

    TEXT = section(ROOT / "docs" / "delivery-contract.md", "The words")
    ENTRIES = re.findall(r"^- \*\*(.+?)\*\*((?:.*\n(?!- ))*.*)", TEXT, re.MULTILINE)

    def test_entries_are_sorted_and_unique(self) -> None:
        words = [word for word, _ in self.ENTRIES]
        assert len(words) > 20
        assert words == sorted(set(words), key=str.lower)

    def test_an_entry_has_two_sentences_at_most(self) -> None:
        for word, text in self.ENTRIES:
            assert 1 <= len(re.findall(r"[.](?=\s|$)", text)) <= 2, word

    def test_classes_that_it_names_exist(self) -> None:
        trees = [ast.parse(text_of(path)) for path in PACKAGE.rglob("*.py")]
        classes = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        assert classes >= set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`", self.TEXT))


class TestSecurity:
    """The threats of SECURITY.md: every test that it names is there."""

    TESTS = ROOT / "tests"
    TEXT = text_of(ROOT / "SECURITY.md")

    def test_what_it_names_is_there(self) -> None:
        named = sorted(set(re.findall(r"`([\w/]+\.py(?:::\w+)*)`", self.TEXT)))
        assert len(named) > 15
        for one in named:
            path, _, name = one.partition("::")
            assert (self.TESTS / path).is_file(), one
            assert not name or name.replace("::", ".") in top_names(ast.parse(text_of(self.TESTS / path))), (
                one
            )

    def test_a_threat_that_nothing_stops_says_so(self) -> None:
        rows = [line.split("|")[1:-1] for line in self.TEXT.splitlines() if line.startswith("|")]
        threats = [row for row in rows if len(row) == 4 and row[0].strip() not in ("who", "---")]
        assert len(threats) > 15
        for _, wish, stops, shown in threats:
            assert shown.strip() or "**" in stops, wish


def test_the_page_shows_every_environment_without_a_failure() -> None:
    # `newest` has any number.
    lines = found("matrix", releases.PAGE).splitlines()
    shown = [line.strip("| ").split(" | ") for line in lines if line.startswith("| 4")]
    for (spark, python, *results), environment in zip(shown, ENVIRONMENTS, strict=True):
        assert environment.spark == "newest" or spark.startswith(f"{environment.spark}.")
        assert python.startswith(f"{environment.python}.")
        assert len(results) == len(MODES)
        assert all(re.fullmatch(r"\d\d+ passed(, \d+ skipped)?", result) for result in results)


def test_the_page_shows_the_notebooks_on_every_release_of_spark() -> None:
    ran = re.findall(r"(\d+) of (\d+)(.*?) on ([\d.]+)[;.]", found("notebooks", releases.PAGE))
    released = {environment.spark for environment in ENVIRONMENTS} - {"newest"}
    assert len(ran) == len(released) + 1
    assert {spark.rpartition(".")[0] for *_, spark in ran} >= released
    assert all(passed == of and not failed for passed, of, failed, _ in ran)


def every_module() -> list[str]:
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return [".".join(path.parts) for path in paths]


@cache
def tree_of(module: str) -> ast.Module:
    path = PACKAGE / (module.replace(".", "/") + ".py")
    return ast.parse(text_of(path)) if path.exists() else ast.Module([], [])


def top_names(tree: ast.Module) -> Iterator[str]:
    """Functions, classes, and the members of classes."""
    for node in tree.body:
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
