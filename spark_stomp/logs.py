"""Log lines: which query and receiver each one names, and how they reach stderr of Spark's Python processes.

Nobody sets up logging in the processes that Spark starts. Python would show only warnings there, without time
and level. :func:`show` writes our lines with both, and each event as one line. If a process has its own
handlers for our lines, only those show them.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any

from spark_stomp.quoting import line

# Python 3.10 cannot subscript LoggerAdapter at run time.
if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

_PACKAGE = "spark_stomp"
_ABOUT: ContextVar[dict[str, str]] = ContextVar("about", default={})  # noqa: B039 - never changed in place


def get_log(name: str) -> ContextLog:
    """The log of the module ``name``. Its lines begin with the names that :func:`about` sets."""
    return ContextLog(logging.getLogger(name), {})


def about(**names: str) -> None:
    """Begin each log line of this thread with ``names`` from now on, such as ``query="flights"``."""
    _ABOUT.set({**_ABOUT.get(), **names})


@contextmanager
def lines_about(**names: object) -> Iterator[None]:
    """Begin each log line of this thread with ``names`` until the end of the ``with``.

    A name that is None is left out. Use this in processes that serve many queries.
    """
    before = _ABOUT.set(
        {**_ABOUT.get(), **{key: str(name) for key, name in names.items() if name is not None}}
    )
    try:
        yield
    finally:
        _ABOUT.reset(before)


def show(level: str) -> None:
    """Show lines of ``level`` and above on stderr, unless somebody set up logging in this process."""
    ours = logging.getLogger(_PACKAGE)
    if _is_set_up():
        return
    if not ours.handlers:
        ours.addHandler(_Stderr())
    ours.setLevel(level.upper())


def set_level(level: str) -> None:
    """Show lines of ``level`` and above, in a process that has set up its own handlers for our lines."""
    logging.getLogger(_PACKAGE).setLevel(level.upper())


class ContextLog(_Adapter):
    """A logger whose lines begin with the names that :func:`about` has set in the thread.

    The lines are printable, and each event is one line, whichever handler shows them.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        self.logger.log(level, "%s", _Event(_ABOUT.get(), str(msg), args), stacklevel=2, **kwargs)


class Once:
    """Warns once of each subject in each query, of up to ``most`` of them."""

    def __init__(self, log: ContextLog, most: int = 1_000) -> None:
        self._log = log
        self._most = most
        self._said: set[tuple[str | None, Hashable]] = set()

    def warning(self, subject: Hashable, text: str, *args: object) -> None:
        said = self._of_query(subject)
        if said not in self._said and len(self._said) < self._most:
            self._said.add(said)
            self._log.warning(text, *args)

    def over(self, subject: Hashable) -> None:
        """If it comes again, it is news."""
        self._said.discard(self._of_query(subject))

    @staticmethod
    def _of_query(subject: Hashable) -> tuple[str | None, Hashable]:
        return _ABOUT.get().get("query"), subject


class _Event:
    """A line whose text is made when a handler formats it, because logging catches errors there."""

    def __init__(self, names: dict[str, str], text: str, args: tuple[object, ...]) -> None:
        self._names, self._text, self._args = names, text, args

    def __str__(self) -> str:
        names = " ".join(f"{key}={name}" for key, name in self._names.items())
        return line((f"{names}: " if names else "") + (self._text % self._args if self._args else self._text))


def _is_set_up() -> bool:
    own = logging.getLogger(_PACKAGE).handlers
    return bool(logging.getLogger().handlers) or any(not isinstance(handler, _Stderr) for handler in own)


class _Stderr(logging.Handler):
    """Writes to the current ``sys.stderr``, but nothing after somebody has set up logging."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_LineFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        if _is_set_up():
            return
        try:
            # In one write, because other processes write to the same stderr.
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - every handler of logging does this
            self.handleError(record)


class _LineFormatter(logging.Formatter):
    """Formats time (UTC), level and message as one line. The traceback of a bug follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        text = f"{when} {record.levelname} {line(record.getMessage())}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text

    def formatException(  # noqa: N802 - the name in logging
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        error_class, error, trace = ei
        if error_class is None:
            return ""
        shown = "".join(traceback.format_exception(error_class, error, trace, chain=False)).rstrip("\n")
        # Indented, so that no line of an error's text looks like a log line.
        return "\n".join("  " + line(part) for part in shown.split("\n"))
