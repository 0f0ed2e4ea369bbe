"""Builds a release in ``dist``, checks it, says how to publish it, publishes nothing: ``make release``.

Checked are wheel and sdist, an environment with nothing but them, and that the release after this one goes on
with what this one leaves: checkpoints, journals, status.
"""

from __future__ import annotations

import re
import shutil
import sys
from datetime import date
from pathlib import Path
from typing import Final

from releases import upgrade
from support import quickstart
from support.wheel import ROOT, build, environment, run, version_of, wrong_content

DIST: Final = ROOT / "dist"
FOLDER: Final = ROOT / ".venv" / "release"
_INSTALLING: Final = 1_200  # seconds


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    wheel, sdist = build(DIST)
    version = version_of(wheel)
    problems = [*_of_tree(version), *_of_files(wheel, sdist)]
    if not problems:
        _quickstart(wheel)
        after = _next(version)
        pythons = [environment(FOLDER / version, wheel), environment(FOLDER / after, _built(after))]
        _say(f"a query under {version}, killed within a batch, goes on under {after}")
        if not upgrade(pythons, FOLDER / "checkpoints.log"):
            problems.append(f"{after} does not go on with what {version} has left")
    if problems:
        sys.stderr.write("".join(f"- {problem}\n" for problem in ("No release:", *problems))[2:])
        return 1
    _say(_publishing(version, wheel, sdist))
    return 0


def _of_tree(version: str) -> list[str]:
    """What is wrong with what the release is made of."""
    problems = []
    if changes := run("git", "-C", ROOT, "status", "--porcelain").strip():
        problems.append(f"there are changes that are in no commit:\n{changes}")
    heading = re.search(
        rf"^## \[{re.escape(version)}\] - (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    try:
        date.fromisoformat(heading[1] if heading else "")
    except ValueError:
        problems.append(f"CHANGELOG.md has no heading with {version} and its date")
    return problems


def _of_files(wheel: Path, sdist: Path) -> list[str]:
    """What is wrong with the two files."""
    for file in (wheel, sdist):
        _say(f"{file.relative_to(ROOT)}, {file.stat().st_size:,} bytes")
    problems = [f"{name}: {', '.join(sorted(wrong))}" for name, wrong in wrong_content(wheel, sdist).items()]
    _say(run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist).strip())
    return problems


def _quickstart(wheel: Path) -> None:
    """Install it in an empty environment, as the README says, and run the README's program there."""
    run(sys.executable, "-m", "venv", FOLDER / "empty")
    python = FOLDER / "empty" / "bin" / "python"
    extras = f"spark-stomp[spark,cli] @ {wheel.as_uri()}"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", extras, timeout=_INSTALLING)
    _say("installed in an empty environment: " + run(python.with_name("spark-stomp"), "--version").strip())
    printed = quickstart.run([python], quickstart.save(FOLDER))
    assert quickstart.shows_every_row(printed), printed
    _say("the README's quickstart, run there:\n" + printed.strip())


def _next(version: str) -> str:
    """The version that is worked on after this one."""
    first, second, _ = version.split(".")
    return f"{first}.{int(second) + 1}.0.dev0"


def _built(version: str) -> Path:
    """The wheel of these sources under another version."""
    return build(FOLDER / f"dist-{version}", version)[0]


def _publishing(version: str, wheel: Path, sdist: Path) -> str:
    files = f"dist/{wheel.name} dist/{sdist.name}"
    return f"""\
Nothing is published yet. To publish {version}:
    git tag -s v{version} -m "spark-stomp {version}" && git push origin v{version}
    .venv/bin/twine upload {files}
Then give the next version to pyproject.toml and a heading to CHANGELOG.md."""


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
