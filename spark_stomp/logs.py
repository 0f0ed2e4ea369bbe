"""Log lines: what each is about, and how they come out of Spark's Python processes.

Nobody sets up logging in the processes that Spark starts: Python would show warnings without time and level.
:func:`show` lets them come out with both, one line an event. If a process has handlers for our lines, those
alone show them.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import datetime, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any

from spark_stomp.quoting import line

# Python 3.10 cannot subscript it when the module is imported.
if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

_PACKAGE = "spark_stomp"
_ABOUT: ContextVar[dict[str, str]] = ContextVar("about", default={})  # noqa: B039 - never changed in place


def get_log(name: str) -> Log:
    """The log of a module; its lines begin with what they are :func:`about`."""
    return Log(logging.getLogger(name), {})


def about(**names: str) -> None:
    """From now on the lines of this thread are about this query, or this receiver of it."""
    _ABOUT.set({**_ABOUT.get(), **names})


@contextmanager
def lines_about(**names: object) -> Iterator[None]:
    """The same until the end of a ``with``, in a process that serves many queries. None leaves a name out."""
    before = _ABOUT.set(
        {**_ABOUT.get(), **{key: str(name) for key, name in names.items() if name is not None}}
    )
    try:
        yield
    finally:
        _ABOUT.reset(before)


def in_context(target: Callable[[], None]) -> Callable[[], None]:
    """``target`` for another thread, whose lines are about what those of this thread are about now."""
    context = copy_context()
    return lambda: context.run(target)


def show(level: str) -> None:
    """Show lines of ``level`` and above on stderr, unless somebody set up logging in this process."""
    ours = logging.getLogger(_PACKAGE)
    if _is_set_up():
        return
    if not ours.handlers:
        ours.addHandler(_Stderr())
    ours.setLevel(level.upper())


def set_level(level: str) -> None:
    """Show lines of ``level`` and above, in a process that set up logging for ours itself."""
    logging.getLogger(_PACKAGE).setLevel(level.upper())


class Log(_Adapter):
    """A logger whose lines begin with what the thread's lines are :func:`about`.

    They are printable, and an event is one line, whoever shows them.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        self.logger.log(level, "%s", _Event(_ABOUT.get(), str(msg), args), stacklevel=2, **kwargs)


class _Event:
    """What a line says; made when it is shown, where logging looks after what goes wrong."""

    def __init__(self, names: dict[str, str], text: str, args: tuple[object, ...]) -> None:
        self._names, self._text, self._args = names, text, args

    def __str__(self) -> str:
        names = " ".join(f"{key}={name}" for key, name in self._names.items())
        return line((f"{names}: " if names else "") + (self._text % self._args if self._args else self._text))


def _is_set_up() -> bool:
    own = logging.getLogger(_PACKAGE).handlers
    return bool(logging.getLogger().handlers) or any(not isinstance(handler, _Stderr) for handler in own)


class _Stderr(logging.Handler):
    """Writes to what is stderr at the time, and nothing once somebody has set up logging."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Lines())

    def emit(self, record: logging.LogRecord) -> None:
        if _is_set_up():
            return
        try:
            # In one piece: other processes write to the same place.
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as every handler does
            self.handleError(record)


class _Lines(logging.Formatter):
    """Time (UTC), level and message in one line; after it, for what should never happen, where it did."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        text = f"{when} {record.levelname} {line(record.getMessage())}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text

    def formatException(  # noqa: N802 - the name in logging
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        kind, error, trace = ei
        if kind is None:
            return ""
        shown = "".join(traceback.format_exception(kind, error, trace, chain=False)).rstrip("\n")
        # Indented, so that no line of an error's text looks like one of the log.
        return "\n".join("  " + line(part) for part in shown.split("\n"))
