"""What became of one receiver's connections, for its status and for its log. No clock, no log, no thread."""

from __future__ import annotations

from dataclasses import replace

from spark_stomp.errors import StompError
from spark_stomp.receiver.settings import ConnectionStatus, Counts
from spark_stomp.transport.retry import refuses_login

# What comes again comes soon: a connection is told of after this much silence, at the latest after so many
# messages or seconds.
_SILENCE = 1.0
_MESSAGES = 10_000
_SECONDS = 10.0
# Of a broker's error, in characters.
_SHOWN = 1_000


class ConnectionHistory:
    """``status`` is a snapshot that any thread may take. Times are seconds since 1970."""

    def __init__(self, now: float) -> None:
        self.status = ConnectionStatus(since=now)
        self._away = 0.0
        self._before: Counts | None = None  # of a connection that is not told of yet

    @property
    def has_news(self) -> bool:
        """Whether a connection is not told of yet."""
        return self._before is not None

    def connected(self, now: float, counts: Counts) -> None:
        """A connection is subscribed; ``counts`` are what the earlier ones brought."""
        status = self.status
        if status.connections:
            self._away, self._before = now - status.since, counts
        self.status = replace(
            status, connected=True, since=now, attempts=0, connections=status.connections + 1
        )

    def failed(self, error: StompError, now: float) -> bool:
        """A connection ended, or could not be had. False if the one before could not be had either, unless
        somebody has to mend the login."""
        status = self.status
        self.status = replace(
            status,
            connected=False,
            since=now if status.connected else status.since,
            attempts=0 if status.connected else status.attempts + 1,
            last_error=str(error)[:_SHOWN],
            last_error_at=now,
        )
        first = self.status.attempts == (0 if status.connections else 1)
        return first or refuses_login(error)

    def connected_again(
        self, counts: Counts, quiet: float, now: float, *, ending: bool = False
    ) -> str | None:
        """What to tell, once, of a connection that replaced a lost one; None if there is nothing, or if more
        may come again.

        ``quiet`` is how long nothing has come, in seconds; ``ending``: nothing more will.
        """
        before = self._before
        if before is None:
            return None
        brought = counts.delivered - before.delivered
        stood = now - self.status.since
        if not ending and quiet < _SILENCE and brought < _MESSAGES and stood < _SECONDS:
            return None
        self._before = None
        # Not every broker marks all that came again, and not all have a known id.
        marked = counts.redelivered - before.redelivered
        known = counts.reattached + counts.dropped - before.reattached - before.dropped
        return f"connected again after {self._away:.1f} s, {max(marked, known)} redelivered"
