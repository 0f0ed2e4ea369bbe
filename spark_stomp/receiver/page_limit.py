"""Notices a broker that stops at a limit of its own, below the prefetch it was asked for.

ActiveMQ stops at whole pages of un-acked messages, however large the prefetch. A queue that has exactly so
many messages looks the same. So a stop at whole pages counts as the limit for the time being, and no batch
waits in vain (contract 5). The limit is certain if the next messages come as soon as ACKs make room. From
then on it is used at once, until the broker sends more than that.

Times are monotonic seconds, passed in.
"""

from __future__ import annotations

# Silence after which a broker with whole pages un-acked seems to hold the rest back.
_STALL = 1.0
# Messages that were held back come so soon after the receipt for the ACKs that made room.
_PROMPT = 0.25


class PageLimitDetector:
    """What one receiver has learned of its broker.

    ``page``: the broker may stop at a multiple of so many un-acked messages; None if it does not.
    ``prefetch``: where it stops in any case.
    """

    def __init__(self, page: int | None, prefetch: int) -> None:
        self._page = page
        self._prefetch = prefetch
        self._stalled_at: int | None = None
        self._room_until: float | None = None
        self.learned: int | None = None

    def holds_back(self, unacked: int, quiet: float, *, acks_pending: bool = False) -> bool:
        """Whether no more messages will come while ``unacked`` are un-acked.

        ``quiet``: seconds in which nothing happened that could bring messages. ``acks_pending``: ACKs are
        about to make room.
        """
        if self.learned is not None and unacked >= self.learned and not acks_pending:
            return True
        return self._is_whole_pages(unacked) and quiet >= _STALL

    @property
    def suspected(self) -> int | None:
        """The un-acked messages at which the broker seems to have stopped; None if it has not."""
        return self._stalled_at

    def watch(self, unacked: int, quiet: float) -> None:
        """Called now and then while nothing comes."""
        if self._is_whole_pages(unacked) and quiet >= _STALL:
            self._stalled_at = unacked

    def acks_sent(self) -> None:
        """The broker has been told of ACKs, which make room."""
        if self._stalled_at is not None:
            self._room_until = float("inf")

    def acks_confirmed(self, now: float) -> None:
        """The broker's receipt for them came."""
        if self._room_until is not None:
            self._room_until = now + _PROMPT

    def delivered(self, unacked: int, now: float) -> bool:
        """Messages came, ``unacked`` are un-acked now. True if that makes the limit certain: ``learned``."""
        if self.learned is not None and unacked > self.learned:
            self.learned = None
        stalled_at, self._stalled_at = self._stalled_at, None
        room_until, self._room_until = self._room_until, None
        if stalled_at is None or room_until is None or now > room_until:
            return False
        self.learned = stalled_at
        return True

    def _is_whole_pages(self, unacked: int) -> bool:
        page = self._page
        return page is not None and 0 < unacked < self._prefetch and unacked % page == 0
