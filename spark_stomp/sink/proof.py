"""Proves that the broker takes us, once a query, even if there is nothing to send."""

from __future__ import annotations

import threading

from spark_stomp.errors import StompError
from spark_stomp.logs import get_log
from spark_stomp.options import SinkOptions
from spark_stomp.sink.status import was_reported
from spark_stomp.transport import open_connection

log = get_log(__name__)

_DISCONNECT_TIMEOUT = 5.0


class ProvedRuns:
    """The runs of queries whose options are proved: URL, TLS, login and virtual host. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[tuple[str | None, str] | None] = set()

    def prove(self, options: SinkOptions, run: str | None, *, connected: bool) -> None:
        """Connect, unless a task has ``connected``, or an earlier batch of the run was done; None: no stream.

        Raises what ``open_connection`` raises.
        """
        key = None if run is None else (options.checkpoint_location, run)
        with self._lock:
            if not (connected or key in self._known or was_reported(options, run)):
                _connect(options)
            if key is not None:
                self._known.add(key)


def _connect(options: SinkOptions) -> None:
    with open_connection(options.connection) as connection:
        try:
            connection.disconnect(_DISCONNECT_TIMEOUT)
        except StompError as error:
            log.info("the connection that proved the login did not end in order: %s", error)
