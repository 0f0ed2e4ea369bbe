"""A backend of matplotlib: ``plt.show()`` writes each figure to a PNG file in the folder ``PICTURES``.

A program takes it by ``MPLBACKEND=module://pictures``, and need not know of it.
"""

from __future__ import annotations

import os
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

__all__ = ["FigureCanvas", "show"]


def show(*_: object, **__: object) -> None:
    """Save and close what is open, as a window would that the reader has closed."""
    import matplotlib.pyplot as plt

    folder = Path(os.environ["PICTURES"])
    for number in plt.get_fignums():
        plt.figure(number).savefig(folder / f"{len(list(folder.iterdir())):03d}.png")
    plt.close("all")
