"""The exchange for real, on loopback: ranges whole or not at all, and only with the token."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from support.proxy import FaultProxy
from support.waiting import wait_until

from spark_stomp.errors import ExchangeError, RangeUnavailable
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import ExchangeAddress, ExchangeServer, RangeTicket, client, fetch
from spark_stomp.frameserver.wire import new_token
from spark_stomp.receiver.frame_store import FrameStore, Held

FRAME = b"MESSAGE\nmessage-id:%d\n\n\0\x80\xff\0"


def frame_store() -> FrameStore:
    made = FrameStore(max_bytes=200)
    for number in range(20):
        frame = FRAME % number
        two = FrameBatch(frame * 2, [len(frame), 2 * len(frame)], 0, number, "1.2", "generic")
        made.append(Held(two, None))
    return made


class Exchange:
    def __init__(self) -> None:
        self.store = frame_store()
        self.server = ExchangeServer(ExchangeAddress("127.0.0.1", 0, new_token()), self.read)

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        if ticket.epoch != "e":
            raise RangeUnavailable(f"no receiver here has the epoch {ticket.epoch}")
        return self.store.batches(ticket.low, ticket.high)


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    made = Exchange()
    yield made
    made.server.close()
    made.store.close()


@contextmanager
def another_address(exchange: Exchange) -> Iterator[tuple[ExchangeAddress, FaultProxy]]:
    """Another address of the exchange, and what counts the connections that are made to it."""
    own = exchange.server.address
    with FaultProxy(own.port) as proxy:
        yield replace(own, port=proxy.port), proxy


def sum_of(batches: Iterator[FrameBatch]) -> int:
    return sum(len(batch.ends) for batch in batches)


@pytest.mark.parametrize("high", [4, 40])
def test_a_range_arrives_as_it_was_received(exchange: Exchange, high: int) -> None:
    [batch] = fetch(exchange.server.address, RangeTicket("e", 3, high))
    expected = FrameBatch.join(list(exchange.store.batches(3, high)))
    assert (bytes(batch.data), list(batch.ends)) == (bytes(expected.data), list(expected.ends))
    assert np.array_equal(batch.received_at, expected.received_at)
    assert (batch.first_sequence, batch.origin) == (3, expected.origin)


def test_a_batch_is_read_once_all_its_tickets_are_read_to_their_end(exchange: Exchange) -> None:
    first, second, gone = RangeTicket("e", 0, 4), RangeTicket("e", 4, 8), RangeTicket("other", 0, 1)
    exchange.server.expect([first, second])
    list(fetch(exchange.server.address, first))
    with pytest.raises(ExchangeError):
        list(fetch(exchange.server.address, gone))
    assert exchange.server.read_at is None
    before = time.monotonic()
    list(fetch(exchange.server.address, second))
    read_at = exchange.server.read_at
    assert read_at is not None and before <= read_at <= time.monotonic()
    list(fetch(exchange.server.address, first))
    assert exchange.server.read_at == read_at
    exchange.server.expect([first])
    assert exchange.server.read_at is None


def test_the_token_is_not_shown(exchange: Exchange) -> None:
    assert exchange.server.address.token not in repr(exchange.server.address)


@pytest.mark.rule("3.4")
def test_a_freed_range_is_an_error_and_not_empty(exchange: Exchange) -> None:
    exchange.store.release(10)
    with pytest.raises(ExchangeError, match=r"STOMP_RANGE_UNAVAILABLE.*committed and freed"):
        list(fetch(exchange.server.address, RangeTicket("e", 5, 12)))


@pytest.mark.rule("3.3")
def test_an_unknown_epoch_is_an_error(exchange: Exchange) -> None:
    with pytest.raises(ExchangeError, match="epoch other"):
        list(fetch(exchange.server.address, RangeTicket("other", 0, 1)))


@pytest.mark.rule("3.3")
def test_less_than_the_whole_range_fails_the_task(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = exchange.store.batches
    monkeypatch.setattr(exchange.store, "batches", lambda low, high: whole(low, high - 2))
    with pytest.raises(ExchangeError, match=r"up to 10 of \[4, 12\)"):
        list(fetch(exchange.server.address, RangeTicket("e", 4, 12)))


@pytest.mark.rule("3.3")
def test_a_gap_fails_the_task(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = exchange.store.batches
    monkeypatch.setattr(exchange.store, "batches", lambda low, high: iter([*whole(low, 6), *whole(8, high)]))
    with pytest.raises(ExchangeError, match=r"up to 6 of \[4, 12\)"):
        list(fetch(exchange.server.address, RangeTicket("e", 4, 12)))


@pytest.mark.rule("3.3")
def test_nobody_listening_is_an_error_that_names_the_address(exchange: Exchange) -> None:
    exchange.server.close()
    with pytest.raises(ExchangeError, match=f"127.0.0.1:{exchange.server.address.port}"):
        list(fetch(exchange.server.address, RangeTicket("e", 0, 1)))


class TestConnections:
    """A worker keeps its connection from task to task, and no more than a few of them."""

    def test_the_next_task_has_the_connection_of_the_last(self, exchange: Exchange) -> None:
        with another_address(exchange) as (address, proxy):
            for low in range(5):
                list(fetch(address, RangeTicket("e", low, 40)))
            assert proxy.accepted == 1

    def test_tasks_at_the_same_time_share_it(self, exchange: Exchange) -> None:
        with another_address(exchange) as (address, proxy), ThreadPoolExecutor(4) as pool:
            one = list(pool.map(lambda low: sum_of(fetch(address, RangeTicket("e", low, 40))), range(8)))
            assert one == list(range(40, 32, -1)) and proxy.accepted == 1

    def test_after_a_failure_there_is_a_new_one(self, exchange: Exchange) -> None:
        with another_address(exchange) as (address, proxy):
            list(fetch(address, RangeTicket("e", 0, 1)))
            with pytest.raises(ExchangeError):
                list(fetch(address, RangeTicket("other", 0, 1)))
            list(fetch(address, RangeTicket("e", 0, 1)))
            assert proxy.accepted == 2

    def test_those_of_other_queries_are_closed_in_the_end(self, exchange: Exchange) -> None:
        with ExitStack() as stack:
            fronts = [
                stack.enter_context(another_address(exchange)) for _ in range(client.MOST_CONNECTIONS + 1)
            ]
            for address, _ in fronts:
                list(fetch(address, RangeTicket("e", 0, 1)))
            wait_until(lambda: not fronts[0][1].connections, what="the end of the first connection")
            assert [proxy.connections for _, proxy in fronts[1:]] == [1] * client.MOST_CONNECTIONS

    def test_one_that_nobody_uses_ends(self, exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "IDLE", 1.0)
        with another_address(exchange) as (address, proxy):
            list(fetch(address, RangeTicket("e", 0, 1)))
            wait_until(lambda: not proxy.connections, what="the end of the connection")
            list(fetch(address, RangeTicket("e", 0, 1)))
            assert proxy.accepted == 2

    def test_a_read_goes_on_if_its_connection_is_not_kept_any_more(self, exchange: Exchange) -> None:
        reading = fetch(exchange.server.address, RangeTicket("e", 0, 40))
        begun = next(reading)
        with ExitStack() as stack:
            for _ in range(client.MOST_CONNECTIONS):
                address, _ = stack.enter_context(another_address(exchange))
                list(fetch(address, RangeTicket("e", 0, 1)))
            assert len(begun.ends) + sum_of(reading) == 40
