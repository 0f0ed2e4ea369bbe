"""Runs notebooks in Databricks' source format, with stand-ins for what Databricks gives them.

``python tools/databricks_runtime.py NOTEBOOK < SETTINGS`` executes the cells in one plain Python process,
without IPython, in the current folder. SETTINGS is JSON with ``widgets`` and ``secrets``.

The stand-ins do what Databricks' manual says, and no more. They prove nothing about Databricks itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from matplotlib.figure import Figure

_HEADER: Final = "# Databricks notebook source\n"
_CELL: Final = "\n# COMMAND ----------\n"
_MAGIC: Final = "# MAGIC"
# Seconds for all cells.
_PATIENCE: Final = 150

_VOLUME: Final = "SPARK_STOMP_TEST_VOLUME"
_TOOLS: Final = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Cell:
    """A cell: its language (``python``, or the name after ``%``), its text, and the line where it begins."""

    language: str
    text: str
    line: int


def cells(path: Path) -> Iterator[Cell]:
    """The cells of a notebook. Raises ValueError if the file is not in Databricks' source format."""
    source = path.read_text(encoding="utf-8")
    if not source.startswith(_HEADER):
        raise ValueError(f"{path} does not begin with {_HEADER!r}")
    line = 1
    for part in source.split(_CELL):
        text = part.removeprefix(_HEADER).strip("\n")
        yield _cell(text, line + part[: part.index(text)].count("\n"))
        line += part.count("\n") + _CELL.count("\n")


def _cell(text: str, line: int) -> Cell:
    if not text.startswith(_MAGIC):
        return Cell("python", text, line)
    magic = "\n".join(one.removeprefix(_MAGIC).removeprefix(" ") for one in text.splitlines())
    language, _, rest = magic.removeprefix("%").partition(" " if " " in magic.split("\n")[0] else "\n")
    return Cell(language, rest, line)


@dataclass
class Widgets:
    """Stand-in for ``dbutils.widgets``: a parameter of the job wins over the default."""

    parameters: Mapping[str, str]
    _values: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str, label: str = "") -> None:
        self._values.setdefault(name, self.parameters.get(name, default))

    def dropdown(self, name: str, default: str, choices: list[str], label: str = "") -> None:
        self.text(name, default)
        if self._values[name] not in choices or default not in choices:
            raise ValueError(f"{name} is {self._values[name]!r}, not one of {choices}")

    def get(self, name: str) -> str:
        return self._values[name]


class Notebook:
    """One run of a notebook."""

    def __init__(self, parameters: Mapping[str, str], secrets: Mapping[str, Mapping[str, str]]) -> None:
        from pyspark.sql import SparkSession

        utilities = SimpleNamespace(
            widgets=Widgets(parameters),
            secrets=SimpleNamespace(get=lambda scope, key: secrets[scope][key]),
            library=SimpleNamespace(restartPython=self._restart),
        )
        spark = SparkSession.builder.getOrCreate()
        self._given = {"dbutils": utilities, "spark": spark, "display": display}
        self._names: dict[str, Any] = {}
        self._restart()

    def _restart(self) -> None:
        """Stand-in for a restart of Python: what the cells have defined is gone."""
        self._names.clear()
        self._names.update(self._given, __name__="__main__")

    def run(self, cell: Cell, path: Path) -> None:
        """Execute a cell. Text is left out, and ``%pip`` is printed: the package is installed already."""
        if cell.language == "python":
            exec(compile("\n" * (cell.line - 1) + cell.text, path, "exec"), self._names)
        elif cell.language == "pip":
            words = [str(self._names[word[1:]]) if word[0] == "$" else word for word in cell.text.split()]
            _print("%pip", *words)
        elif cell.language != "md":
            raise ValueError(f"{path}:{cell.line}: no stand-in for %{cell.language}")


def display(shown: Any) -> None:
    """Stand-in for ``display``: prints a DataFrame, saves a figure of matplotlib as ``1.png`` and so on."""
    if isinstance(shown, Figure):
        shown.savefig(f"{len(list(Path.cwd().glob('*.png'))) + 1}.png")
    else:
        shown.show(truncate=False)


def run(
    path: Path,
    folder: Path,
    widgets: Mapping[str, str],
    secrets: Mapping[str, Mapping[str, str]],
    environment: Mapping[str, str],
) -> subprocess.CompletedProcess[str]:
    """Run all cells in ``folder``, in a process with ``environment`` added to its own.

    ``stdout`` of the result has all that the process wrote, to its standard error too.
    """
    variables = {**os.environ, "MPLBACKEND": "agg", **environment}
    return subprocess.run(
        [sys.executable, Path(__file__), path],
        input=json.dumps({"parameters": dict(widgets), "secrets": secrets}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=variables,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )


def volume(folder: Path) -> dict[str, str]:
    """What to add to the environment of Spark, for whose processes ``folder`` is a stand-in for a volume."""
    path = [str(_TOOLS / "volume"), str(_TOOLS)]
    return {_VOLUME: str(folder), "PYTHONPATH": os.pathsep.join(path)}


def mount_from_environment() -> None:
    """Let this process take the folder of :func:`volume` for one below ``/Volumes``, with a volume's limits.

    Files there are written from front to back: there are no appends, no links and no locks. What is not
    Python, such as the JVM, is not limited.
    """
    folder = os.environ[_VOLUME]
    mock.patch("spark_stomp.files._MOUNTS", (folder,)).start()
    sys.addaudithook(lambda event, arguments: _refuse(folder, event, arguments))


def _refuse(folder: str, event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and arguments[2] & (os.O_APPEND | os.O_RDWR):
        refused = [arguments[0]]
    elif event in ("os.link", "os.symlink", "os.truncate"):
        refused = list(arguments[:2])
    elif event in ("fcntl.flock", "fcntl.lockf"):
        refused = [Path(f"/proc/self/fd/{arguments[0]}").readlink()]
    else:
        return
    if any(str(one).startswith(folder) for one in refused):
        raise OSError(f"a volume takes no {event} of {refused}")


def _print(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")


def main(path: Path) -> None:
    """Run the notebook with the settings of the standard input."""
    notebook = Notebook(**json.load(sys.stdin))
    for cell in cells(path):
        notebook.run(cell, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
