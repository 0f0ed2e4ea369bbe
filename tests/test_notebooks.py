"""The notebooks run from beginning to end, and show what their text says."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    # On import, some versions of jupyter_core announce a change of their default folders.
    warnings.simplefilter("ignore", DeprecationWarning)
    import nbformat
    from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def printed(notebook: nbformat.NotebookNode) -> str:
    """All that the cells of an executed notebook have written to the standard output."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return "".join(output.text for output in outputs if output.get("name") == "stdout")


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_quickstart(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOKS / "01_quickstart.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}})
    text = printed(client.execute())
    assert "1000 seen, 1000 still there" in text
    # Batches hold 400 at most; how many there are depends on when the messages come.
    assert f"{ {n: price(n) for n in range(7)} }" in text
    assert "1000 acknowledged, 0 left" in text
    assert "[STOMP_OPTIONS_INVALID] idletimout is no option; did you mean idleTimeout?" in text


def price(article: int) -> int:
    return sum(number * 3 % 100 for number in range(1000) if number % 7 == article)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_kept_without_output(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
