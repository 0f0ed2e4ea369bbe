"""Runs the notebooks. ``python -m support.notebooks`` writes what they show into them, for readers on GitHub.

From ``tests/``, with the package installed. With names (``01``), only those whose names begin so.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Final

with warnings.catch_warnings():
    # On import, some versions of jupyter_core announce a change of their default folders.
    warnings.simplefilter("ignore", DeprecationWarning)
    import nbformat
    from nbclient import NotebookClient

NOTEBOOKS: Final = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# Seconds for one cell. A JVM starts in some of them, on a machine that may be busy.
_CELL: Final = 240


def read(path: Path) -> nbformat.NotebookNode:
    """The notebook as it is kept, outputs included."""
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def execute(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Run all cells in ``folder``; returns the notebook with what they showed.

    What a process wrote to its standard error is left out: that is Spark's log.

    Raises:
        CellExecutionError: a cell failed; the text has the cell and its traceback.
    """
    notebook = read(path)
    metadata = notebook.metadata
    client = NotebookClient(
        notebook, timeout=_CELL, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    done = client.execute()
    done.metadata = metadata
    for cell in done.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return done


def printed(notebook: nbformat.NotebookNode) -> str:
    """All that the cells of an executed notebook have written to the standard output."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return "".join(output.text for output in outputs if output.get("name") == "stdout")


def main(names: list[str]) -> None:
    """Run the notebooks, and keep their outputs in them."""
    for path in NOTEBOOKS:
        if not names or path.name.startswith(tuple(names)):
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(execute(path, Path(folder)), path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(sys.argv[1:])
