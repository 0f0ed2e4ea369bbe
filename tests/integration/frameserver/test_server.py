"""The frame server for real, on loopback: ranges whole or not at all, and only with the token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.proxy import FaultProxy
from support.waiting import wait_until

from spark_stomp.errors import FrameServerError, RangeUnavailable
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import FrameServer, FrameServerAddress, RangeTicket, client, fetch, server
from spark_stomp.frameserver.wire import new_token
from spark_stomp.receiver import Block, DedupIndex, Log

FRAME = b"MESSAGE\nmessage-id:%d\n\n\0\x80\xff\0"


def filled_log() -> Log:
    made = Log(DedupIndex())
    for number in range(20):
        frame = FRAME % number
        two = FrameBatch(frame * 2, [len(frame), 2 * len(frame)], 0, number, "1.2", "generic")
        made.add(Block(two, None))
    return made


class Serving:
    def __init__(self) -> None:
        self.log = filled_log()
        self.server = FrameServer(FrameServerAddress("127.0.0.1", 0, new_token()), self.read)

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        if ticket.log != "e":
            raise RangeUnavailable(f"no log here has the id {ticket.log}")
        return self.log.batches(ticket.low, ticket.high)


@pytest.fixture
def serving() -> Iterator[Serving]:
    made = Serving()
    yield made
    made.server.close()


@contextmanager
def another_address(serving: Serving) -> Iterator[tuple[FrameServerAddress, FaultProxy]]:
    """Another address of the frame server, and what counts the connections that are made to it."""
    own = serving.server.address
    with FaultProxy(own.port) as proxy:
        yield replace(own, port=proxy.port), proxy


def read(address: FrameServerAddress, low: int, high: int, log: str = "e") -> list[FrameBatch]:
    return list(fetch(address, RangeTicket(log, low, high)))


def sum_of(batches: Iterable[FrameBatch]) -> int:
    return sum(len(batch.ends) for batch in batches)


@pytest.mark.parametrize("high", [4, 40])
def test_a_range_arrives_as_it_was_received(serving: Serving, high: int) -> None:
    [batch] = fetch(serving.server.address, RangeTicket("e", 3, high))
    expected = FrameBatch.join(list(serving.log.batches(3, high)))
    assert (bytes(batch.data), list(batch.ends)) == (bytes(expected.data), list(expected.ends))
    assert np.array_equal(batch.received_at, expected.received_at)
    assert (batch.first_number, batch.origin) == (3, expected.origin)


def test_a_batch_is_read_once_all_its_tickets_are_read_to_their_end(serving: Serving) -> None:
    first, second, gone = RangeTicket("e", 0, 4), RangeTicket("e", 4, 8), RangeTicket("other", 0, 1)
    serving.server.expect([first, second])
    list(fetch(serving.server.address, first))
    with pytest.raises(FrameServerError):
        list(fetch(serving.server.address, gone))
    assert serving.server.read_at is None
    before = time.monotonic()
    list(fetch(serving.server.address, second))
    read_at = serving.server.read_at
    assert read_at is not None and before <= read_at <= time.monotonic()
    list(fetch(serving.server.address, first))
    assert serving.server.read_at == read_at
    serving.server.expect([first])
    assert serving.server.read_at is None


@pytest.mark.rule("3.4")
def test_a_freed_range_is_an_error_and_not_empty(serving: Serving) -> None:
    serving.log.commit(10)
    with pytest.raises(FrameServerError, match=r"STOMP_RANGE_UNAVAILABLE.*are committed"):
        read(serving.server.address, 5, 12)


@pytest.mark.rule("3.3")
@pytest.mark.parametrize(
    ("lacking", "upto"),
    [
        (lambda whole, low, high: whole(low, high - 2), 10),
        (lambda whole, low, high: iter([*whole(low, 6), *whole(8, high)]), 6),  # a gap
    ],
)
def test_less_than_the_whole_range_fails_the_task(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, lacking: Callable[..., Any], upto: int
) -> None:
    monkeypatch.setattr(serving.log, "batches", partial(lacking, serving.log.batches))
    with pytest.raises(FrameServerError, match=rf"up to {upto} of \[4, 12\)"):
        read(serving.server.address, 4, 12)


@pytest.mark.rule("3.3")
# Flight sends texts in metadata, six letters for one of these, and has other exceptions for long ones.
@pytest.mark.parametrize("letters", [100, 2_000, 4_000])
def test_a_refusal_of_any_length_is_an_error_of_the_frame_server(letters: int) -> None:
    def refuse(ticket: RangeTicket) -> Iterator[FrameBatch]:
        raise RangeUnavailable("\u0436" * letters)

    server = FrameServer(FrameServerAddress("127.0.0.1", 0, new_token()), refuse)
    try:
        with pytest.raises(FrameServerError, match="could not be fetched"):
            read(server.address, 0, 4)
    finally:
        server.close()


def test_an_unknown_log_and_nobody_listening_are_errors(serving: Serving) -> None:
    address = serving.server.address
    with pytest.raises(FrameServerError, match="log other"):
        read(address, 0, 1, "other")
    serving.server.close()
    with pytest.raises(FrameServerError, match=f"127.0.0.1:{address.port}"):
        read(address, 0, 1)


class TestConnections:
    """A worker keeps its connection from task to task, and no more than a few of them."""

    def test_the_next_task_has_the_connection_of_the_last(self, serving: Serving) -> None:
        with another_address(serving) as (address, proxy):
            for low in range(5):
                read(address, low, 40)
            assert proxy.accepted == 1

    def test_tasks_at_the_same_time_have_one_each(self, serving: Serving) -> None:
        with another_address(serving) as (address, proxy), ThreadPoolExecutor(4) as pool:
            one = list(pool.map(lambda low: sum_of(read(address, low, 40)), range(8)))
            assert one == list(range(40, 32, -1)) and proxy.accepted <= 4

    def test_one_that_has_ended_is_not_used(self, serving: Serving) -> None:
        with another_address(serving) as (address, proxy):
            read(address, 0, 1)
            proxy.cut()
            read(address, 0, 1)
            assert proxy.accepted == 2

    def test_of_a_read_that_is_given_up_it_is_not_used(self, serving: Serving) -> None:
        with another_address(serving) as (address, proxy):
            reading = fetch(address, RangeTicket("e", 0, 40))
            next(reading)
            reading.close()
            assert sum_of(read(address, 0, 40)) == 40
            assert proxy.accepted == 2

    def test_after_a_failure_there_is_a_new_one(self, serving: Serving) -> None:
        with another_address(serving) as (address, proxy):
            read(address, 0, 1)
            with pytest.raises(FrameServerError):
                read(address, 0, 1, "other")
            read(address, 0, 1)
            assert proxy.accepted == 2

    def test_those_of_other_queries_are_closed_in_the_end(self, serving: Serving) -> None:
        with ExitStack() as stack:
            fronts = [
                stack.enter_context(another_address(serving)) for _ in range(client.MOST_CONNECTIONS + 1)
            ]
            for address, _ in fronts:
                read(address, 0, 1)
            wait_until(lambda: not fronts[0][1].connections, what="the end of the first connection")
            assert [proxy.connections for _, proxy in fronts[1:]] == [1] * client.MOST_CONNECTIONS

    def test_one_that_nobody_uses_ends(self, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (client, server):
            monkeypatch.setattr(module, "IDLE", 1.0)
        with another_address(serving) as (address, proxy):
            read(address, 0, 1)
            wait_until(lambda: not proxy.connections, what="the end of the connection")
            read(address, 0, 1)
            assert proxy.accepted == 2

    def test_a_read_goes_on_if_its_connection_is_not_kept_any_more(self, serving: Serving) -> None:
        reading = fetch(serving.server.address, RangeTicket("e", 0, 40))
        begun = next(reading)
        with ExitStack() as stack:
            for _ in range(client.MOST_CONNECTIONS):
                address, _ = stack.enter_context(another_address(serving))
                read(address, 0, 1)
            assert len(begun.ends) + sum_of(reading) == 40
