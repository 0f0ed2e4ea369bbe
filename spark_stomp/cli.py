"""The command ``spark-stomp``: for now, the dev broker on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spark_stomp import __version__

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv`` (the process's own by default); returns the exit status."""
    arguments = _parser().parse_args(argv)
    status: int = arguments.run(arguments)
    return status


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
        type=_user,
        metavar="LOGIN:PASSWORD",
        help="let in this user only; may be repeated (default: let everyone in)",
    )
    broker.set_defaults(run=_run_devbroker)
    return parser


def _run_devbroker(arguments: argparse.Namespace) -> int:
    from spark_stomp.devbroker.cli import run

    run(arguments.host, arguments.port, dict(arguments.user) or None)
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError("must be a number from 0 to 65535")
    return int(text)


def _user(text: str) -> tuple[str, str]:
    login, colon, password = text.partition(":")
    if not login or not colon:
        raise argparse.ArgumentTypeError("must be LOGIN:PASSWORD")
    return login, password
