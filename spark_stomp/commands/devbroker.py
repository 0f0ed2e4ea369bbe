"""``spark-stomp devbroker``: the dev broker, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Final, TextIO

from spark_stomp.commands.connecting import first_line
from spark_stomp.commands.exits import FINE, UsageError
from spark_stomp.devbroker import DevBroker, QueueView
from spark_stomp.logs import set_level
from spark_stomp.quoting import shown, whole_number

ABOUT: Final = """\
Run an in-memory STOMP broker, for development only: nothing is kept when it
ends. It has queues (any destination) and topics (/topic/...), browsing,
transactions, and durable subscriptions."""

MORE: Final = """\
examples:
  spark-stomp devbroker
  spark-stomp devbroker --port 0 --verbose
  SPARK_STOMP_DEVBROKER_PASSWORD=... spark-stomp devbroker --user ada

exit codes:
  0    it was ended: Ctrl-C, SIGTERM
  1    the port is in use, or the address is not one of this machine
  2    the arguments are wrong"""

_PASSWORD_VARIABLE = "SPARK_STOMP_DEVBROKER_PASSWORD"
_NOTICE = "In-memory and for development only: nothing is kept when it ends. Ctrl-C ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=_port, default=61613, help="port, 0 for any free one (%(default)s)")
    parser.add_argument(
        "--user",
        action="append",
        default=[],
        type=_login,
        metavar="LOGIN",
        help="let in this user only; may be repeated (default: let everyone in). The password comes from "
        f"--password-file or the environment variable {_PASSWORD_VARIABLE}: one that is given here could be "
        "read by everybody on the machine, in the list of processes",
    )
    parser.add_argument(
        "--password-file",
        action="append",
        default=[],
        metavar="FILE",
        help=f"file whose first line is the password; one for each --user, in their order (default: all have "
        f"the one in {_PASSWORD_VARIABLE})",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="say who connects, subscribes and sends; and each second, what became of each queue that moved",
    )


def run(arguments: argparse.Namespace) -> int:
    users = _users(arguments.user, arguments.password_file)
    if arguments.verbose:
        set_level("info")
    try:
        run_devbroker(arguments.host, arguments.port, users or None, verbose=arguments.verbose)
    except OSError as error:
        raise OSError(_unheard(error, arguments.host, arguments.port)) from error
    return FINE


def run_devbroker(
    host: str,
    port: int,
    users: Mapping[str, str] | None,
    *,
    verbose: bool = False,
    stop: threading.Event | None = None,
    output: TextIO | None = None,
) -> None:
    """Serve until Ctrl-C, SIGTERM or ``stop``; prints the broker's URL.

    Args:
        host: address to listen on.
        port: 0 = any free one.
        users: login -> passcode; None = everybody is let in.
        verbose: print each second what moved.
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
        before: Mapping[str, QueueView] = {}
        # In slices: a wait without end would not let Ctrl-C through on every platform.
        while not stopping.wait(1.0):
            if verbose:
                now = broker.queues()
                out.writelines(line + "\n" for line in moved(before, now))
                out.flush()
                before = now


def moved(before: Mapping[str, QueueView], now: Mapping[str, QueueView]) -> Iterator[str]:
    """A line for each queue that is not as it was: what came, what went, and what is there."""
    for name, view in now.items():
        past = before.get(name, QueueView(0, 0, 0, 0, 0, 0))
        if view == past:
            continue
        parts = [f"depth {view.depth:,} ({view.unacked:,} un-acked)"]
        for what in ("enqueued", "delivered", "redelivered", "acked"):
            count = getattr(view, what) - getattr(past, what)
            parts += [f"+{count:,} {what}"] if count else []
        yield f"{shown(name)}: {', '.join(parts)}"


def _unheard(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use, maybe by another dev broker; --port 0 takes a free one"
    return f"cannot listen on port {port} of {host}: {error.strerror or error}"


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


def _port(text: str) -> int:
    number = whole_number(text)
    if number is None or number > 65535:
        raise argparse.ArgumentTypeError("must be a number from 0 to 65535")
    return number


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


def _users(logins: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """Login -> passcode. Raises UsageError if a password is missing or cannot be read."""
    if files and len(files) != len(logins):
        raise UsageError(f"there must be as many --password-file as --user: {len(files)} and {len(logins)}")
    if files:
        return dict(zip(logins, map(first_line, files), strict=True))
    password = os.environ.get(_PASSWORD_VARIABLE)
    if logins and password is None:
        raise UsageError(f"--user needs a password, in --password-file or {_PASSWORD_VARIABLE}")
    return dict.fromkeys(logins, password or "")
