"""Heart-beats (STOMP 1.1 and 1.2, "Heart-beating"): the header, its negotiation and the deadlines.

All intervals are milliseconds, as on the wire; all times are seconds of one monotonic clock, passed in.
"""

from __future__ import annotations

import re

from spark_stomp.errors import HeartbeatLost, RemoteProtocolError
from spark_stomp.quoting import quoted

NO_HEARTBEAT = (0, 0)

# Two decimal numbers without sign or space. 18 digits hold any interval that makes sense.
_HEADER = re.compile(r"([0-9]{1,18}),([0-9]{1,18})\Z")

# A beat goes out after this part of the interval: some peers (ActiveMQ Classic) allow no delay on the way.
_SEND_AFTER = 0.6


def parse_heartbeat(value: str | None) -> tuple[int, int]:
    """The two numbers of a ``heart-beat`` header: what its sender can send and would like to get, in ms.

    None, a missing header, means ``0,0``.

    Raises:
        RemoteProtocolError: the value is not two unsigned numbers with a comma between them.
    """
    if value is None:
        return NO_HEARTBEAT
    match = _HEADER.match(value)
    if match is None:
        raise RemoteProtocolError(
            f"invalid heart-beat header {quoted(value, 64)}: expected two numbers as in '0,10000'"
        )
    return int(match[1]), int(match[2])


def heartbeat_header(pair: tuple[int, int]) -> str:
    """The value of the ``heart-beat`` header for (what we can send, what we would like to get), in ms."""
    return f"{pair[0]},{pair[1]}"


def interval(can_send: int, wants: int) -> int:
    """The interval of one direction in ms: the larger of the two numbers, 0 (none) if either is 0."""
    return max(can_send, wants) if can_send and wants else 0


def negotiate_heartbeat(ours: tuple[int, int], theirs: tuple[int, int]) -> tuple[int, int]:
    """What both headers mean for us: (send every .. ms, expect something every .. ms); 0 = never."""
    return interval(ours[0], theirs[1]), interval(theirs[0], ours[1])


class HeartbeatTimer:
    """When the next beat is due, and when the peer counts as lost.

    Args:
        intervals: negotiated (send, receive) intervals in ms, as :func:`negotiate_heartbeat` gives them.
        now: the time both directions start from.
        margin: how much later than promised bytes may come, as a part of the receive interval (1.0 = twice
            the interval). The specification asks receivers for such a margin.
    """

    __slots__ = ("_last_received", "_last_sent", "_receive_within", "_send_after", "intervals")

    def __init__(self, intervals: tuple[int, int], now: float, *, margin: float) -> None:
        self.intervals = intervals
        self._send_after = intervals[0] / 1000 * _SEND_AFTER
        self._receive_within = intervals[1] / 1000 * (1 + margin)
        self._last_sent = now
        self._last_received = now

    def sent(self, now: float) -> None:
        """Bytes were sent at ``now``; any frame counts as a beat."""
        self._last_sent = now

    def received(self, now: float) -> None:
        """Bytes came at ``now``; every byte counts as a beat, whole frame or not."""
        self._last_received = now

    def deadline(self, *, sending: bool = True) -> float | None:
        """The next time at which something is due; None if neither direction beats.

        ``sending=False`` leaves our own beats out.
        """
        times = []
        if self._receive_within:
            times.append(self._last_received + self._receive_within)
        if self._send_after and sending:
            times.append(self._last_sent + self._send_after)
        return min(times, default=None)

    def beat_due(self, now: float) -> bool:
        """Whether a beat must be sent now."""
        return bool(self._send_after) and now >= self._last_sent + self._send_after

    def check(self, now: float) -> None:
        """Raise HeartbeatLost if the peer was silent for longer than its interval and the margin."""
        silence = now - self._last_received
        if self._receive_within and silence >= self._receive_within:
            raise HeartbeatLost(
                f"nothing received for {silence:.1f} s; the peer promised a heart-beat every "
                f"{self.intervals[1]} ms and was given {self._receive_within:.1f} s"
            )
