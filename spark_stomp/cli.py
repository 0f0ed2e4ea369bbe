"""The command ``spark-stomp``: for now, the dev broker on the command line."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from spark_stomp import __version__
from spark_stomp.devbroker import DevBroker

_PASSWORD_VARIABLE = "SPARK_STOMP_DEVBROKER_PASSWORD"
_NOTICE = "In-memory and for development only: nothing is kept when it ends. Ctrl-C ends it."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv`` (the process's own by default); returns the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        users = _users(arguments.user, arguments.password_file)
    except ValueError as error:
        parser.error(str(error))
    run_devbroker(arguments.host, arguments.port, users or None)
    return 0


def run_devbroker(
    host: str,
    port: int,
    users: Mapping[str, str] | None,
    *,
    stop: threading.Event | None = None,
    output: TextIO | None = None,
) -> None:
    """Serve until Ctrl-C, SIGTERM or ``stop``; prints the broker's URL.

    Args:
        host: address to listen on.
        port: 0 = any free one.
        users: login -> passcode; None = everybody is let in.
        stop: ends it when set.
        output: where to print, by default the standard output.

    Raises:
        OSError: the address cannot be listened on.
    """
    stopping = stop or threading.Event()
    out = output or sys.stdout
    with (
        contextlib.suppress(KeyboardInterrupt),
        DevBroker(host=host, port=port, users=users) as broker,
        _ended_by_sigterm(stopping),
    ):
        out.write(f"STOMP broker at {broker.url}\n{_NOTICE}\n")
        out.flush()
        # In slices: a wait without end would not let Ctrl-C through on every platform.
        while not stopping.wait(1.0):
            pass


@contextlib.contextmanager
def _ended_by_sigterm(stopping: threading.Event) -> Iterator[None]:
    """SIGTERM sets the event; only a main thread can arrange that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spark-stomp", description="STOMP for PySpark Structured Streaming")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    about = "run an in-memory STOMP broker, for development only"
    broker = commands.add_parser("devbroker", help=about, description=about)
    broker.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    broker.add_argument("--port", type=_port, default=61613, help="port, 0 for any free one (%(default)s)")
    broker.add_argument(
        "--user",
        action="append",
        default=[],
        type=_login,
        metavar="LOGIN",
        help="let in this user only; may be repeated (default: let everyone in). The password comes from "
        f"--password-file or the environment variable {_PASSWORD_VARIABLE}: one that is given here could be "
        "read by everybody on the machine, in the list of processes",
    )
    broker.add_argument(
        "--password-file",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help=f"file whose first line is the password; one for each --user, in their order (default: all have "
        f"the one in {_PASSWORD_VARIABLE})",
    )
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError("must be a number from 0 to 65535")
    return int(text)


def _login(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    if ":" in text:
        # Not repeated: what is behind the colon is a password.
        raise argparse.ArgumentTypeError(
            "takes a login alone, without a colon, since everybody on the machine can read the list of "
            f"processes; give the password in --password-file or {_PASSWORD_VARIABLE}"
        )
    return text


def _users(logins: Sequence[str], files: Sequence[Path]) -> dict[str, str]:
    """Login -> passcode. Raises ValueError if a password is missing or cannot be read."""
    if files and len(files) != len(logins):
        raise ValueError(f"there must be as many --password-file as --user: {len(files)} and {len(logins)}")
    if files:
        return dict(zip(logins, map(_first_line, files), strict=True))
    password = os.environ.get(_PASSWORD_VARIABLE)
    if logins and password is None:
        raise ValueError(f"--user needs a password, in --password-file or {_PASSWORD_VARIABLE}")
    return dict.fromkeys(logins, password or "")


def _first_line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").partition("\n")[0].removesuffix("\r")
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--password-file {file} cannot be read: {error}") from error
