"""Mutates modules and reports the mutants that their quick tests let live.

    python tests/mutation/run.py [--count 300] [--seed 1] [--jobs 2] [protocol/decoder.py ...]

Of all mutants of the modules a seeded sample is taken; which ones are in it depends on each one's identity
alone, so that an edit changes little of the sample. Each mutant replaces its module in a copy of the package,
against which the module's tests are run until the first failure. A mutant that hangs counts as noticed.
Survivors that change nothing are listed with an explanation in ``equivalent.json``; the exit status is 1 if
any other survived, or if an explained one was killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutator import Mutant, mutants_of
from targets import TARGETS

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
PACKAGE = TESTS.parent / "spark_stomp"
EXPLAINED: dict[str, str] = json.loads((HERE / "equivalent.json").read_text(encoding="utf-8"))
TEST_TIMEOUT = 15
TIMEOUT = 120.0
"""Seconds for one test, and for all of a module's, after which a mutant counts as noticed: it hangs."""
PYTEST = (
    *(sys.executable, "-m", "pytest", "-x", "-q", "-m", "not soak", f"--timeout={TEST_TIMEOUT}"),
    # What the targets' tests do not need would take longer to load than they take to run.
    *("--noconftest", "-p", "pytest_timeout", "-p", "no:cacheprovider"),
)


class Workshop:
    """Copies of the package, one per job; each holds one mutant at a time."""

    def __init__(self, root: Path, jobs: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            copy = root / f"job{job}"
            shutil.copytree(PACKAGE, copy / "spark_stomp", ignore=shutil.ignore_patterns("__pycache__"))
            self._free.put(copy)

    def survives(self, mutant: Mutant) -> bool:
        """Whether all tests pass with the mutant in its module's place."""
        copy = self._free.get()
        module = copy / "spark_stomp" / mutant.path.relative_to(PACKAGE)
        original = module.read_text(encoding="utf-8")
        try:
            module.write_text(mutant.source(), encoding="utf-8")
            return tests_pass(copy, TARGETS[str(mutant.path.relative_to(PACKAGE))])
        finally:
            module.write_text(original, encoding="utf-8")
            self._free.put(copy)

    def sound(self, tests: Sequence[str]) -> bool:
        """Whether the tests pass without any change; otherwise nothing they say counts."""
        copy = self._free.get()
        try:
            return tests_pass(copy, tests)
        finally:
            self._free.put(copy)


def tests_pass(copy: Path, tests: Sequence[str]) -> bool:
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    try:
        done = subprocess.run(
            [*PYTEST, *tests], cwd=TESTS, env=environment, capture_output=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def chosen(modules: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """A sample over all mutants of the modules; all of them where ``count`` is 0."""
    everything = [mutant for module in modules for mutant in mutants_of(PACKAGE / module, module)]

    def lot(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.identity}".encode()).digest()

    return sorted(everything, key=lot)[: count or None]


def report(mutants: Sequence[Mutant], survivors: Sequence[Mutant]) -> int:
    """Print what came out; the exit status."""
    alive = {mutant.identity for mutant in survivors}
    tried = {mutant.identity for mutant in mutants}
    unexplained = sorted(alive - EXPLAINED.keys())
    outdated = sorted((tried & EXPLAINED.keys()) - alive)
    show(
        f"{len(tried)} mutants: {len(tried) - len(alive)} noticed, {len(alive) - len(unexplained)} explained"
    )
    for identity in unexplained:
        show(f"SURVIVED {identity}")
    for identity in outdated:
        show(f"EXPLAINED BUT NOTICED {identity}")
    return 1 if unexplained or outdated else 0


def show(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", help="modules under spark_stomp/ (default: all targets)")
    parser.add_argument("--count", type=int, default=300, help="how many mutants; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    modules = arguments.modules or list(TARGETS)
    mutants = chosen(modules, arguments.count, arguments.seed)
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(arguments.jobs) as pool:
        workshop = Workshop(Path(root), arguments.jobs)
        if not workshop.sound(sorted({tests for module in modules for tests in TARGETS[module]})):
            show("the tests fail without any mutant")
            return 1
        survivors = []
        for mutant, alive in zip(mutants, pool.map(workshop.survives, mutants), strict=True):
            if alive:
                survivors.append(mutant)
                show(f"lives: {mutant.identity}")
    return report(mutants, survivors)


if __name__ == "__main__":
    sys.exit(main())
