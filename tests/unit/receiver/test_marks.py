"""The marks of a receiver: they grow, in order, and say so if they would not."""

from __future__ import annotations

import pytest

from spark_stomp.errors import DeliveryError
from spark_stomp.receiver.marks import Marks


def marks(**to: int) -> Marks:
    made = Marks()
    made.advance(received=10)
    made.advance(**to)
    return made


def test_they_only_grow() -> None:
    made = marks(kept=5)
    made.advance(kept=3, durable=4)
    assert (made.kept, made.durable, made.received) == (5, 4, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kept": 11},
        {"committed": 6},
        {"released": 5},
        {"freed": 1},
        {"durable": 6},
        {"live_from": 11},
    ],
    ids=str,
)
def test_what_would_be_out_of_order_changes_nothing(wrong: dict[str, int]) -> None:
    made = marks(kept=5, committed=4)
    before = repr(made)
    with pytest.raises(DeliveryError, match="out of order"):
        made.advance(**wrong)
    assert repr(made) == before
