"""The wheel: what is in it, and that Spark finds the data source in it by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Run by the Python of a new environment. Nothing is imported but pyspark, and nothing registered.
FIND_SOURCE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
print(spark.read.format("stomp").schema("body string").option("url", "stomp://localhost").load("/queue/a").schema.simpleString())
try:
    spark.read.format("stomp").option("nonsense", 1).load("/queue/a").collect()
except Exception as error:
    print([line for line in str(error).splitlines() if "STOMP_OPTIONS_INVALID" in line][0])
spark.stop()
"""


def run(*command: str | Path, **options: str) -> str:
    """Run to the end within two minutes and return what was printed; fails with what was printed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | options
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=150, env=environment, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources: setuptools leaves its work in the tree it builds from."""
    source = tmp_path_factory.mktemp("source")
    run(
        "cp",
        "-r",
        *(ROOT / name for name in ("spark_stomp", "pyproject.toml", "README.md", "LICENSE")),
        source,
    )
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, source)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel in it, and all else from this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    executable = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", executable, "install", "--no-deps", "--no-index", wheel)
    # Its own packages come first, so the wheel hides a spark_stomp that may be installed here.
    packages = run(executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(packages) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return executable


def test_every_module_is_in_the_wheel(wheel: Path) -> None:
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "spark_stomp").rglob("*.py")}
    expected = {name.replace("spark_stomp/_autoload/", "pyspark_stomp/") for name in sources}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    assert packed == expected


def test_it_carries_types_and_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "spark_stomp/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)


def test_the_base_package_needs_no_spark(python: Path) -> None:
    parts = ", ".join(f"spark_stomp.{part}" for part in ("protocol", "devbroker", "receiver", "cli"))
    code = f"import sys; sys.modules['pyspark'] = None; import {parts}; print('ok')"
    assert run(python, "-c", code) == "ok\n"


def test_the_command_is_installed(python: Path) -> None:
    assert "devbroker" in run(python.parent / "spark-stomp", "--help")


@pytest.mark.spark
def test_spark_finds_the_source_without_registration(python: Path, tmp_path: Path) -> None:
    script = tmp_path / "find_source.py"
    script.write_text(FIND_SOURCE, encoding="utf-8")
    schema, error = run(python, script, PYSPARK_PYTHON=str(python)).splitlines()
    assert schema == "struct<body:string>"
    assert "nonsense is no option" in error
