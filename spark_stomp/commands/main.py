"""``spark-stomp``: finds the command and runs it. Every failure becomes a sentence and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from spark_stomp import __version__
from spark_stomp.commands import CLOSED_PIPE, EXIT_CODES, FAILED, INTERRUPTED, USAGE, UsageError, exit_code
from spark_stomp.errors import StompError
from spark_stomp.quoting import counted, line

_COMMANDS: Final = {
    "probe": "say what the broker is, and what the connector will do with it",
    "send": "send one message for each line, each confirmed by the broker",
    "peek": "show the oldest messages of a queue, and leave them there",
    "tail": "show the newest messages of a stream, or what comes to a topic",
    "unsubscribe": "end the durable subscriptions that a query has left",
    "why": "say in three lines why a query does not get on",
    "status": "show what queries are doing, from their status files",
    "devbroker": "run an in-memory STOMP broker, for development only",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names, by default the arguments of the process; returns the exit code."""
    _prepare_streams()
    try:
        with _lines_on_stderr():
            code = _run(sys.argv[1:] if argv is None else argv)
            # Here, not at the end of the process: the reader may have closed the pipe.
            sys.stdout.flush()
            return code
    except StompError as error:
        return _failed(str(error), exit_code(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # What is still in the buffer would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except OSError as error:
        return _failed(line(str(error)), FAILED)


def _run(argv: Sequence[str]) -> int:
    name, rest = _command(argv)
    try:
        # Only this command is imported: others need pyarrow, which takes a while to load, or rich.
        command = import_module(f"spark_stomp.commands.{name}")
    except ModuleNotFoundError as error:
        if error.name != "rich":
            raise
        return _failed(f"{name} needs the package rich, of the extra cli: pip install rich", USAGE)
    about, _, more = (command.__doc__ or "").partition("\nexamples:")
    parser = argparse.ArgumentParser(
        prog=f"spark-stomp {name}",
        description=about,
        epilog=f"examples:{more}" + ("" if "exit codes:" in more else f"\n{EXIT_CODES}"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # Otherwise --password would mean --password-file, and an error would show the password as its file.
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    arguments, unknown = parser.parse_known_intermixed_args(rest)
    try:
        _refuse(unknown)
        return int(command.run(arguments))
    except UsageError as error:
        # Without the usage, so that the sentence is seen.
        parser.exit(USAGE, line(f"{parser.prog}: {error}") + "\n")


def _refuse(unknown: Sequence[str]) -> None:
    """Raise UsageError if there are arguments that the command does not know.

    The error shows only the name of the first one: what follows it may be a secret.
    """
    if not unknown:
        return
    name = next((one for one in unknown if one.startswith("-")), None)
    if name is None:
        raise UsageError(f"{counted(len(unknown), 'argument')} too many; --help lists all")
    name = name.partition("=")[0] if name.startswith("--") else name[:2]
    reason = f"there is no argument {name}; --help lists all"
    if name.startswith(("-p", "--pass")):
        reason += ". None takes a password, because everyone on the machine can read the list of processes"
    raise UsageError(reason)


def _command(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The name of the command, and its arguments."""
    width = max(map(len, _COMMANDS)) + 2
    parser = argparse.ArgumentParser(
        prog="spark-stomp",
        description="STOMP for PySpark Structured Streaming",
        epilog="commands:\n"
        + "".join(f"  {name:<{width}}{about}\n" for name, about in _COMMANDS.items())
        + "\nspark-stomp COMMAND --help shows arguments, examples and exit codes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("command", choices=_COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the command")
    if not argv:
        parser.print_help(sys.stderr)
        parser.exit(USAGE)
    parsed = parser.parse_args(argv)
    return parsed.command, parsed.arguments


def _prepare_streams() -> None:
    """Make the standard streams usable.

    If the caller closed one of them, an empty stream takes its place. Characters that stdout cannot encode
    are written as escapes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for as long as the process lives
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


class _StderrHandler(logging.Handler):
    """Writes log lines for a person at a terminal: the text without time and level.

    It writes to the current ``sys.stderr``, which a progress in the terminal replaces while it lasts.
    """

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(_as_given(f"spark-stomp: {self.format(record)}\n"))


@contextlib.contextmanager
def _lines_on_stderr() -> Iterator[None]:
    """Write log lines to stderr."""
    handler, ours = _StderrHandler(), logging.getLogger("spark_stomp")
    ours.addHandler(handler)
    level = ours.level
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.setLevel(level)


def _failed(reason: str, code: int) -> int:
    # An OptionError has one problem on each line.
    sys.stderr.write("".join(f"{line(part)}\n" for part in f"spark-stomp: {_as_given(reason)}".split("\n")))
    return code


def _as_given(text: str) -> str:
    """``text`` with the argument in place of the option that it sets: ``-n 10`` for ``maxMessages (10)``."""
    return re.sub(r"maxMessages(?: = | \()(\d+)\)?", r"-n \1", text)
