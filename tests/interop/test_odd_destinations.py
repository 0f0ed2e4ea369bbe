"""Rows that name odd destinations: docs/sink.md says what becomes of each, on every broker."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, bodies, write_columns
from support.waiting import PATIENCE

from spark_stomp.errors import StompError


class Odd(NamedTuple):
    """Rows to these are left out; those to the others are sent, though perhaps nobody will read them."""

    left_out: tuple[str, ...]
    sent: tuple[str, ...]


ODD = {
    "rabbitmq": Odd(
        (
            "",
            "/queue/\0",
            "/queue/",
            "/topic/",
            "/amq/queue/",
            "/queue/a/b",
            "/nonsense/x",
            "/exchange/nosuch/k",
            "/temp-queue/x",
            "/amq/queue/nosuch",
            "/reply-queue/nosuch",
            "/reply-queue/amq.rabbitmq.reply-to",
            "/queue/amq.rabbitmq.reply-to",
        ),
        ("nonsense", " ", "/exchange/amq.topic", "/queue/" + "x" * 300),
    ),
    "activemq": Odd(
        (
            "",
            " ",
            "?a=b",
            "/queue/",
            "/queue/ ",
            "/topic/",
            "/remote-temp-queue/",
            "/queue/a,/queue/",
            "a,,b",
            "/temp-queue/x",
            "/temp-topic/x",
            "/remote-temp-queue/x",
        ),
        ("nonsense", "/dsub/x", "/queue/a,"),
    ),
    "artemis": Odd(("", "::", "/queue/::", "/temp-queue/x", "/temp-topic/x"), ("a::b", " ")),
}


def rows(queue: str, odd: tuple[str, ...]) -> dict[str, list[object]]:
    """One to each, and one to the queue before each and at the end."""
    to = [name for one in odd for name in (queue, one)] + [queue]
    return {"destination": to, "body": [b"%d" % at for at in range(len(to))]}


def all_bodies(query: Run, count: int) -> set[object]:
    """So many different bodies. What is in flight when the broker refuses a row may come twice."""
    found: set[object] = set()
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found.update(bodies(query.batch()))
        query.commit()
    return found


def is_refused(broker: Broker, destination: str) -> bool:
    """Whether the write fails because of this row, with the default of ``onError``."""
    try:
        return (
            write_columns(broker.options(), {"destination": [destination], "body": [b"x"]}).refused
            is not None
        )
    except StompError as error:
        assert "STOMP_DESTINATION_REFUSED" in str(error)
        return True


@on_real_brokers
@pytest.mark.rule("S.9")
class TestAnOddDestination:
    @pytest.mark.parametrize("on_error", ["drop", "deadletter"])
    def test_costs_no_other_row(self, broker: Broker, on_error: str) -> None:
        queue, dead, odd = broker.new_queue(), broker.new_queue(), ODD[broker.name]
        left_out = (*odd.left_out, broker.new_refused())
        options = broker.options(onError=on_error, reconnectDelay="20ms", reconnectTimeout="20s")
        if on_error == "deadletter":
            options["deadLetterDestination"] = dead
        given = rows(queue, (*left_out, *odd.sent))
        figures = write_columns(options, given).figures
        assert figures.dropped + figures.dead_lettered == len(left_out)
        with Run(broker.options(destination=queue)) as query:
            good = all_bodies(query, len(left_out) + len(odd.sent) + 1)
        assert good == {body for to, body in zip(*given.values(), strict=True) if to == queue}
        if on_error == "deadletter":
            with Run(broker.options(destination=dead)) as query:
                letters = all_bodies(query, len(left_out))
            assert letters == {body for to, body in zip(*given.values(), strict=True) if to in left_out}

    def test_fails_the_write_otherwise(self, broker: Broker) -> None:
        odd = ODD[broker.name]
        assert [one for one in odd.left_out if not is_refused(broker, one)] == []
        assert [one for one in odd.sent if is_refused(broker, one)] == []
