"""Confirmed ACKs that may have done nothing.

A broker that has forgotten a subscription may go on confirming its ACKs, and does nothing with them (seen
with ActiveMQ 6.3.1 in November 2026). It delivers nothing more by that subscription. So a message proves that
the ACKs that were confirmed before it were taken; those after the last message are unproved. They are at most
as many as the broker lets be un-acked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_stomp.frame_batch import MessageKey
from spark_stomp.receiver.blocks import Block


@dataclass(slots=True)
class _Confirmed:
    """Messages whose ACKs are confirmed: those of ``block``, or ``keys``.

    ``at``: how many reads had brought messages by then. They came by ``subscriptions``.
    """

    at: int
    subscriptions: frozenset[bytes | None]
    block: Block | None
    keys: Sequence[MessageKey] = ()


class UnprovedAcks:
    """Those of one connection, for the thread of its receiver.

    While messages flow, each read proves what was confirmed before it, so their keys, which take 2
    microseconds a message, are made only once more than ``max_bytes`` of frames are unproved.

    Attributes:
        came_by: the number of the last read that brought messages by each subscription, whose names are those
            on the wire. Any thread may look.
    """

    def __init__(self, max_bytes: int) -> None:
        self.came_by: dict[bytes | None, int] = {}
        self._max_bytes = max_bytes
        self._reads = self._proved_at = self._raw_bytes = 0
        self._confirmed: list[_Confirmed] = []

    def came(self, subscriptions: Iterable[bytes | None]) -> frozenset[bytes | None]:
        """A read brought messages by these subscriptions, which are returned, each once."""
        self._reads += 1
        names = frozenset(subscriptions) or frozenset((None,))
        self.came_by.update(dict.fromkeys(names, self._reads))
        return names

    def confirm(self, blocks: Iterable[Block], keys: Sequence[MessageKey]) -> None:
        """All ACKs of ``blocks`` are confirmed, and those of redelivered messages, which have these keys.

        Call it while the blocks have their data.
        """
        self._forget_proved()
        for block in blocks:
            if block.ids is not None:
                self._raw_bytes += len(block.batch.data)
                self._confirmed.append(_Confirmed(self._reads, block.subscriptions, replace(block)))
        if keys:
            # By which subscription each came again is not known here.
            self._confirmed.append(_Confirmed(self._reads, frozenset(self.came_by), None, keys))
        if self._raw_bytes > self._max_bytes:
            self._make_keys()

    @property
    def keys(self) -> list[MessageKey | None]:
        """The keys of all messages whose ACK is confirmed and not proved."""
        self._forget_proved()
        self._make_keys()
        return [key for one in self._confirmed for key in one.keys]

    def _forget_proved(self) -> None:
        if self._proved_at == self._reads:
            return
        self._proved_at = self._reads
        self._confirmed = [one for one in self._confirmed if not _is_proved(one, self.came_by)]
        self._raw_bytes = sum(len(one.block.batch.data) for one in self._confirmed if one.block is not None)

    def _make_keys(self) -> None:
        for one in self._confirmed:
            if one.block is not None:
                one.keys, one.block = [*filter(None, one.block.all_keys)], None
        self._raw_bytes = 0


def _is_proved(one: _Confirmed, came_by: Mapping[bytes | None, int]) -> bool:
    return all(came_by.get(name, 0) > one.at for name in one.subscriptions)
