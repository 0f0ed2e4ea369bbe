"""What a task of the sink counts, and how the figures of tasks become those of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

# Latencies are counted in steps of 2 ** (1 / 4), about a fifth, from 0.1 ms to several hours.
_LEAST, _STEPS, _COUNT = 1e-4, 4, 112


def _no_latencies() -> npt.NDArray[np.int64]:
    return np.zeros(_COUNT, np.int64)


@dataclass
class TaskFigures:
    """What became of the messages of one or more tasks.

    Attributes
    ----------
    connections : connections that stood, the replaced ones too.
    confirmed : messages that the broker confirmed.
    resent : messages sent once more after a connection broke; the most that came twice because of it.
    dropped, dead_lettered : rows that could not be sent: left out, or sent to the dead letter destination.
    blocked_seconds : for how long the broker was blocked.
    """

    connections: int = 0
    confirmed: int = 0
    resent: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    blocked_seconds: float = 0.0
    _latencies: npt.NDArray[np.int64] = field(default_factory=_no_latencies, repr=False, compare=False)

    def count_latencies(self, seconds: npt.NDArray[np.float64]) -> None:
        """Note how long messages waited for their receipts."""
        steps = np.log2(np.maximum(seconds, _LEAST) / _LEAST) * _STEPS
        self._latencies += np.bincount(np.minimum(steps.astype(np.int64), _COUNT - 1), minlength=_COUNT)

    def add(self, other: TaskFigures) -> None:
        """Count the messages of ``other`` too."""
        self.connections += other.connections
        self.confirmed += other.confirmed
        self.resent += other.resent
        self.dropped += other.dropped
        self.dead_lettered += other.dead_lettered
        self.blocked_seconds += other.blocked_seconds
        self._latencies += other._latencies

    def latency(self, part: float) -> float | None:
        """Within how many seconds this part of the messages had their receipts; None without any."""
        counted = np.cumsum(self._latencies)
        if not counted[-1]:
            return None
        step = int(np.searchsorted(counted, part * counted[-1]))
        return float(_LEAST * 2 ** ((step + 1) / _STEPS))
