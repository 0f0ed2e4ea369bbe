"""A message that the broker cannot deliver: it ends the connection at each attempt (contract 4.12)."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import Command, command
from support.driven import MODES, Run
from support.proxy import FaultProxy
from support.receivers import receiving
from support.scripted import Stream
from support.tcp import stomp_server
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import DrainTimeout, MessageUndeliverable, StompError
from spark_stomp.source.planning import Mode

__all__ = ["command"]

QUEUE, OTHER = "/queue/a", "/queue/b"
BAD = b"bad"
BEFORE, BEHIND = [b"g1", b"g2", b"g3"], [b"g4", b"g5", b"g6"]
# Without a stable id each redelivery of what Spark knows is a second row.
NAMELESS = {"idHeader": "nothing"}

pytestmark = pytest.mark.rule("4.12")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stomp.receiver.turns._PAUSE", 0.01)
    # On a busy machine too each ERROR comes at once.
    monkeypatch.setattr("spark_stomp.receiver.turns._AT_ONCE", PATIENCE)
    monkeypatch.setattr("spark_stomp.receiver.turn_state._EMPTY", 0.3)


@pytest.fixture
def queue(devbroker: DevBroker) -> Iterator[DevBroker]:
    """Three good messages, one that cannot be delivered, three good ones."""
    devbroker.faults.undeliverable = (BAD,)
    devbroker.publish_many(QUEUE, [*BEFORE, BAD, *BEHIND])
    yield devbroker


def until_it_fails(run: Run) -> tuple[Counter[bytes], StompError]:
    """The rows of all batches, which are committed, and the error that ends the query."""
    rows: Counter[bytes] = Counter()
    deadline = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline:
            run.end = run.reader.latestOffset(run.start, None)
            if run.end != run.start:
                rows.update(row["body"] for row in run.read())
                run.commit()
    except StompError as error:
        return rows, error
    raise AssertionError(f"the query goes on: {rows}")


@pytest.mark.parametrize(
    ("mode", "further"),
    [
        *((mode, further) for mode in MODES for further in ({}, NAMELESS)),
        ("ackAfter=journal", {"drain": "true", "idleTimeout": "500ms"}),
    ],
    ids=str,
)
def test_what_is_before_it_is_committed_and_acked_and_the_error_names_the_queue(
    queue: DevBroker, tmp_path: Path, mode: str, further: dict[str, str]
) -> None:
    options = {"url": queue.url, "destination": QUEUE, **MODES[mode](tmp_path), **further}
    with Run(options) as run:
        rows, error = until_it_fails(run)
    assert isinstance(error, MessageUndeliverable)
    assert QUEUE in str(error) and "3 times in a row" in str(error)
    assert set(rows) == {*BEFORE}
    assert max(rows.values()) <= (2 + 1 if further == NAMELESS else 1)
    assert queue.bodies(QUEUE) == [BAD, *BEHIND]
    assert queue.connects <= 7


@pytest.mark.parametrize("mode", MODES)
def test_an_error_that_comes_after_what_spark_knows_gives_a_row_for_each_connection(
    queue: DevBroker, tmp_path: Path, mode: str
) -> None:
    with FaultProxy(queue.port) as proxy:
        proxy.throttle(3_000)
        with Run({"url": proxy.url, "destination": QUEUE, **MODES[mode](tmp_path), **NAMELESS}) as run:
            rows, error = until_it_fails(run)
    assert isinstance(error, MessageUndeliverable)
    # Two connections ask for as much as ever, the third one for one message.
    assert set(rows) == {*BEFORE}
    assert max(rows.values()) <= 2 + 1
    assert queue.bodies(QUEUE) == [BAD, *BEHIND]


@pytest.mark.parametrize("further", [{}, NAMELESS], ids=str)
def test_with_several_connections_those_behind_it_come_too(queue: DevBroker, further: dict[str, str]) -> None:
    with Run({"url": queue.url, "destination": QUEUE, **further}, connections=4) as run:
        rows, error = until_it_fails(run)
    assert isinstance(error, MessageUndeliverable)
    assert {*BEFORE} <= set(rows)
    assert BAD in queue.bodies(QUEUE)
    assert {*queue.bodies(QUEUE)} - {BAD} == {*BEHIND} - set(rows)
    assert max(rows.values()) <= 4 * 4
    assert queue.connects <= 40


def test_the_other_destinations_go_on(queue: DevBroker) -> None:
    others = [f"/queue/b{number}" for number in range(4)]
    for other in others:
        queue.publish_many(other, [b"%b %d" % (other.encode(), number) for number in range(30)])
    names = [*others[:2], QUEUE, *others[2:]]
    with Run({"url": queue.url, "destination": json.dumps(names), **NAMELESS}, connections=1) as run:
        rows, error = until_it_fails(run)
    assert isinstance(error, MessageUndeliverable)
    assert f"{QUEUE}: 3 times" in str(error)
    assert [queue.bodies(other) for other in others] == [[]] * 4
    assert queue.bodies(QUEUE) == [BAD, *BEHIND]
    assert max(rows.values()) <= 4
    assert queue.connects <= 20


def test_once_it_is_gone_everything_is_read_as_ever(queue: DevBroker) -> None:
    """It is removed after two attempts: the third one counts from the beginning again."""
    with Run({"url": queue.url, "destination": QUEUE, **NAMELESS}) as run:
        rows: Counter[bytes] = Counter()

        def is_read() -> bool:
            if queue.bodies(QUEUE)[:1] == [BAD] and queue.connects >= 4:
                queue.faults.undeliverable = ()
            run.end = run.reader.latestOffset(run.start, None)
            if run.end != run.start:
                rows.update(row["body"] for row in run.read())
                run.commit()
            return {*BEFORE, BAD, *BEHIND} == set(rows)

        wait_until(is_read, what="all messages")
        wait_until(lambda: not queue.bodies(QUEUE), what="the ACKs")
        wait_until(lambda: run.status.receivers[0].window == 40_000, what="the options' prefetch")
        assert run.status.failure is None


@pytest.mark.parametrize("withheld", [(), ("DISCONNECT",)], ids=str)
def test_the_end_of_a_turn_is_no_lost_connection(queue: DevBroker, withheld: tuple[str, ...]) -> None:
    """Also if the broker closes without the receipt of DISCONNECT, as some do."""
    queue.faults.withhold_receipts = withheld
    with Run({"url": queue.url, "destination": QUEUE, **NAMELESS}) as run:
        lost = 0

        def is_read_as_ever() -> bool:
            nonlocal lost
            run.end = run.reader.latestOffset(run.start, None)
            status = run.status.receivers[0]
            if queue.faults.undeliverable and status.subscribed and status.window == 1:
                queue.faults.undeliverable, lost = (), status.connection.reconnects
            if run.end != run.start:
                run.read()
                run.commit()
            return not queue.faults.undeliverable and status.subscribed and status.window == 40_000

        wait_until(is_read_as_ever, what="the options' prefetch")
        assert run.status.receivers[0].connection.reconnects == lost
        assert queue.connects <= 4


def test_the_others_do_not_wait_for_its_pauses(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stomp.receiver.turns._PAUSE", 10 * PATIENCE)
    devbroker.faults.undeliverable = (BAD,)
    devbroker.publish(QUEUE, BAD)
    others = [f"/queue/b{number}" for number in range(4)]
    for other in others:
        devbroker.publish(other, other.encode())
    with receiving(devbroker.url, [QUEUE, *others]) as receiver:

        def are_acked() -> bool:
            receiver.acknowledge(receiver.frames.received)
            return not any(devbroker.bodies(other) for other in others)

        wait_until(are_acked, what="the others")
        assert devbroker.bodies(QUEUE) == [BAD]


def test_a_drain_that_cannot_wait_for_the_proof_says_so(
    queue: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_stomp.receiver.turns._PAUSE", PATIENCE)
    options = {"url": queue.url, "destination": QUEUE, "maxDrainTime": "2s", "idleTimeout": "500ms"}
    with Run(options) as run:
        run.reader._mode = Mode.DRAIN
        rows, error = until_it_fails(run)
    assert isinstance(error, DrainTimeout)
    assert set(rows) == {*BEFORE}
    assert f"{QUEUE}: maxDrainTime (2s)" in str(error) and "three attempts" in str(error)
    assert "a message cannot be delivered" in str(error)


def test_a_run_does_not_end_before_the_turn_of_each_destination(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first turn is that of an empty queue, and longer than idleTimeout."""
    monkeypatch.setattr("spark_stomp.receiver.turn_state._EMPTY", 1.0)
    devbroker.faults.undeliverable = (BAD,)
    devbroker.publish_many(OTHER, [*BEFORE, BAD])
    options = {"url": devbroker.url, "destination": json.dumps([QUEUE, OTHER]), "idleTimeout": "200ms"}
    with Run(options, connections=1) as run:
        run.end = run.reader.latestOffset()
        assert [row["body"] for row in run.read()] == BEFORE[:1]


def test_a_stream_ends_the_query_after_what_came_before() -> None:
    class Dying(Stream):
        def _asked(self, number: int, frame: bytes) -> bytes:
            answer = super()._asked(number, frame)
            first = frame.startswith(b"SUBSCRIBE") and b"x-stream-offset:next" not in frame
            return answer + b"ERROR\nmessage:AMQP channel died\n\n\0" if first else answer

    stream = Dying(0, 1, 2)
    options = {"destination": "/amq/queue/a", "startingOffsets": "earliest"}
    with stomp_server(stream.broker.serve) as url, Run({"url": url, **options}) as run:
        rows, error = until_it_fails(run)
    assert isinstance(error, MessageUndeliverable)
    assert sum(rows.values()) == 3 and "/amq/queue/a" in str(error)


def test_a_batch_read_fails_and_takes_nothing(queue: DevBroker, command: Command) -> None:
    code, _, err = command("peek", queue.url, QUEUE)
    assert code == 1
    assert "cannot be delivered" in err
    assert queue.bodies(QUEUE) == [*BEFORE, BAD, *BEHIND]
