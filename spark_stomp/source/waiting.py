"""How long ``latestOffset`` waits, and for what; pure.

Under the default trigger an answer without news is simply asked for again some milliseconds later. Under
Trigger.Once and AvailableNow "no news" ends the run, so there it must mean that the subscription stood and
was silent.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from spark_stomp.receiver import ReceiverStatus
from spark_stomp.source.planner import Available, Limits, is_ready

__all__ = ["SETTLE", "SETTLE_AT_MOST", "Decision", "Mode", "Situation", "decide"]

# A single batch or a drain is cut after this many seconds without a further message.
SETTLE = 0.2
# ... and after this many at the latest, where messages never stop coming.
SETTLE_AT_MOST = 1.0


class Mode(enum.Enum):
    """What the trigger wants of ``latestOffset``."""

    STREAMING = "streaming"
    ONCE = "once"
    DRAIN = "drain"


class Decision(enum.Enum):
    """What to do now: cut a batch, answer that nothing is new, or wait and look again."""

    CUT = "cut"
    NOTHING_NEW = "nothing new"
    WAIT = "wait"


@dataclass(frozen=True)
class Situation:
    """What there is at monotonic time ``now``.

    ``drain_until`` is when a drain has to end; ``pending_since`` is when the oldest new message was first
    seen, None where there is none. ``unsettled``: more will be new without any more coming.
    """

    statuses: Sequence[ReceiverStatus]
    available: Sequence[Available]
    now: float
    pending_since: float | None
    drain_until: float
    idle_timeout: float
    unsettled: bool = False

    @property
    def new(self) -> int:
        return sum(receiver.new for receiver in self.available)

    @property
    def silence(self) -> float:
        """Seconds since the last message came, or since anything happened that could bring one.

        Nothing counts as silence while a connection is being tried again, nor while ACKs are unconfirmed: the
        broker's window may be full until then.
        """
        if self.unsettled or any(one.acks_pending or not one.subscribed for one in self.statuses):
            return 0.0
        return self.now - max(status.last_active for status in self.statuses)

    @property
    def waited(self) -> float:
        """Seconds since the oldest new message was first seen; 0 where there is none."""
        return 0.0 if self.pending_since is None else self.now - self.pending_since


def decide(mode: Mode, limits: Limits, situation: Situation) -> Decision:
    """What ``latestOffset`` does now; contract 5 says that it never waits for what cannot come."""
    if mode is Mode.STREAMING:
        ready = is_ready(situation.available, limits, situation.waited)
        return Decision.CUT if ready else Decision.NOTHING_NEW
    if mode is Mode.DRAIN and situation.now >= situation.drain_until:
        return Decision.NOTHING_NEW
    if situation.new:
        return Decision.CUT if _settled(limits, situation) else Decision.WAIT
    return Decision.NOTHING_NEW if situation.silence >= situation.idle_timeout else Decision.WAIT


def _settled(limits: Limits, situation: Situation) -> bool:
    """Enough for a batch: the limit, a full window, a moment of silence, or producers that never pause."""
    if limits.max_messages is not None and situation.new >= limits.max_messages:
        return True
    if any(receiver.full for receiver in situation.available):
        return True
    return situation.silence >= SETTLE or situation.waited >= SETTLE_AT_MOST
