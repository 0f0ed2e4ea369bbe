"""The core tests and the notebooks on releases of Spark, classic and over Spark Connect: ``make matrix``.

Each environment has a folder in ``.venv/matrix``, with the wheel in it. Its reports stay there, and what
``docs/reference.md`` says of releases is made of all of them. So each can be run by its name, from
``tests/``::

    PYTHONPATH=../tools python -m releases 4.0-3.10 newest-3.13 --part notebooks

Ends with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from support.soak import put
from support.wheel import ROOT, build, run

PAGE = ROOT / "docs" / "reference.md"
FOLDER = ROOT / ".venv" / "matrix"
# Spark's own variable: a session is one of Spark Connect, to a server that it starts.
MODES = {"classic": {}, "Connect": {"SPARK_REMOTE": "local[2]"}}
_CORE = ["streaming", "-m", "core and not soak"]
# What pytest runs in each part.
PARTS = {**dict.fromkeys(MODES, _CORE), "notebooks": ["test_notebooks.py::test_runs"]}
# The part that needs several releases: one checkpoint goes from the first to the last, and back.
_CHECKPOINTS = "checkpoints"
_INSTALLING, _TESTING = 1_200, 1_800  # seconds


class Environment(NamedTuple):
    """A release of Spark, ``4.0`` or ``newest``, on a release of Python."""

    spark: str
    python: str

    @property
    def name(self) -> str:
        return f"{self.spark}-{self.python}"

    @property
    def folder(self) -> Path:
        return FOLDER / self.name


ENVIRONMENTS = [
    Environment(*name.split("-"))
    for name in ("4.0-3.10", "4.0-3.12", "4.1-3.11", "4.2-3.11", "newest-3.11", "newest-3.13")
]


def interpreter(python: str) -> str | None:
    """A Python of that release that runs and makes environments: on the PATH, or one of pyenv's."""
    check = f"import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '{python}')"
    root = run("pyenv", "root").strip() if shutil.which("pyenv") else "/nowhere"
    of_pyenv = sorted(map(str, Path(root).glob(f"versions/{python}.*/bin/python")))
    for candidate in (f"python{python}", *of_pyenv):
        with contextlib.suppress(OSError):
            if subprocess.run([candidate, "-c", check], capture_output=True, check=False).returncode == 0:
                return candidate
    return None


def install(environment: Environment, base: str, wheel: Path) -> str:
    """The environment, with this wheel and the newest patch of its Spark; returns its Python."""
    executable = environment.folder / "bin" / "python"
    if not executable.exists():
        run(base, "-m", "venv", environment.folder)
    pip = (executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    spark = "" if environment.spark == "newest" else f"=={environment.spark}.*"
    extra = f"spark-stomp[matrix,notebooks] @ {wheel.as_uri()}"
    run(*pip, "--upgrade", extra, f"pyspark[connect,pipelines]{spark}", timeout=_INSTALLING)
    run(*pip, "--no-deps", "--force-reinstall", wheel)
    return str(executable)


def test(python: str, part: str, report: Path) -> bool:
    """Run one of :data:`PARTS` with that Python; whether all passed."""
    versions = "import platform, pyspark; print(pyspark.__version__, platform.python_version())"
    name = run(python, "-c", versions).strip()
    # What is reported unless the run comes to its end.
    counts = f'tests="1" errors="1" failures="0" skipped="0" time="{_TESTING}"'
    report.write_text(f'<all><testsuite name="{name}" {counts}/></all>', encoding="utf-8")
    variables = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_REMOTE")}
    # Over Connect, functions of the tests run in a process of the server's, which imports what they use.
    tests = ROOT / "tests"
    variables |= {"PYTHONPATH": str(tests), "PYTHONDONTWRITEBYTECODE": "1", **MODES.get(part, {})}
    variables |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), python)
    command = [python, "-m", "pytest", *PARTS[part], f"--junitxml={report}", "-o", f"junit_suite_name={name}"]
    command += ["-q", "-p", "no:cacheprovider"]
    passed = False
    with report.with_suffix(".log").open("wb") as log, contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, cwd=tests, env=variables, stdout=log, stderr=log, timeout=_TESTING)
        passed = done.returncode == 0
    print(f"{name} {part}: {'passed' if passed else f'failed, see {log.name}'}", flush=True)
    return passed


def upgrade(pythons: Sequence[str | Path], log: Path) -> bool:
    """Run one checkpoint under each of these interpreters, one after the other; whether it passed."""
    variables = {**os.environ, "SPARK_STOMP_RELEASES": os.pathsep.join(map(str, pythons))}
    command = [sys.executable, "-m", "pytest", "faults/test_releases.py", "-q", "-p", "no:cacheprovider"]
    passed = False
    with log.open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command, cwd=ROOT / "tests", env=variables, stdout=output, stderr=output, timeout=_TESTING
        )
        passed = done.returncode == 0
    print(f"checkpoints: {'passed' if passed else f'failed, see {log.name}'}", flush=True)
    return passed


def table() -> str:
    """All reports in Markdown: a line for each environment."""
    lines = [f"| PySpark | Python | {' | '.join(MODES)} |", "|---|---" + "|---" * len(MODES) + "|"]
    for environment in ENVIRONMENTS:
        name, cells = "", []
        for report in (environment.folder / f"{mode}.xml" for mode in MODES):
            if not report.exists():
                cells.append("-")
                continue
            suite = next(ElementTree.parse(report).iter("testsuite"))
            name = suite.get("name", "")
            cells.append(_counts(dict(suite.items())))
        if name:
            lines.append(f"| {' | '.join([*name.split(), *cells])} |")
    return "\n".join(lines) + "\n"


def _counts(said: dict[str, str]) -> str:
    skipped, failed = int(said["skipped"]), int(said["errors"]) + int(said["failures"])
    passed = int(said["tests"]) - skipped - failed
    counts = {"passed": passed, "skipped": skipped, "failed": failed}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def notebooks() -> str:
    """How many of the notebooks' runs passed on each release of Spark, and which failed, in Markdown."""
    passed: dict[str, str] = {}
    for report in (one.folder / "notebooks.xml" for one in ENVIRONMENTS):
        if report.exists():
            suite = next(ElementTree.parse(report).iter("testsuite"))
            cases = list(suite.iter("testcase"))
            failed = [_way(case.get("name", "")) for case in cases if list(case)]
            text = f"{len(cases) - len(failed)} of {len(cases)}"
            passed[suite.get("name", "").split()[0]] = text + "".join(f", not {way}" for way in failed)
    return f"Notebooks that ran: {'; '.join(f'{text} on {spark}' for spark, text in passed.items())}.\n"


def _way(test: str) -> str:
    """A notebook and how it ran, from the id of its test: ``test_runs[NOTEBOOK-WAY]``."""
    notebook, _, way = test.partition("[")[2].rstrip("]").partition("-")
    return f"{notebook} ({way.replace('_', ' ')})"


def main() -> int:
    parser = argparse.ArgumentParser(description="The core tests on releases of Spark and Python.")
    names = {environment.name: environment for environment in ENVIRONMENTS}
    parser.add_argument("names", nargs="*", help=f"of environments; all if none is named: {', '.join(names)}")
    parts = [*PARTS, _CHECKPOINTS]
    parser.add_argument("--part", choices=parts, help="one of the parts; all if none is named")
    arguments = parser.parse_args()
    wheel, _ = build(FOLDER / "dist")
    passed, pythons = True, {}
    for environment in [names[name] for name in arguments.names] or ENVIRONMENTS:
        base = interpreter(environment.python)
        if base is None:
            print(f"There is no Python {environment.python} on this machine.", file=sys.stderr)
            continue
        environment.folder.mkdir(parents=True, exist_ok=True)
        python = install(environment, base, wheel)
        # One after the other: on a busy machine Spark gives up on its workers after ten seconds.
        for part in PARTS if arguments.part is None else {arguments.part} & PARTS.keys():
            passed &= test(python, part, environment.folder / f"{part}.xml")
        pythons[environment.spark] = python
    if arguments.part in (None, _CHECKPOINTS):
        there = [*pythons.values()]
        passed &= upgrade([*there, *there[-2::-1]], FOLDER / "checkpoints.log")
    if arguments.part != _CHECKPOINTS:
        put("matrix", f"\n{table()}\n", PAGE)
        put("notebooks", f"\n{notebooks()}\n", PAGE)
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
