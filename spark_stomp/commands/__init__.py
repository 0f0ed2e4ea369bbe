"""The command ``spark-stomp``: one module for each of its commands, and the exit codes of all.

::

    main          the command line: finds the command, turns errors into exit codes
    connecting    the arguments for the broker, the login and the options
    probe         what the broker is, and what the connector will do with it (``trial``)
    send          sends one message for each line, and waits until each is confirmed
    peek          shows the oldest messages of a queue, without consuming them
    tail          shows the newest messages of a stream, and what comes to it or to a topic
    messages      how peek and tail show messages
    schema        the schema of the bodies that peek has seen
    lines         the bodies that send and peek take from files
    unsubscribe   ends the durable subscriptions that a query has left
    why           says in three lines why a query does not get on
    status        shows the status of queries as tables
    statuses      reads the status of a query for these two
    diagnosis     how a query is, from its status alone
    devbroker     runs the dev broker
    screen        tables, colours and progress, by ``rich``

A command is a module with ``add_arguments(parser)`` and ``run(arguments)``, which returns the exit code
and may raise UsageError, StompError and OSError. Its docstring is its help. None needs Spark.
docs/command-line.md lists the exit codes too. One that writes by itself, or imports ``rich``, is named in
tests/unit/test_strangers.py or test_architecture.py.
"""

from __future__ import annotations

from typing import Final

from spark_stomp.errors import (
    ConnectFailed,
    ConnectTimeout,
    LoginRefused,
    NotStompServer,
    OptionError,
    StompError,
    TlsRefused,
    VersionError,
)

FINE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
TLS: Final = 4
LOGIN: Final = 5
INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141

EXIT_CODES: Final = f"""\
exit codes:
  {FINE}    done
  {FAILED}    failed; the last line on stderr says why
  {USAGE}    the arguments are wrong
  {UNREACHABLE}    no STOMP broker answers there
  {TLS}    TLS failed: a certificate, or a file
  {LOGIN}    the broker refused the login
  {INTERRUPTED}  Ctrl-C"""


class UsageError(Exception):
    """The arguments are wrong. The text says what to write instead."""


def exit_code(error: StompError) -> int:
    """The exit code of a command that ends with this error."""
    codes: dict[type[StompError], int] = {OptionError: USAGE, TlsRefused: TLS, LoginRefused: LOGIN}
    codes |= dict.fromkeys((ConnectFailed, ConnectTimeout, NotStompServer, VersionError), UNREACHABLE)
    return next((code for error_class, code in codes.items() if isinstance(error, error_class)), FAILED)
