"""The offer: Spark is about to be told of frames, which are kept from then on (contract 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_stomp.receiver.deliveries import Deliveries


@dataclass(frozen=True, slots=True)
class Offer:
    """Frames of one receiver, up to ``upto``, that were chosen when it had discarded ``discards`` times."""

    deliveries: Deliveries
    upto: int
    discards: int


def offer(offers: Sequence[Offer]) -> bool:
    """Keep these frames, of receivers of one query, from now on: Spark is about to be told of them.

    False, and nothing is kept, if one of the receivers discarded frames since the choice: choose again.
    """
    if not offers:
        return True
    with offers[0].deliveries.lock:
        if any(one.deliveries.discards != one.discards for one in offers):
            return False
        for one in offers:
            one.deliveries.pin(one.upto - 1)
        return True
