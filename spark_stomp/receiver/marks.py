"""Progress marks: how far one receiver has come.

A mark is a sequence number. It says something about every frame below it:

===============  ===================================================  =======================================
mark             the frames below it                                  moved by
===============  ===================================================  =======================================
``freed``        are not needed any more                              receipts of ACKs, the end of a
                                                                      connection, a commit without one
``unindexed``    are no longer held messages in the dedup index       receipts of ACKs, the end of a
                                                                      connection, a commit, a lack of room
``released``     must not be read any more                            a commit
``committed``    may be ACKed                                         a commit; recovery with
                                                                      ``ackAfter=journal``
``durable``      are in the journal                                   the journal's writer, recovery
``kept``         are never discarded                                  an offer to Spark, a redelivery that is
                                                                      attached, the journal's writer,
                                                                      recovery, a commit
``live_from``    came on an earlier connection                        the end of a connection, recovery
``received``     were received                                        each read; goes back to ``kept`` when
                                                                      frames are discarded
===============  ===================================================  =======================================

One more mark belongs to a connection and ends with it: ``AckQueue.confirmed <= committed``.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_stomp.errors import DeliveryError


@dataclass(slots=True)
class Marks:
    """The marks of one receiver. Hold the lock of the dedup index to change one; reading needs no lock.

    Invariants, checked each time marks are raised: ``freed <= released <= committed <= kept <= received``,
    ``unindexed <= committed``, ``durable <= kept`` and ``live_from <= received``. ``discards`` is not a mark:
    it counts how often frames were discarded.
    """

    freed: int = 0
    unindexed: int = 0
    released: int = 0
    committed: int = 0
    durable: int = 0
    kept: int = 0
    live_from: int = 0
    received: int = 0
    discards: int = 0

    def advance(self, **marks: int) -> None:
        """Raise marks to these numbers; a mark that is higher already does not change.

        Raises DeliveryError, and changes nothing, if the marks would be out of order.
        """
        before = {name: old for name, number in marks.items() if number > (old := getattr(self, name))}
        for name in before:
            setattr(self, name, marks[name])
        if not self._in_order():
            after = str(self)
            for name, number in before.items():
                setattr(self, name, number)
            raise DeliveryError(f"progress marks would be out of order: {after}; this is a bug")

    def discard(self) -> None:
        """Discard the frames that are not kept: set ``received`` back to ``kept``.

        Other frames will get their numbers.
        """
        self.received = self.kept
        self.live_from = min(self.live_from, self.received)
        self.discards += 1

    def _in_order(self) -> bool:
        return (
            self.freed <= self.released <= self.committed <= self.kept <= self.received
            and self.unindexed <= self.committed
            and self.durable <= self.kept
            and self.live_from <= self.received
        )
