"""Wheel and sdist: what is in them, and that Spark finds the data source in them automatically."""

from __future__ import annotations

import ast
import email
import re
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from releases import ENVIRONMENTS
from support.pages import programs
from support.wheel import ROOT, build, environment, run, version_of, wrong_content

# Run by the Python of a new environment. Nothing is imported but pyspark, and nothing registered.
FIND_SOURCE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
print(spark.read.format("stomp").schema("body string").option("url", "stomp://localhost").load("/queue/a").schema.simpleString())
try:
    spark.read.format("stomp").option("nonsense", 1).load("/queue/a").collect()
except Exception as error:
    print(" ".join(str(error).split()))
spark.stop()
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel, and the sdist that it was made of."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: tuple[Path, Path]) -> Path:
    return built[0]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("environment"), wheel)


def test_what_belongs_there_is_in_wheel_and_sdist_and_nothing_else(built: tuple[Path, Path]) -> None:
    assert wrong_content(*built) == {}


def test_what_is_missing_and_what_does_not_belong_there_is_named(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel, sdist = tmp_path / built[0].name, built[1]
    with zipfile.ZipFile(built[0]) as whole, zipfile.ZipFile(wheel, "w") as other:
        for name in whole.namelist():
            if not name.endswith("py.typed"):
                other.writestr(name, b"")
        other.writestr("tests/test_errors.py", b"")
    assert wrong_content(wheel, sdist) == {wheel.name: {"spark_stomp/py.typed", "tests/test_errors.py"}}


def test_the_base_package_needs_no_spark(python: Path) -> None:
    parts = ", ".join(
        f"spark_stomp.{part}" for part in ("devbroker", "source.query", "sink.write", "commands.main")
    )
    code = f"import sys; sys.modules['pyspark'] = None; import {parts}; print('ok')"
    assert run(python, "-c", code) == "ok\n"


def test_the_command_is_installed(python: Path) -> None:
    assert "devbroker" in run(python.parent / "spark-stomp", "--help")


def test_the_sdist_installs_the_same(built: tuple[Path, Path], python: Path, tmp_path: Path) -> None:
    from_sdist = environment(tmp_path, built[1])
    listing = (
        "import importlib.metadata as m; files = m.files('spark-stomp'); "
        "print(*sorted(str(f) for f in files if f.suffix == '.py'), m.version('spark-stomp'))"
    )
    assert run(from_sdist, "-c", listing) == run(python, "-c", listing)
    assert "devbroker" in run(from_sdist.parent / "spark-stomp", "--help")


def test_it_is_the_release_that_the_changelog_names(wheel: Path) -> None:
    (newest,) = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:1]
    assert version_of(wheel) == newest


def test_metadata_has_every_python(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    metadata = email.message_from_bytes(archive.read(name))
    pythons = {environment.python for environment in ENVIRONMENTS}
    classifiers = set(metadata.get_all("Classifier", []))
    assert {f"Programming Language :: Python :: {python}" for python in pythons} <= classifiers
    assert "Typing :: Typed" in classifiers


def test_an_extra_names_what_the_unit_tests_import(wheel: Path) -> None:
    """`make unit` runs without the extras of all tests, so a package that only they have is missing there."""
    name = next(name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("METADATA"))
    required = email.message_from_bytes(zipfile.ZipFile(wheel).read(name)).get_all("Requires-Dist", [])
    extras = [each for each in required if "extra" not in each or re.search(r'"(unit|ws|cli)"$', each)]
    named = {re.split(r"[^\w-]", each)[0].lower() for each in extras}
    distributions = packages_distributions()
    imported = {
        distribution.lower().replace("_", "-")
        for path in (ROOT / "tests/unit").rglob("*.py")
        if not {"spark", "notebooks"} & set(path.parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
        )
        for distribution in distributions.get(str(module).split(".")[0], ())
    }
    assert imported - named <= {"spark-stomp"}


@pytest.mark.soak
def test_a_program_that_uses_the_api_is_typed(python: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (program,) = programs(ROOT / "docs" / "reference.md", "Python API")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(f"{program}\n\nwrong: int = code_of(StompError('x'))\n", "utf-8")
    # From that folder, so that the wheel is looked at and not the sources.
    mypy = f"cd {tmp_path} && {sys.executable} -m mypy --strict --python-executable {python}"
    run("sh", "-c", f"{mypy} program.py")
    with pytest.raises(AssertionError, match="Incompatible types"):
        run("sh", "-c", f"{mypy} wrong.py")


@pytest.mark.spark
def test_spark_finds_the_source_without_registration(python: Path, tmp_path: Path) -> None:
    script = tmp_path / "find_source.py"
    script.write_text(FIND_SOURCE, encoding="utf-8")
    # The driver's goes before the other where Spark looks for sources.
    variables = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
    schema, error = run(python, script, **variables).splitlines()
    assert schema == "struct<body:string>"
    assert "nonsense is not an option" in error
