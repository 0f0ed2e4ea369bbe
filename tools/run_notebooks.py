"""Runs the notebooks, with the package installed.

``python tools/run_notebooks.py`` writes what they show into them, for readers on GitHub. With names
(``01``), only those whose names begin so.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

with warnings.catch_warnings():
    # On import, some versions of jupyter_core announce a change of their default folders.
    warnings.simplefilter("ignore", DeprecationWarning)
    import nbformat
    from nbclient import NotebookClient

_TOOLS: Final = Path(__file__).resolve().parent
NOTEBOOKS: Final = sorted((_TOOLS.parent / "notebooks").glob("*.ipynb"))
# Seconds for one cell, and for all. A JVM starts in some of them, on a machine that may be busy.
_CELL: Final = 240
_ALL: Final = 400
# What says which Python and which server Spark takes: a reader's kernel has none of it.
_PREPARED: Final = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE"}


class Shown(NamedTuple):
    """What a notebook has written to its standard output, and its pictures as PNG."""

    printed: str
    pictures: list[bytes]


def read(path: Path) -> nbformat.NotebookNode:
    """The notebook as it is kept, outputs included."""
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def execute(path: Path, folder: Path, environment: Mapping[str, str]) -> nbformat.NotebookNode:
    """Run all cells in Jupyter, in ``folder``; returns the notebook with what they showed.

    The kernel has these environment variables, and those of this process that do not prepare Spark. What a
    process wrote to its standard error is left out: that is Spark's log.

    Raises:
        CellExecutionError: a cell failed; the text has the cell and its traceback.
    """
    notebook = read(path)
    metadata = notebook.metadata
    client = NotebookClient(
        notebook, timeout=_CELL, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    # A reader's kernel runs beside the notebook, and imports what is there.
    done = client.execute(env={**_unprepared(), "PYTHONPATH": str(path.parent), **environment})
    done.metadata = metadata
    for cell in done.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return done


def run_as_script(path: Path, folder: Path, environment: Mapping[str, str]) -> Shown:
    """Run the code cells in ``folder``, one after the other in one Python without IPython.

    Raises:
        AssertionError: it failed; the text is the end of its standard error.
    """
    imported = os.pathsep.join([str(path.parent), str(_TOOLS)])
    with tempfile.TemporaryDirectory() as beside:
        program, pictures = Path(beside, "cells.py"), Path(beside, "pictures")
        pictures.mkdir()
        program.write_text(_program(read(path)), encoding="utf-8")
        variables = {"MPLBACKEND": "module://pictures", "PICTURES": str(pictures)}
        done = subprocess.run(
            [sys.executable, program],
            cwd=folder,
            env={**_unprepared(), **variables, "PYTHONPATH": imported, **environment},
            capture_output=True,
            text=True,
            timeout=_ALL,
            check=False,
        )
        assert done.returncode == 0, f"{path.name}: {done.stdout[-2000:]}{done.stderr[-6000:]}"
        return Shown(done.stdout, [picture.read_bytes() for picture in sorted(pictures.iterdir())])


def shown(notebook: nbformat.NotebookNode) -> Shown:
    """What the cells of an executed notebook have shown."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", ())]
    printed = "".join(output.text for output in outputs if output.get("name") == "stdout")
    return Shown(printed, [base64.b64decode(picture) for picture in pictures])


def _unprepared() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in _PREPARED}


def _program(notebook: nbformat.NotebookNode) -> str:
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return "\n\n".join(f"# cell {number}\n{source}" for number, source in enumerate(code, 1))


def main(names: list[str]) -> None:
    """Run the notebooks, and keep their outputs in them."""
    for path in NOTEBOOKS:
        if not names or path.name.startswith(tuple(names)):
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(execute(path, Path(folder), {}), path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(sys.argv[1:])
