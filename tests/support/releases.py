"""The core tests on releases of Spark and of Python, classic and over Spark Connect: ``make matrix``.

Each environment has a folder of its own in ``.venv/matrix``, with the wheel in it. What came of a run is kept
there, and the table in ``docs/compatibility.md`` is made of all that is kept. So a part can be run by its
name::

    python -m support.releases 4.0-3.10 newest-3.13

from ``tests/``. Ends with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from support.findings import put
from support.wheel import ROOT, build, run

PAGE = ROOT / "docs" / "compatibility.md"
FOLDER = ROOT / ".venv" / "matrix"
# Spark's own variable: a session is one of Spark Connect, to a server that it starts.
MODES = {"classic": {}, "Connect": {"SPARK_REMOTE": "local[2]"}}
_INSTALLING, _TESTING = 1_200, 1_800  # seconds


@dataclass(frozen=True)
class Environment:
    """A release of Spark, ``4.0`` or ``newest``, on a release of Python."""

    spark: str
    python: str

    @property
    def name(self) -> str:
        return f"{self.spark}-{self.python}"

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def executable(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def requirement(self) -> str:
        return "pyspark[connect]" + ("" if self.spark == "newest" else f"=={self.spark}.*")


ENVIRONMENTS = (
    Environment("4.0", "3.10"),
    Environment("4.0", "3.12"),
    Environment("4.1", "3.11"),
    Environment("4.2", "3.11"),
    Environment("newest", "3.11"),
    Environment("newest", "3.13"),
)


@dataclass(frozen=True)
class Result:
    """What came of the core tests in one environment and mode; ``missing`` says why they could not be run."""

    spark: str
    python: str
    mode: str
    passed: int = 0
    failed: int = 0
    seconds: int = 0
    skips: dict[str, int] = field(default_factory=dict)
    missing: str = ""

    @property
    def skipped(self) -> int:
        return sum(self.skips.values())


def interpreter(python: str) -> str | None:
    """A Python of that release that runs and makes environments: on the PATH, or one of pyenv's."""
    check = f"import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '{python}')"
    for candidate in (f"python{python}", *pyenv_versions(python)):
        try:
            if subprocess.run([candidate, "-c", check], capture_output=True, check=False).returncode == 0:
                return candidate
        except OSError:
            continue
    return None


def pyenv_versions(python: str) -> list[str]:
    """What pyenv has of that release, where there is a pyenv."""
    if shutil.which("pyenv") is None:
        return []
    root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
    return sorted(str(path) for path in Path(root, "versions").glob(f"{python}.*/bin/python"))


def install(environment: Environment, base: str, wheel: Path) -> None:
    """The environment, with this wheel and the newest patch of its Spark."""
    if not environment.executable.exists():
        run(base, "-m", "venv", environment.folder)
    pip = (environment.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    extra = f"spark-stomp[matrix] @ {wheel.as_uri()}"
    run(*pip, "--upgrade", extra, environment.requirement, timeout=_INSTALLING)
    run(*pip, "--no-deps", "--force-reinstall", wheel)


def test(environment: Environment, mode: str) -> Result:
    """Run the core tests there."""
    report = environment.folder / f"{mode}.xml"
    report.unlink(missing_ok=True)
    variables = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_REMOTE")}
    # Over Connect, functions of the tests run in a process of the server's, which imports what they use.
    tests = ROOT / "tests"
    variables |= {"PYTHONPATH": str(tests), "PYTHONDONTWRITEBYTECODE": "1", **MODES[mode]}
    variables |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(environment.executable))
    command = [str(environment.executable), "-m", "pytest", "streaming", f"--junitxml={report}"]
    command += ["-m", "core and not soak", "-q", "-p", "no:cacheprovider"]
    began = time.monotonic()
    with report.with_suffix(".log").open("wb") as log, contextlib.suppress(subprocess.TimeoutExpired):
        process = subprocess.Popen(command, cwd=tests, env=variables, stdout=log, stderr=log)
        try:
            process.wait(_TESTING)
        finally:
            process.kill()
    return result_of(report, environment, mode, round(time.monotonic() - began))


def result_of(report: Path, environment: Environment, mode: str, seconds: int) -> Result:
    """What a report of pytest says; without a report everything failed."""
    versions = "import platform, pyspark; print(pyspark.__version__, platform.python_version())"
    spark, python = run(environment.executable, "-c", versions).split()
    if not report.exists():
        return Result(spark, python, mode, failed=1, seconds=seconds)
    cases = list(ElementTree.parse(report).iter("testcase"))
    skips: dict[str, int] = defaultdict(int)
    for skip in (child for case in cases for child in case.findall("skipped")):
        skips[skip.get("message", "")] += 1
    failed = sum(any(case.find(kind) is not None for kind in ("failure", "error")) for case in cases)
    passed = len(cases) - failed - sum(skips.values())
    return Result(spark, python, mode, passed, failed, seconds, dict(skips))


def run_one(environment: Environment, modes: Collection[str], wheel: Path) -> None:
    """Run the core tests of one environment in these modes, and keep what came of it."""
    environment.folder.mkdir(parents=True, exist_ok=True)
    base = interpreter(environment.python)
    missing = f"no Python {environment.python} on this machine" if base is None else ""
    if base is not None:
        install(environment, base, wheel)
    # One after the other: on a busy machine Spark gives up on its workers after ten seconds.
    for mode in modes:
        unavailable = Result(environment.spark, environment.python, mode, missing=missing)
        result = unavailable if missing else test(environment, mode)
        (environment.folder / f"{mode}.json").write_text(json.dumps(asdict(result)), encoding="utf-8")
        print(row(result), flush=True)
        if result.failed:
            print(f"What failed is in {environment.folder / mode}.log.", file=sys.stderr)


def results_in(folder: Path) -> list[Result]:
    """All that is kept below ``folder``, in the order of the table."""
    paths = [folder / environment.name / f"{mode}.json" for environment in ENVIRONMENTS for mode in MODES]
    return [Result(**json.loads(path.read_text(encoding="utf-8"))) for path in paths if path.exists()]


def row(result: Result) -> str:
    """One line of the table."""
    begin = f"| {result.spark} | {result.python} | {result.mode} | "
    if result.missing:
        return f"{begin}- | all: {result.missing} | - | - |"
    return f"{begin}{result.passed} | {result.skipped} | {result.failed} | {result.seconds} |"


def table(results: Collection[Result]) -> str:
    """The results in Markdown, and below it what was skipped and why."""
    lines = [
        "| PySpark | Python | mode | passed | skipped | failed | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += map(row, results)
    where: dict[str, list[str]] = defaultdict(list)
    for result in results:
        for reason, count in sorted(result.skips.items()):
            where[reason].append(f"{count} on {result.spark} {result.mode}")
    if where:
        lines += ["", "What was skipped, and why:", ""]
        lines += [f"- {reason}: {', '.join(dict.fromkeys(places))}" for reason, places in where.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="The core tests on releases of Spark and Python.")
    parser.add_argument("names", nargs="*", help="environments, such as 4.0-3.10; all if none is named")
    parser.add_argument("--mode", choices=MODES, help="one of the two; both if none is named")
    arguments = parser.parse_args()
    names = set(arguments.names)
    unknown = names - {environment.name for environment in ENVIRONMENTS}
    if unknown:
        parser.error(f"no such environment: {', '.join(sorted(unknown))}")
    wheel, _ = build(FOLDER / "dist")
    for environment in ENVIRONMENTS:
        if not names or environment.name in names:
            run_one(environment, [arguments.mode] if arguments.mode else MODES, wheel)
    results = results_in(FOLDER)
    put("matrix", f"\n{table(results)}\n", PAGE)
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
