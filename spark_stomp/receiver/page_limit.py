"""A broker that holds messages back at a cap of its own, below the prefetch it was asked for; pure.

ActiveMQ stops at whole pages of un-acked messages, however large the prefetch. Nothing tells that from a
queue that happens to hold so many. So it counts as a cap for the time being, that no batch waits in vain
(contract 5), and as a certain one when the next messages come the moment ACKs make room. A cap that is
certain is used at once from then on, until the broker sends more than that.

Times are monotonic seconds, passed in.
"""

from __future__ import annotations

__all__ = ["PageLimitDetector"]

# Silence after which a broker with whole pages un-acked seems to hold the rest back.
_STALL = 1.0
# What was held back comes so soon after the receipt for the ACKs that made room for it.
_PROMPT = 0.25


class PageLimitDetector:
    """What one receiver has learned of its broker.

    ``page``: the un-acked messages at a multiple of which the broker may stop; None where it does not.
    ``prefetch``: where it stops anyway.
    """

    def __init__(self, page: int | None, prefetch: int) -> None:
        self._page = page
        self._prefetch = prefetch
        self._stalled_at: int | None = None
        self._room_until: float | None = None
        self.learned: int | None = None

    def holds_back(self, outstanding: int, quiet: float, *, acks_pending: bool = False) -> bool:
        """Whether no more is to be expected with ``outstanding`` messages un-acked.

        ``quiet`` is for how many seconds nothing has happened that could bring any; ``acks_pending`` says
        that ACKs are about to make room.
        """
        if self.learned is not None and outstanding >= self.learned and not acks_pending:
            return True
        return self._is_whole_pages(outstanding) and quiet >= _STALL

    def watch(self, outstanding: int, quiet: float) -> None:
        """Look now and then, while nothing comes."""
        if self._is_whole_pages(outstanding) and quiet >= _STALL:
            self._stalled_at = outstanding

    def acks_sent(self) -> None:
        """The broker has been told of ACKs, which make room."""
        if self._stalled_at is not None:
            self._room_until = float("inf")

    def acks_confirmed(self, now: float) -> None:
        """The broker's receipt for them came."""
        if self._room_until is not None:
            self._room_until = now + _PROMPT

    def delivered(self, outstanding: int, now: float) -> bool:
        """Messages came, ``outstanding`` are un-acked now. True where that makes a cap certain: it is
        ``learned`` then."""
        if self.learned is not None and outstanding > self.learned:
            self.learned = None
        stalled_at, self._stalled_at = self._stalled_at, None
        room_until, self._room_until = self._room_until, None
        if stalled_at is None or room_until is None or now > room_until:
            return False
        self.learned = stalled_at
        return True

    def _is_whole_pages(self, outstanding: int) -> bool:
        page = self._page
        return page is not None and 0 < outstanding < self._prefetch and outstanding % page == 0
