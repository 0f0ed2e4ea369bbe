"""The structure of the package: which part may import which, and what may appear where."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from spark_stomp.brokers import DIALECTS

# The package as it lies here, not as it may be installed.
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "spark_stomp"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Each part may import the parts in the rows above its own, and itself. options stands above protocol and
# brokers for their limits, names and headers, which are declared once so; neither knows anything of options.
LAYERS = (
    ("quoting",),
    ("errors", "logs"),
    ("deadline", "frame_batch", "threads"),
    ("protocol",),
    ("brokers",),
    ("options", "columns", "files"),
    ("transport", "arrow", "devbroker", "journal"),
    ("frameserver",),
    ("receiver",),
    ("status",),
    ("source", "sink"),
    ("spark",),
    ("commands",),
    ("_autoload", "__main__", "__init__"),
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}

SOCKET_PARTS = {"transport", "devbroker", "frameserver"}
SOCKETS = {"socket", "ssl", "selectors", "socketserver", "asyncio"}
# It sets an option of Spark's socket.
SEND_NOTHING = {PACKAGE / "spark" / "worker_tuning.py"}
# Behind an extra, and imported only when a URL, a command or, for Spark's encoding of VARIANT, a schema asks.
EXTRAS = {
    PACKAGE / "transport" / "websocket.py": {"websockets"},
    PACKAGE / "arrow" / "json_values.py": {"pyspark"},
} | {
    PACKAGE / "commands" / f"{name}.py": {"rich"} for name in ("messages", "probe", "screen", "status", "why")
}
# Modules with an `__all__`, besides `_autoload`, which needs Spark.
NAMES = ("__init__", "devbroker/__init__", "status/__init__", "errors", "devbroker/pytest_plugin")
LISTING = [PACKAGE / f"{name}.py" for name in NAMES]


def part_of(path: Path) -> str:
    """errors.py -> errors; protocol/frames.py -> protocol."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imports(path: Path) -> frozenset[str]:
    """The full names of everything a module imports anywhere in it, also inside functions."""
    return frozenset(name for node in ast.walk(tree_of(path)) for name in imported(node, path))


def imported(node: ast.AST, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
        module = ".".join((*base, *filter(None, [node.module])))
        yield from (f"{module}.{alias.name}" for alias in node.names)


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def own_parts(path: Path) -> set[str]:
    """The parts of this package that a module imports, its own left out."""
    names = (name.split(".") for name in imports(path) - {"spark_stomp.__version__"})
    parts = {rest[0] for head, *rest in names if head == "spark_stomp" and rest}
    return {part if part in RANK else "__init__" for part in parts} - {part_of(path)}


def modules_imported(path: Path) -> set[str]:
    """The modules of this package that a module imports, also for types alone; fronts are seen through."""
    names = {name for name in imports(path) if name.startswith("spark_stomp.")}
    return {found for name in names if (found := module_of(name)) is not None} - {dotted(path)}


def module_of(name: str) -> str | None:
    """The module that defines what is imported as ``name``; None if that is a package's front itself."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        path = ROOT.joinpath(*parts[:end])
        if path.with_suffix(".py").exists():
            return ".".join(parts[:end])
        front = path / "__init__.py"
        if front.exists() and end < len(parts):
            exported = {one.rpartition(".")[2]: one for one in imports(front)}
            return module_of(exported[parts[end]]) if parts[end] in exported else None
    return None


def chosen_by_name(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """What is compared with, or looked up by, the name of a dialect."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            parts = node.args[:1]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        else:
            continue
        yield from (text for part in parts for text in [ast.unparse(part)] if is_name_of(part, text, names))


def is_name_of(part: ast.expr, text: str, names: set[str]) -> bool:
    return text.endswith("dialect.name") or (isinstance(part, ast.Constant) and part.value in names)


def heads(path: Path) -> set[str]:
    """The top-level packages that a module imports."""
    return {name.split(".")[0] for name in imports(path)}


def offenders(wrong: Callable[[Path], object], paths: Iterable[Path] = MODULES) -> dict[str, object]:
    """What ``wrong`` finds, by module, where it finds anything."""
    found = {str(path.relative_to(ROOT)): wrong(path) for path in paths}
    return {name: what for name, what in found.items() if what}


class TestImports:
    def test_every_part_has_its_place(self) -> None:
        assert {part_of(path) for path in MODULES} <= RANK.keys()

    def test_the_map_of_the_package_names_every_part_by_layer(self) -> None:
        named = re.findall(r"^``(\w+)``", ast.get_docstring(tree_of(PACKAGE / "__init__.py")) or "", re.M)
        assert sorted(named) == sorted(RANK.keys() - {"__init__"})
        assert named == sorted(named, key=lambda part: RANK[part])

    def test_they_point_one_way(self) -> None:
        def upwards(path: Path) -> set[str]:
            return {part for part in own_parts(path) if RANK[part] >= RANK[part_of(path)]}

        assert offenders(upwards) == {}

    def test_frameserver_and_journal_know_nothing_of_who_uses_them(self) -> None:
        stores = [path for path in MODULES if part_of(path) in ("frameserver", "journal")]
        assert len(stores) > 3
        assert offenders(lambda path: own_parts(path) & {"receiver", "source", "sink"}, stores) == {}

    def test_no_module_imports_itself_over_others(self) -> None:
        # A package's front only re-exports: who imports from it imports the module that has the name.
        imported_by = {dotted(path): modules_imported(path) for path in MODULES if path.name != "__init__.py"}
        order = TopologicalSorter(imported_by)
        order.prepare()  # raises CycleError, with the circle

    def test_pyspark_only_where_spark_is_spoken_to(self) -> None:
        elsewhere = [path for path in MODULES if part_of(path) != "spark"]
        spoken = {"pyspark", "py4j"}
        assert offenders(lambda path: (heads(path) & spoken) - EXTRAS.get(path, set()), elsewhere) == {}

    def test_sockets_only_where_bytes_move(self) -> None:
        where = [path for path in MODULES if part_of(path) in SOCKET_PARTS or path in SEND_NOTHING]
        elsewhere = [path for path in MODULES if path not in where]
        assert offenders(lambda path: heads(path) & SOCKETS, elsewhere) == {}

    def test_the_protocol_needs_no_clock_no_thread_no_socket(self) -> None:
        pure = sys.stdlib_module_names - {"socket", "ssl", "selectors", "asyncio", "threading", "time"}
        protocol = [path for path in MODULES if part_of(path) == "protocol"]
        assert len(protocol) > 5
        assert offenders(lambda path: heads(path) - pure - {"spark_stomp"}, protocol) == {}
        assert offenders(lambda path: own_parts(path) - {"errors", "quoting"}, protocol) == {}

    def test_a_fact_of_one_broker_is_in_its_dialect(self) -> None:
        # The name of a dialect is for people, and for what is written down; nobody chooses by it.
        names = {dialect.name for dialect in DIALECTS}
        elsewhere = [path for path in MODULES if part_of(path) != "brokers"]
        assert offenders(lambda path: [*chosen_by_name(tree_of(path), names)], elsewhere) == {
            # A command, and a value of the option ``broker``.
            "spark_stomp/commands/main.py": ["'devbroker'"],
            "spark_stomp/options/rules.py": ["'generic'"],
        }

    def test_a_choice_by_name_is_found(self) -> None:
        for text in (
            "dialect.name == other",
            "self.dialect.name in known",
            "kind != 'artemis'",
            "words = {'activemq': 1}",
            "words.get(look.dialect.name, '')",
            "words[dialect.name]",
        ):
            assert [*chosen_by_name(ast.parse(text), {"activemq", "artemis"})], text
        assert not [*chosen_by_name(ast.parse("print(dialect.name, 'artemis')"), {"artemis"})]

    def test_the_base_dependencies_are_enough_without_spark(self) -> None:
        enough = {"spark_stomp", "pyarrow", "numpy", "cryptography"} | sys.stdlib_module_names
        base = [path for path in MODULES if part_of(path) != "spark" and path.stem != "pytest_plugin"]
        assert offenders(lambda path: heads(path) - enough - EXTRAS.get(path, set()), base) == {}


class TestModules:
    def test_say_what_they_are_for(self) -> None:
        assert offenders(lambda path: not ast.get_docstring(tree_of(path))) == {}

    def test_play_one_role(self) -> None:
        def too_long(path: Path) -> int:
            lines = len(path.read_text(encoding="utf-8").splitlines())
            return lines if lines >= 500 else 0

        assert offenders(too_long) == {}

    def test_have_functions_that_need_no_scrolling(self) -> None:
        def long_functions(path: Path) -> list[str]:
            functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)]
            return [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= 50]

        assert offenders(long_functions) == {}

    def test_export_what_they_have(self) -> None:
        def missing(path: Path) -> set[str]:
            module = importlib.import_module(dotted(path))
            return {name for name in module.__all__ if not hasattr(module, name)}

        # A name that moved away would only be missed by a user. Those of the package itself need Spark.
        assert offenders(missing, LISTING[1:]) == {}

    def test_list_what_they_export_only_if_they_are_for_users(self) -> None:
        """Elsewhere a name that begins with an underscore is the module's own, and every other one is not.

        The front of a component, its ``__init__``, imports what other components use.
        """

        def lists(path: Path) -> bool:
            names = (node.targets[0] for node in tree_of(path).body if isinstance(node, ast.Assign))
            return any(isinstance(name, ast.Name) and name.id == "__all__" for name in names)

        assert {path for path in MODULES if lists(path)} == {*LISTING, PACKAGE / "_autoload" / "__init__.py"}


class TestTree:
    def test_nothing_refers_to_a_place_outside(self) -> None:
        # Written so that this file does not find itself.
        outside = re.compile(r"(?<![\w.}])/(?:work|home|root|Users|farm)/|" + r"\.\./" + "shared")
        patterns = (
            "*",
            ".ci/*",
            "conf/*",
            "docs/*.md",
            "notebooks/*",
            "spark_stomp/**/*.py",
            "tests/**/*.py",
        )
        texts = [path for pattern in patterns for path in ROOT.glob(pattern) if is_text(path)]
        assert len(texts) > 50
        assert offenders(lambda path: outside.findall(path.read_text(encoding="utf-8")), texts) == {}

    def test_the_top_level_is_what_it_should_be(self) -> None:
        made = {
            "build",
            "dist",
            "artifacts",
            "htmlcov",
            "spark-warehouse",
            "metastore_db",
            "spark_stomp.egg-info",
        }
        folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
        assert folders - made == {"conf", "docs", "findings", "notebooks", "spark_stomp", "tests", "tools"}


def is_text(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".coverage") and path.name != "derby.log"
