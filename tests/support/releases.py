"""The core tests and the notebooks on releases of Spark, classic and over Spark Connect: ``make matrix``.

Each environment has a folder in ``.venv/matrix``, with the wheel in it. Its reports stay there, and tables
in ``docs/compatibility.md`` are made of all reports. So each can be run by its name, from ``tests/``::

    python -m support.releases 4.0-3.10 newest-3.13 --part notebooks

Ends with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from support.soak import put
from support.wheel import ROOT, build, run

PAGE = ROOT / "docs" / "compatibility.md"
FOLDER = ROOT / ".venv" / "matrix"
# Spark's own variable: a session is one of Spark Connect, to a server that it starts.
MODES = {"classic": {}, "Connect": {"SPARK_REMOTE": "local[2]"}}
_CORE = ["streaming", "-m", "core and not soak"]
# What pytest runs in each part.
PARTS = {**dict.fromkeys(MODES, _CORE), "notebooks": ["test_notebooks.py::test_runs"]}
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


def table() -> str:
    """All reports in Markdown, and below them what was skipped and why."""
    lines = [
        "| PySpark | Python | mode | passed | skipped | failed | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    places: dict[str, list[str]] = defaultdict(list)
    for report, mode in ((one.folder / f"{mode}.xml", mode) for one in ENVIRONMENTS for mode in MODES):
        if report.exists():
            suite = next(ElementTree.parse(report).iter("testsuite"))
            said = dict(suite.items())
            skipped, failed = int(said["skipped"]), int(said["errors"]) + int(said["failures"])
            passed = int(said["tests"]) - skipped - failed
            spark, python = said["name"].split()
            figures = f"{passed} | {skipped} | {failed} | {float(said['time']):.0f}"
            lines.append(f"| {spark} | {python} | {mode} | {figures} |")
            reasons = [skip.get("message", "") for skip in suite.iter("skipped")]
            for reason in sorted(set(reasons)):
                places[reason].append(f"{reasons.count(reason)} on {spark} {mode}")
    if places:
        lines += ["", "What was skipped, and why:", ""]
        lines += [f"- {reason}: {', '.join(dict.fromkeys(found))}" for reason, found in places.items()]
    return "\n".join(lines) + "\n"


def notebooks_table() -> str:
    """Of each notebook and way to run it, its seconds on each release of Spark, in Markdown."""
    seconds: dict[str, dict[str, str]] = defaultdict(dict)
    columns: dict[str, None] = {}
    for report in (one.folder / "notebooks.xml" for one in ENVIRONMENTS):
        if report.exists():
            suite = next(ElementTree.parse(report).iter("testsuite"))
            columns[column := suite.get("name", "").split()[0]] = None
            for case in suite.iter("testcase"):
                took = "failed" if list(case) else f"{float(case.get('time', 0)):.0f}"
                seconds[_way(case.get("name", ""))][column] = took
    lines = [f"| notebook | way | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for way, found in sorted(seconds.items()):
        lines.append(f"| {way} | {' | '.join(found.get(column, '-') for column in columns)} |")
    return "\n".join(lines) + "\n"


def _way(test: str) -> str:
    """A notebook and how it ran, from the id of its test: ``test_runs[NOTEBOOK-WAY]``."""
    notebook, _, way = test.partition("[")[2].rstrip("]").partition("-")
    return f"{notebook} | {way.replace('_', ' ')}"


def main() -> int:
    parser = argparse.ArgumentParser(description="The core tests on releases of Spark and Python.")
    names = {environment.name: environment for environment in ENVIRONMENTS}
    parser.add_argument("names", nargs="*", help=f"of environments; all if none is named: {', '.join(names)}")
    parser.add_argument("--part", choices=PARTS, help="one of the parts; all if none is named")
    arguments = parser.parse_args()
    wheel, _ = build(FOLDER / "dist")
    passed = True
    for environment in [names[name] for name in arguments.names] or ENVIRONMENTS:
        base = interpreter(environment.python)
        if base is None:
            print(f"There is no Python {environment.python} on this machine.", file=sys.stderr)
            continue
        environment.folder.mkdir(parents=True, exist_ok=True)
        python = install(environment, base, wheel)
        # One after the other: on a busy machine Spark gives up on its workers after ten seconds.
        for part in [arguments.part] if arguments.part else PARTS:
            passed &= test(python, part, environment.folder / f"{part}.xml")
    put("matrix", f"\n{table()}\n", PAGE)
    put("notebooks", f"\n{notebooks_table()}\n", PAGE)
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
