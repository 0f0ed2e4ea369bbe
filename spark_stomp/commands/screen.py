"""What commands show in a terminal or write into a pipe: tables, colours and progress, drawn by ``rich``.

No text can control the terminal, whoever wrote it: each one passes through :func:`safe_text`, also the plain
strings that ``rich`` is given.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from spark_stomp.quoting import line

# Columns in a pipe, and of the longest sentence in a terminal.
WIDTH: Final = 100
_SPACES_AT_END: Final = re.compile(" +$", re.MULTILINE)


def safe_text(text: str, style: str = "") -> Text:
    """A text of one line in a style of ``rich``, such as ``red`` or ``bold``. It is printable and cut."""
    return Text(line(text), style)


class Screen(Console):
    """Writes to ``stream``: in colour if it is a terminal, else plain text of up to 100 columns."""

    def __init__(self, stream: TextIO) -> None:
        # Whatever the environment says: a pipe gets plain text, and no live view.
        terminal = stream.isatty()
        super().__init__(
            file=stream,
            force_terminal=terminal,
            force_interactive=None if terminal else False,
            width=None if terminal else WIDTH,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def render_str(self, text: str, **_: Any) -> Text:
        """A plain string as ``rich`` shows it."""
        return safe_text(text)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line: ``rich`` would end the process."""
        raise BrokenPipeError

    def put(self, *parts: RenderableType, widest: int | None = None) -> None:
        """Print tables and sentences in ``widest`` columns at most; in a pipe without spaces at line ends."""
        if self.is_terminal:
            self.print(*parts, sep="\n", width=widest)
            return
        with self.capture() as drawn:
            self.print(*parts, sep="\n")
        self.file.write(_SPACES_AT_END.sub("", drawn.get()))

    def whole(self, *texts: Text) -> None:
        """Print texts one below the other, without breaking their lines."""
        self.print(*texts, sep="\n", soft_wrap=True)


def labelled(pairs: Iterable[tuple[str, RenderableType]], style: str = "dim", width: int = 0) -> Table:
    """A table of two columns without a frame: labels in ``style``, and what they stand for.

    The labels have at least ``width`` columns.
    """
    table = Table.grid(padding=(0, 2))
    table.add_column(style=style, min_width=width, no_wrap=True)
    for label, what in pairs:
        table.add_row(safe_text(label), what)
    return table


def add_progress_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-progress", action="store_true", help="show no progress in the terminal")


class Bar(Progress):
    """A line in the terminal that shows how far a command is, while the ``with`` lasts. Nothing in a pipe.

    It is on stdout, or on stderr if stdout is no terminal. Of ``total``, :meth:`say` tells how much is done;
    it is None if that is not known.

    Attributes:
        screen: what is printed here stays above the line.
    """

    def __init__(self, *, shown: bool, total: float | None = None) -> None:
        self.screen = Screen(sys.stdout if sys.stdout.isatty() else sys.stderr)
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *([] if total is None else [BarColumn(24)]),
            TimeElapsedColumn(),
            console=self.screen,
            transient=True,
            disable=not (shown and self.screen.is_interactive),
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self._task = self.add_task("connecting", total=total)

    def say(self, words: str, done: float = 0) -> None:
        """Show these words, and that so much more is done."""
        self.update(self._task, description=line(words), advance=done)


def json_line(value: object) -> str:
    """``value`` as JSON in ASCII on one line, so that nothing in it can control the terminal."""
    # DEL is the only control character that JSON leaves.
    return json.dumps(value).replace("\x7f", "\\u007f")


def json_text(value: object) -> Text:
    """As :func:`json_line`, but a text for :meth:`Screen.whole`."""
    return Text(json_line(value))
