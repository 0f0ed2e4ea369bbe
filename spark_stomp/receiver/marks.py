"""How far one receiver has come: its progress marks, all in one place and in order.

A mark is a sequence number, and says something of every frame below it:

===============  ===================================================  =======================================
mark             the frames below it                                  moved by
===============  ===================================================  =======================================
``freed``        are needed for nothing any more                      receipts of ACKs, the end of a
                                                                      connection
``released``     may not be read any more                             a commit
``committed``    may be ACKed                                         a commit; recovery with
                                                                      ``ackAfter=journal``
``durable``      are in the journal                                   the journal's writer
``kept``         survive the end of their connection                  an offer to Spark, a redelivery that is
                                                                      attached, the way to the journal, a
                                                                      commit
``live_from``    came on an earlier connection                        the end of a connection
``received``     were received                                        each read; goes back to ``kept`` when
                                                                      frames are discarded
===============  ===================================================  =======================================

Two more belong to a connection and end with it: ``AckLedger.confirmed <= AckLedger.sent <= committed``.
"""

from __future__ import annotations

from spark_stomp.errors import DeliveryError

__all__ = ["Marks"]


class Marks:
    """The marks of one receiver. Whoever changes one holds the dedup index's lock; reading needs none.

    Invariants, checked at every change: ``freed <= released <= committed <= kept <= received``,
    ``durable <= kept`` and ``live_from <= received``. ``discards`` counts how often frames were discarded.
    """

    __slots__ = ("committed", "discards", "durable", "freed", "kept", "live_from", "received", "released")

    def __init__(self) -> None:
        self.freed = self.released = self.committed = self.durable = self.kept = 0
        self.live_from = self.received = self.discards = 0

    def advance(self, **marks: int) -> None:
        """Raise marks to these numbers; one that is further already stays.

        Raises DeliveryError, and changes nothing, if the marks would be out of order.
        """
        raised = {name: number for name, number in marks.items() if number > getattr(self, name)}
        if not self._in_order(**raised):
            raise DeliveryError(f"progress marks out of order: {raised} with {self!r}; this is a bug")
        for name, number in raised.items():
            setattr(self, name, number)

    def discard(self) -> None:
        """The frames that are not kept are gone; their numbers go to others."""
        self.received = self.kept
        self.live_from = min(self.live_from, self.received)
        self.discards += 1

    def _in_order(self, **raised: int) -> bool:
        now: dict[str, int] = {name: getattr(self, name) for name in self.__slots__} | raised
        return (
            now["freed"] <= now["released"] <= now["committed"] <= now["kept"] <= now["received"]
            and now["durable"] <= now["kept"]
            and now["live_from"] <= now["received"]
        )

    def __repr__(self) -> str:
        return " ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
