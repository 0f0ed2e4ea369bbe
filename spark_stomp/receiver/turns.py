"""What the next connection of a receiver asks for, after connections that an ERROR ended.

Some brokers cannot turn every message into STOMP: they end the connection at each attempt to deliver it. It
stays at its place in the queue, and what was sent before it comes again. A receiver that asks for as much as
ever gives the same rows again and again, and drives good messages to the broker's limit of deliveries.

Plan. A *turn* is what one connection reads: destinations, and how many messages of each may be un-acked. An
ERROR may be about a message if it answers no request and comes at once after messages were asked for. One
such ERROR may have any cause, and the next connection asks for as much as before. If that one does not get
past what came on the first, the receiver becomes *careful*. A destination is asked for a hundredth of the
messages that came, at last for one. Each has a turn of its own, so that the one that is the cause is found;
the others wait meanwhile. What a careful connection brings settles first: it counts as received once nothing
more comes for a moment, because by then the connection would have ended. A careful turn is over once more
messages are ACKed than came before it, or once nothing more comes (turn_state.py). After the last turn, all
destinations are read as the options say.

Invariants:

- A turn that ends early goes behind the others, and they do not wait for its pause.
- If one message may be un-acked, no message comes twice because of what is behind it.
- Three connections in a row that read one destination, and that such an ERROR ends before anything is
  achieved, end the query. A connection that ends in another way proves nothing about a message.

A hundredth, because each step costs a message a delivery, and Artemis drops it after ten: with a prefetch of
40,000 the steps are 400, 4 and 1. Each is done after some hundred batches.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from spark_stomp.errors import BrokerError, StompError
from spark_stomp.quoting import counted, listed

_PART: Final = 100
# An ERROR because of a message comes within these seconds after SUBSCRIBE or ACKs asked for it, and the time
# that the messages before it take at so many bytes a second.
_AT_ONCE: Final = 2.0
_SLOW: Final = 10e6
# Connections in a row that make a receiver careful, and that end the query.
_CAREFUL_AFTER: Final = 2
_MOST_FAILURES: Final = 3
# Seconds before the next attempt, for each failure in a row. A cluster that fails over may answer with an
# ERROR for some seconds.
_PAUSE: Final = 5.0


def may_be_about_a_message(error: StompError, since: float, size: int) -> bool:
    """Whether ``error`` may have ended a connection because of a message.

    ``size`` bytes are un-acked, and messages were asked for ``since`` seconds.
    """
    return (
        type(error) is BrokerError
        and error.verdict not in {"passes", "either"}
        and since < _AT_ONCE + size / _SLOW
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """What one connection reads.

    Attributes:
        destinations: these, together.
        prefetch: how many messages of each may be un-acked; None if the options say that.
        suspects: how many messages came un-acked on the connection that ended. The message because of which
            it ended may be the next one.
        errors: how many ERRORs in a row may have been about a message, without getting past the suspects.
        failures: how many of the last ones came before anything was achieved.
    """

    destinations: tuple[str, ...]
    prefetch: int | None = None
    suspects: int = 0
    errors: int = 0
    failures: int = 0

    def __str__(self) -> str:
        """The end of a line in the log; empty if the options say how many messages come."""
        if self.prefetch is None:
            return ""
        return f"; {counted(self.prefetch, 'message')} of {listed(self.destinations)} at a time"

    @property
    def is_careful(self) -> bool:
        """Whether it asks for less than the options say."""
        return self.prefetch is not None

    @property
    def has_failed(self) -> bool:
        """Whether that was too often."""
        return self.failures >= _MOST_FAILURES

    @property
    def pause(self) -> float:
        """The least seconds before its connection."""
        return self.failures * _PAUSE


@dataclass(frozen=True, slots=True)
class Ended:
    """How a connection ended, if that was not planned.

    Attributes:
        unacked: how many messages came and have no confirmed ACK.
        given: how many of these Spark may know.
        achieved: how many ACKs were confirmed; of a stream, how many messages came.
        by_error: whether an ERROR ended it that may be about a message.
        acks_sent: whether ACKs waited for their receipts.
        limits_unacked: whether the broker obeys a smaller prefetch.
        redelivers: whether it redelivers what is not ACKed, and so stays at a message that it cannot deliver.
    """

    unacked: int
    given: int
    achieved: int
    by_error: bool
    acks_sent: bool = False
    limits_unacked: bool = True
    redelivers: bool = True

    @property
    def may_narrow(self) -> bool:
        """Whether it helps to ask for less."""
        return self.limits_unacked and self.redelivers


class Turns:
    """The turns of a receiver of ``destinations``. Used by its thread alone."""

    def __init__(self, destinations: tuple[str, ...]) -> None:
        self._all = Turn(destinations)
        self._turns = deque([self._all])

    @property
    def current(self) -> Turn:
        """What the present or the next connection reads."""
        return self._turns[0]

    def ended(self, end: Ended) -> Turn:
        """The connection of the present turn has ended, but not as planned. Returns what is known of it."""
        turn = self._turns.popleft()
        if not end.by_error:
            turn = replace(turn, suspects=max(0, turn.suspects - end.achieved), errors=0, failures=0)
            self._turns.appendleft(turn)
            return turn
        errors = 1 if end.achieved > turn.suspects else turn.errors + 1
        turn = replace(turn, suspects=end.unacked, errors=errors, failures=_failures(turn, end))
        if not end.may_narrow or (errors < _CAREFUL_AFTER and not turn.is_careful):
            self._turns.appendleft(turn)
            return turn
        part = max(1, end.unacked // _PART)
        turn = replace(turn, prefetch=min(part, turn.prefetch or part))
        self._turns += [replace(turn, destinations=(one,)) for one in turn.destinations]
        return turn

    def next(self) -> None:
        """The present turn is over: it is the next one's."""
        self._turns.popleft()
        if not self._turns:
            self._turns.append(self._all)


def _failures(turn: Turn, end: Ended) -> int:
    if end.achieved or len(turn.destinations) > 1:
        return 0
    # If more messages may be un-acked, the cause may be one behind those that came or were ACKed.
    least = turn.prefetch == 1 or not end.may_narrow
    at_once = end.redelivers and (not end.unacked or (least and not end.given))
    return turn.failures + 1 if at_once or (least and end.acks_sent) else 0
