"""Run an in-memory STOMP broker, for development only.

When it ends, all messages are lost. It has queues (any destination) and topics
(/topic/...), browsing, transactions, and durable subscriptions.

examples:
  spark-stomp devbroker --port 0 --verbose
  SPARK_STOMP_DEVBROKER_PASSWORD=... spark-stomp devbroker --login ada

exit codes:
  0    ended by Ctrl-C or SIGTERM
  1    the port is in use, or the address is not one of this machine
  2    the arguments are wrong
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping

from spark_stomp.commands import FINE, UsageError
from spark_stomp.devbroker import DevBroker, QueueView
from spark_stomp.logs import set_level
from spark_stomp.quoting import shown, whole_number

_PASSWORD_VARIABLE = "SPARK_STOMP_DEVBROKER_PASSWORD"
_NOTICE = "In memory and for development only: when it ends, all messages are lost. Ctrl-C ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=_port, default=61613, help="port; 0 takes a free one (%(default)s)")
    parser.add_argument(
        "--login",
        help="accept only clients with this login, and with the password in the environment variable "
        f"{_PASSWORD_VARIABLE} (default: accept everyone). No argument takes the password itself, because "
        "everyone on the machine can read the list of processes",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show who connects and subscribes, and each second the queues that changed",
    )


def run(arguments: argparse.Namespace) -> int:
    broker = DevBroker(host=arguments.host, port=arguments.port, users=_users(arguments.login))
    if arguments.verbose:
        set_level("info")
    try:
        broker.start()
    except OSError as error:
        raise OSError(_cannot_listen(error, arguments.host, arguments.port)) from error
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    try:
        with contextlib.suppress(KeyboardInterrupt):
            _serve(broker, ended, verbose=arguments.verbose)
    finally:
        broker.stop()
    return FINE


def _serve(broker: DevBroker, ended: threading.Event, *, verbose: bool) -> None:
    sys.stdout.write(f"STOMP broker at {broker.url}\n{_NOTICE}\n")
    sys.stdout.flush()
    before: Mapping[str, QueueView] = {}
    # One second at a time: on some platforms Ctrl-C does not interrupt a wait without a timeout.
    while not ended.wait(1.0):
        if verbose:
            now = broker.queues()
            sys.stdout.writelines(line + "\n" for line in moved(before, now))
            sys.stdout.flush()
            before = now


def moved(before: Mapping[str, QueueView], now: Mapping[str, QueueView]) -> Iterator[str]:
    """A line for each queue that has changed: its depth, and what has been added to its counts."""
    for name, view in now.items():
        past = before.get(name, QueueView(0, 0, 0, 0, 0, 0))
        if view == past:
            continue
        parts = [f"depth {view.depth:,} ({view.unacked:,} un-acked)"]
        for what in ("enqueued", "delivered", "redelivered", "acked", "expired"):
            count = getattr(view, what) - getattr(past, what)
            if count:
                parts.append(f"+{count:,} {what}")
        yield f"{shown(name)}: {', '.join(parts)}"


def _cannot_listen(error: OSError, host: str, port: int) -> str:
    """The error text if the dev broker cannot listen at this address."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use, maybe by another dev broker; --port 0 takes a free one"
    return f"cannot listen on port {port} of {host}: {error.strerror or error}"


def _port(text: str) -> int:
    number = whole_number(text)
    if number is None or number > 65535:
        raise argparse.ArgumentTypeError("must be a number from 0 to 65535")
    return number


def _users(login: str | None) -> dict[str, str] | None:
    """The password by login; None lets everyone in. Raises UsageError if there is no password."""
    if login is None:
        return None
    if ":" in login:
        # The error does not quote it: what follows the colon may be a password.
        raise UsageError(f"--login takes a login alone; the password comes from {_PASSWORD_VARIABLE}")
    password = os.environ.get(_PASSWORD_VARIABLE)
    if not login or not password:
        raise UsageError(f"--login needs a login, and its password in {_PASSWORD_VARIABLE}")
    return {login: password}
