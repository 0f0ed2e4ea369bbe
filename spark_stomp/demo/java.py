"""Whether Spark will find a Java to run on; asked before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

LEAST_VERSION: Final = 17

HOW_TO_INSTALL: Final = f"""\
Spark needs Java {LEAST_VERSION} or later. To install it:
  Debian, Ubuntu    sudo apt-get install openjdk-17-jre-headless
  Fedora, RHEL      sudo dnf install java-17-openjdk-headless
  macOS             brew install openjdk@17
  elsewhere         https://adoptium.net
Or set JAVA_HOME to the folder of one that is installed already."""


def missing_java() -> str | None:
    """Why Spark cannot start, and what to do about it; None if it can."""
    java = _find_java()
    if java is None:
        return f"There is no Java on this machine.\n{HOW_TO_INSTALL}"
    version = java_version(java)
    if version is None:
        return f"{java} does not run.\n{HOW_TO_INSTALL}"
    if version < LEAST_VERSION:
        return f"{java} is Java {version}.\n{HOW_TO_INSTALL}"
    return None


def java_version(java: str) -> int | None:
    """The feature release of an executable (8, 11, 17 ...); None if it does not run or does not tell."""
    try:
        # -version prints to stderr.
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    return int(match[1]) if match and run.returncode == 0 else None


def _find_java() -> str | None:
    """As Spark looks for it: JAVA_HOME first, then the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")
