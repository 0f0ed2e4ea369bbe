"""spark_stomp.spark.versions: the one place that knows what differs between releases of Spark."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.release import spark_release

from spark_stomp.errors import UnsupportedError
from spark_stomp.spark import versions
from spark_stomp.spark.versions import release, require_supported

PACKAGE = Path(__file__).resolve().parents[3] / "spark_stomp"


def test_what_this_release_has() -> None:
    assert (spark_release() >= (4, 2)) == versions.ADMISSION_CONTROL
    assert (spark_release() >= (4, 1)) == versions.ARROW_STREAM_WRITER


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("4.0.1", (4, 0)), ("4.10.0.dev1", (4, 10)), ("4.1.0+databricks.17", (4, 1)), ("unknown", (4, 0))],
)
def test_numbers(version: str, numbers: tuple[int, int]) -> None:
    assert release(version) == numbers
    require_supported(version)


def test_an_old_spark_is_refused_in_a_sentence() -> None:
    with pytest.raises(UnsupportedError, match=r"PySpark 3\.5\.1.*needs 4\.0"):
        require_supported("3.5.1")


def test_nothing_else_asks_for_the_release() -> None:
    def asks(path: Path) -> bool:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        guards = [node for node in ast.walk(tree) if isinstance(node, ast.Try) and imports_pyspark(node)]
        return "__version__" in names or bool(guards)

    found = {path.name for path in PACKAGE.rglob("*.py") if asks(path)}
    assert found == {"versions.py"}


def imports_pyspark(guard: ast.Try) -> bool:
    """Whether a ``try`` looks whether Spark has something, or whether we can have it with this Spark."""
    modules = [node.module or "" for node in ast.walk(guard) if isinstance(node, ast.ImportFrom)]
    return any(module.startswith(("pyspark", "spark_stomp.spark")) for module in modules)
