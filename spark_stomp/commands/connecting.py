"""The arguments for the broker, the login and the options. None shows a password in the list of processes."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spark_stomp.brokers import Dialect
from spark_stomp.commands import UsageError
from spark_stomp.options import OPTIONS, ConnectionOptions
from spark_stomp.receiver import disconnect
from spark_stomp.transport import open_connection

LOGIN_VARIABLE: Final = "SPARK_STOMP_LOGIN"
PASSWORD_VARIABLE: Final = "SPARK_STOMP_PASSWORD"
_SECRETS: Final = frozenset(option.key.lower() for option in OPTIONS if option.secret) | {"passcode"}
_ARGUMENTS: Final = frozenset({"url", "destination", "path", "paths"})


def add_broker_arguments(parser: argparse.ArgumentParser, *, url_needed: bool = True) -> None:
    """Add the arguments for the URL, the login, the password and any other option."""
    parser.add_argument(
        "url",
        nargs=None if url_needed else "?",
        metavar="URL",
        help="stomp://host:61613, stomp+ssl://, ws:// or wss://, or a list",
    )
    add_option_arguments(parser)


def add_option_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the login, the password and any other option."""
    parser.add_argument("--login", help=f"user name (default: the environment variable {LOGIN_VARIABLE})")
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help="a file whose content is the password, or - for the first line of standard input (default: the "
        f"environment variable {PASSWORD_VARIABLE}, or a question in the terminal)",
    )
    parser.add_argument(
        *("-o", "--option"),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any option of the connector, such as tlsCaFile=ca.pem; a secret one takes KEY=@FILE",
    )


def option_texts(
    arguments: argparse.Namespace, refused: Mapping[str, str] | None = None, **more: str
) -> dict[str, str]:
    """The options from the arguments, as Spark would pass them.

    Args:
        arguments: what ``add_broker_arguments`` has parsed.
        refused: by key, the reason why this command does not use an option.
        more: defaults of the command.

    Raises:
        UsageError: the arguments are wrong, or an option is refused.
    """
    given = given_options(arguments, _ARGUMENTS)
    for key, why in (refused or {}).items():
        if key.lower() in given:
            raise UsageError(f"-o {key} has no effect here: {why}")
    texts = with_login(arguments, {"url": arguments.url, **given})
    return {key.lower(): text for key, text in more.items()} | texts


def with_login(arguments: argparse.Namespace, texts: dict[str, str]) -> dict[str, str]:
    """These options, with the login and the password of arguments and environment if they have none.

    Raises UsageError if a file cannot be read.
    """
    login = arguments.login or os.environ.get(LOGIN_VARIABLE)
    if login and "login" not in texts:
        texts = {**texts, "login": login}
    if not texts.keys() & {"password", "passwordfile"}:
        texts = texts | _password(arguments.password_file, texts.get("login"))
    return texts


def dialect_there(options: ConnectionOptions) -> Dialect:
    """The dialect of the broker, which a connection finds out that does nothing else."""
    with open_connection(options) as connection:
        connection.require_open()
        disconnect(connection, ())
        return connection.dialect


def first_line(file: str) -> str:
    """The first line of a file, or of standard input for ``-``, without its end. Raises UsageError."""
    return _content(file).partition("\n")[0].removesuffix("\r")


def given_options(arguments: argparse.Namespace, elsewhere: frozenset[str] = frozenset()) -> dict[str, str]:
    """The options of ``-o``, by their keys in lower case.

    Raises UsageError, also for those that are given ``elsewhere``.
    """
    texts: dict[str, str] = {}
    for pair in arguments.option:
        key, equals, text = pair.partition("=")
        key = key.strip().lower()
        if not equals or not key:
            # The error does not quote the pair: it may be a secret.
            raise UsageError("-o takes KEY=VALUE")
        if key in elsewhere:
            raise UsageError(f"-o {key}: URL and DESTINATION are arguments, not options")
        if key in texts:
            raise UsageError(f"-o {key} is given twice")
        if key in _SECRETS:
            if not text.startswith("@"):
                raise UsageError(
                    f"-o {key} is secret, and everyone on the machine can read the list of processes: write "
                    f"it to a file and give -o {key}=@FILE"
                    + (f", --password-file or {PASSWORD_VARIABLE}" if key.startswith("pass") else "")
                )
            text = first_line(text[1:]) if key.startswith("pass") else _content(text[1:])
        texts[key] = text
    return texts


def _content(file: str) -> str:
    try:
        # Not through the text layer, which reads ahead: what follows the line may be messages.
        content = sys.stdin.buffer.readline() if file == "-" else Path(file).read_bytes()
        return content.decode().rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _password(file: str | None, login: str | None) -> dict[str, str]:
    """The option for the password: ``passwordFile`` or ``password``, or none of them."""
    if file is not None:
        # Standard input and pipes can be read only once; the option is read for each connection.
        return {"passwordfile": file} if Path(file).is_file() else {"password": first_line(file)}
    if login is None:
        return {}
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is None and sys.stdin.isatty() and sys.stderr.isatty():
        try:
            password = getpass.getpass(f"Password of {login}: ", sys.stderr)
        except EOFError:
            raise UsageError("no password was typed") from None
    return {} if password is None else {"password": password}
