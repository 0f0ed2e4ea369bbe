"""How far a turn is, and what of it counts as received."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from support.by_hand import block_of, of_queues

from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver import Deliveries
from spark_stomp.receiver import turn_state as module
from spark_stomp.receiver.turn_state import TurnState
from spark_stomp.receiver.turns import Turn

pytestmark = pytest.mark.rule("4.12")

CAREFUL = Turn(("/queue/a",), 4, suspects=400)
FRAME = b"MESSAGE\nmessage-id:1\n\nbody\0"
AT = 1_000


def block(count: int = 1) -> MessageBlock:
    return block_of([FRAME] * count, [b"%d" % number for number in range(count)], [None] * count)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    yield clock


@pytest.fixture
def deliveries() -> Deliveries:
    deliveries = of_queues()
    deliveries.connected(keyed=False)
    return deliveries


def give(deliveries: Deliveries, count: int) -> None:
    deliveries.receive(block(count), received_at=AT, version="1.2", dialect="rabbitmq")


def test_as_the_options_say_all_counts_as_received_and_no_silence_ends_it(deliveries: Deliveries) -> None:
    state, came = TurnState(Turn(("/queue/a",))), block()
    assert [*state.put(came, AT)] == [(came, AT)]
    assert not state.next(deliveries, 1_000, 1e9)
    assert (state.count, state.is_over, state.poll_timeout()) == (0, False, 1.0)


class TestCareful:
    def test_what_came_counts_once_nothing_follows(
        self, clock: SimpleNamespace, deliveries: Deliveries
    ) -> None:
        state, came = TurnState(CAREFUL), block(2)
        assert not state.put(came, AT)
        assert (state.count, state.size) == (2, 2 * len(FRAME))
        assert state.poll_timeout() == pytest.approx(0.2)
        clock.now += 0.1
        assert not state.take_settled(deliveries, 4)
        clock.now += 0.11
        assert [*state.take_settled(deliveries, 4)] == [(came, AT)]
        assert (state.count, state.size, state.poll_timeout()) == (0, 0, 1.0)

    def test_a_full_window_brings_nothing_more(self, clock: SimpleNamespace, deliveries: Deliveries) -> None:
        state = TurnState(CAREFUL)
        give(deliveries, 3)
        state.put(block(), AT)
        assert not state.take_settled(deliveries, None)
        assert state.take_settled(deliveries, 4)

    @pytest.mark.parametrize(
        ("achieved", "quiet", "unacked", "is_over"),
        [
            (400, 0.0, 0, False),
            (401, 0.0, 0, True),
            (401, 0.0, 2, True),
            (0, 0.9, 0, False),
            (0, 1.0, 0, True),
            (0, 9.0, 2, False),
        ],
    )
    def test_is_over_once_it_got_past_or_nothing_is_there(
        self, deliveries: Deliveries, achieved: int, quiet: float, unacked: int, is_over: bool
    ) -> None:
        state = TurnState(CAREFUL)
        if unacked:
            give(deliveries, unacked)
        assert state.next(deliveries, achieved, quiet) == (is_over and not unacked)
        assert state.is_over == is_over

    def test_over_means_that_nothing_more_is_taken(
        self, clock: SimpleNamespace, deliveries: Deliveries
    ) -> None:
        state = TurnState(CAREFUL)
        give(deliveries, 2)
        state.put(block(), AT)
        assert not state.next(deliveries, 401, 0.0)
        state.put(block(), AT)
        clock.now += 60.0
        assert not state.take_settled(deliveries, 4) and not state.take()
        assert state.poll_timeout() == 1.0

    def test_what_an_error_takes_back_counts_what_was_dropped(self, deliveries: Deliveries) -> None:
        """The next connection is careful about all that came on this one."""
        state = TurnState(CAREFUL)
        give(deliveries, 2)
        state.put(block(), AT)
        state.next(deliveries, 401, 0.0)
        state.put(block(), AT)
        assert (state.count, state.size) == (2, 2 * len(FRAME))
