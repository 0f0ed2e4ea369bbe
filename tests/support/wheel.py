"""The package, built and installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What a release is made of.
_SOURCES = ("spark_stomp", "pyproject.toml", "README.md", "LICENSE")
_METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}
# What setuptools adds to an sdist.
_EGG_INFO = {
    "PKG-INFO",
    "SOURCES.txt",
    "dependency_links.txt",
    "entry_points.txt",
    "requires.txt",
    "top_level.txt",
}


def run(*command: str | Path, timeout: float = 150, **variables: str) -> str:
    """Run to the end within ``timeout`` seconds and return what was printed; fails with what was printed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | variables
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def build(target: Path, version: str | None = None) -> tuple[Path, Path]:
    """The wheel and the sdist that it was made of, in ``target``, which is emptied first.

    They are built from a copy of the sources: setuptools leaves its work in the tree that it builds from.
    ``version`` takes the place of that in the sources.
    """
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as copy:
        run("cp", "-r", *(ROOT / name for name in _SOURCES), copy)
        if version is not None:
            project = Path(copy, "pyproject.toml")
            text = re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', project.read_text("utf-8"))
            project.write_text(text, "utf-8")
        # Without --wheel it builds the sdist, and the wheel from the sdist alone.
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, copy)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def wrong_content(wheel: Path, sdist: Path) -> dict[str, set[str]]:
    """By the name of each file: what is in only one of it and the list of what belongs there."""
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "spark_stomp").rglob("*.py")}
    modules.add("spark_stomp/py.typed")
    information = f"spark_stomp-{version_of(wheel)}.dist-info"
    in_wheel = {name.replace("spark_stomp/_autoload/", "pyspark_stomp/") for name in modules}
    in_wheel |= {f"{information}/{name}" for name in _METADATA}
    in_sdist = modules | {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    in_sdist |= {f"spark_stomp.egg-info/{name}" for name in _EGG_INFO}
    with zipfile.ZipFile(wheel) as archive, tarfile.open(sdist) as packed:
        files = {one.name.partition("/")[2] for one in packed.getmembers() if one.isfile()}
        found = {wheel.name: in_wheel ^ set(archive.namelist()), sdist.name: in_sdist ^ files}
    return {name: names for name, names in found.items() if names}


def environment(folder: Path, package: Path) -> Path:
    """The interpreter of a new environment with the package in it, and all else from this one."""
    venv.create(folder, symlinks=True)
    executable = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", executable, "install", "--no-deps", "--no-index")
    # Its own packages come first, so the package hides a spark_stomp that may be installed here.
    packages = run(executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(packages) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    # The one that is installed here would satisfy pip otherwise.
    run(*pip, "--no-build-isolation", "--ignore-installed", package)
    return executable
