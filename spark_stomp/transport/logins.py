"""The password of the next CONNECT, and the logins that were refused lately."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_stomp.errors import ClientIdInUse, LoginRefused, PasswordUnreadable

if TYPE_CHECKING:
    from spark_stomp.options import ConnectionOptions

REFUSED_PAUSE: Final = 30.0
"""Seconds for which this process does not send a refused password again. Servers lock accounts
after some refusals in a row, most for minutes."""
# Bytes of a password file that are read. Tokens have a few thousand.
_LARGEST_FILE = 64 << 10
_KEY = secrets.token_bytes(32)


def fingerprint(*texts: object) -> bytes:
    """What tells these texts, or tuples of texts, from others in this process, and not what they are."""
    return hashlib.blake2b(repr(texts).encode(errors="surrogatepass"), key=_KEY, digest_size=32).digest()


def password_of(options: ConnectionOptions) -> str | None:
    """The password for a CONNECT now: ``password``, or the content of ``passwordFile``; None without either.

    One line break at the end of the file does not belong to it, nor does a byte order mark at its begin.

    Raises PasswordUnreadable, which names the file and shows nothing of its content.
    """
    file = options.password_file
    if file is None:
        return options.password
    try:
        # Opening a pipe would wait for a writer, perhaps for ever.
        if Path(file).exists() and not Path(file).is_file():
            raise PasswordUnreadable(f"passwordFile {file} is not a regular file")
        with Path(file).open("rb") as opened:
            content = opened.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise PasswordUnreadable(f"passwordFile {file} cannot be read: {error.strerror}") from None
    # Not strictly: the error of Python has the content, and would be the context of ours.
    text = content.decode(errors="replace")
    password = text.removeprefix("\ufeff").removesuffix("\n").removesuffix("\r")
    if problem := _problem(password, content):
        raise PasswordUnreadable(f"passwordFile {file} {problem}")
    return password


def _problem(password: str, content: bytes) -> str | None:
    if len(content) > _LARGEST_FILE:
        return f"has more than {_LARGEST_FILE >> 10} KiB, which is no password"
    if content.decode(errors="ignore").encode() != content:
        return "is not UTF-8 text"
    if not password:
        return "is empty"
    if any(character in password for character in "\n\r\0"):
        return "has more than one line, or a NUL; write the password alone"
    return None


class RefusedLogins:
    """Logins that brokers have refused to this process. Thread-safe: each step is one call of a dictionary.

    In one process receivers, tasks one after the other, and tasks that Spark tries again at once may connect.
    If all of them sent a refused password, some servers would lock the account. Logins are given as
    fingerprints, and of a refusal only its text is kept: an error would keep the password in its traceback.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[bytes, tuple[float, str]] = {}

    def check(self, login: bytes) -> None:
        """Raise the refusal of ``login`` if it came less than ``REFUSED_PAUSE`` ago."""
        since, refusal = self._known.get(login, (0.0, ""))
        ago = self._clock() - since
        if refusal and ago < REFUSED_PAUSE:
            raise LoginRefused(
                f"{refusal}; that was {ago:.0f} s ago, and this process does not send a refused "
                f"password again for {REFUSED_PAUSE:g} s, because some servers would lock the account"
            )

    def note(self, login: bytes, refusal: LoginRefused) -> None:
        """Note that the broker refused ``login`` now. A refusal of its ``clientId`` alone is not noted."""
        if isinstance(refusal, ClientIdInUse):
            return
        now = self._clock()
        outdated = [one for one, (since, _) in list(self._known.items()) if now - since >= REFUSED_PAUSE]
        for one in outdated:
            self._known.pop(one, None)
        self._known[login] = now, refusal.message
