"""Asks the broker now and then how much waits in the queues that a query reads, and who else reads them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from spark_stomp.errors import PasswordUnreadable, StompError, UnsupportedError
from spark_stomp.logs import get_log, in_context
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.transport.logins import fingerprint, password_of
from spark_stomp.transport.standing import LoginNotAccepted, Told, standing

log = get_log(__name__)

# Seconds before each question, also before the first one: short runs ask nothing.
_PERIOD: Final = 30.0
# Queues that are asked for, because each question is a connection.
_MOST_ASKED: Final = 5
# Seconds that a connection for a question may take.
_PATIENCE: Final = 5.0
# Seconds after which a refused password is sent again. No figure is worth an account that is locked, and some
# servers count the refusals of a quarter of an hour.
_REFUSED_PAUSE: Final = 600.0


class Standings:
    """Asks in a thread of its own, so that nothing ever waits for an answer. An error ends nothing.

    A broker that does not tell it of a queue is not asked again, unless the query names ``managementUrl``.
    The password may have changed since the query has connected: a refused one is not sent again for long.

    Attributes:
        told: the last answers, by queue. One that could not be renewed is gone.
    """

    def __init__(self, options: SourceOptions, statuses: Callable[[], Sequence[ReceiverStatus]]) -> None:
        self.told: dict[str, Told] = {}
        patience = min(options.connection.connect_timeout, _PATIENCE)
        self._options = replace(options.connection, connect_timeout=patience)
        self._queues = frozenset(options.queues)
        self._statuses = statuses
        self._not_told: set[str] = set()
        self._refused: tuple[bytes, float] | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        if self._queues:
            threading.Thread(target=in_context(self._run), name="stomp-standings", daemon=True).start()

    def stop(self) -> None:
        """Ask no more. A question that is under way is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(_PERIOD):
            self.ask()

    def ask(self) -> None:
        """Ask once for each queue that a connected receiver reads."""
        if self._is_refused():
            self.told = {}
            return
        connected = [one for one in self._statuses() if one.connection.connected]
        readers = Counter(name for one in connected for name in one.destinations if name in self._queues)
        at = {queue: one.connection for one in connected for queue in one.destinations}
        told: dict[str, Told] = {}
        for queue, own in readers.most_common(_MOST_ASKED):
            dialect = at[queue].dialect
            if dialect is None or queue in self._not_told or self._stopping.is_set():
                continue
            asked_at = time.monotonic()
            try:
                found = standing(self._options, dialect, queue, at[queue].peer)
            except LoginNotAccepted as error:
                log.debug("how much waits in the queues is not known: %s", error.message)
                self._refused = self._password(), asked_at
                break
            except UnsupportedError as error:
                log.debug("how much waits in %s is not known: %s", queue, error.message)
                if self._options.management_url is None:
                    self._not_told.add(queue)
            except StompError as error:
                log.debug("how much waits in %s is not known: %s", queue, error)
            else:
                told[queue] = Told(found, time.time(), asked_at, own)
        self.told = told

    def _is_refused(self) -> bool:
        """Whether the password of now was refused lately."""
        if self._refused is None:
            return False
        password, since = self._refused
        return password == self._password() and time.monotonic() - since < _REFUSED_PAUSE

    def _password(self) -> bytes:
        try:
            return fingerprint(password_of(self._options))
        except PasswordUnreadable:
            return b""
