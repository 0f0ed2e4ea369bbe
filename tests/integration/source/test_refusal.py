"""``onMalformed=fail``: a malformed message fails the query after everything that came before it."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import by_hand
from support.by_hand import block_of, of_queues, of_stream
from support.driven import MODES, Run
from support.options import source_options
from support.waiting import PATIENCE, wait_until

from spark_stomp import files
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import MalformedMessageError
from spark_stomp.receiver import DedupIndex, Deliveries, Log, ReceiverSettings, ReceiverStatus
from spark_stomp.source.receivers import DelayedFailure
from spark_stomp.source.stream_log import StreamLog

QUEUE, OTHER = "/queue/a", "/queue/b"
BAD = b"no colon\n"
ERROR, ERROR_AGAIN = MalformedMessageError("bad"), MalformedMessageError("bad")
STATUS = ReceiverStatus("r", True, 0, 0, 0, 0, last_active=0.0, window_full=False, failure=None)
GOOD = [b"m%d" % number for number in range(40)]

pytestmark = pytest.mark.rule("7.6")
IN_EVERY_MODE = pytest.mark.parametrize("mode", MODES)


def poisoned(broker: DevBroker) -> None:
    """40 good messages, a malformed one, and another good one."""
    broker.publish_many(QUEUE, GOOD)
    broker.publish(QUEUE, b"bad", raw=BAD)
    broker.publish(QUEUE, b"after")


def options_for(url: str, *destinations: str, **options: str | int) -> dict[str, str]:
    given = {key: str(value) for key, value in options.items()}
    return {"url": url, "destination": json.dumps(destinations), **given}


def the_failure(run: Run) -> MalformedMessageError:
    """What Spark's calls raise once there is nothing more to commit."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            assert run.reader.latestOffset(run.start, None) == run.start, "another batch"
        except MalformedMessageError as error:
            return error
    raise AssertionError("the query goes on")


@IN_EVERY_MODE
def test_what_came_before_it_is_read_and_acked_first(devbroker: DevBroker, tmp_path: Path, mode: str) -> None:
    """It waits for the commit, also with ackAfter=journal: otherwise what is in the journal would never be
    read, however often the query is started. And every start gets on until the message is removed."""
    poisoned(devbroker)
    further = MODES[mode](tmp_path)
    with Run(options_for(devbroker.url, QUEUE), **further) as run:
        assert [row["body"] for row in run.gather(40)] == GOOD
        wait_until(lambda: any(one.refused for one in run.status.receivers), what="the malformed message")
        if mode == "ackAfter=journal":
            wait_until(lambda: devbroker.queue(QUEUE).acked == 40, what="the ACKs")
        (counts,) = [one.counts for one in run.status.receivers]
        assert (counts.delivered, counts.malformed) == (41, 1)
        for _ in range(3):
            assert run.status.failure is None
            assert len(run.read()) == 40
        run.commit()
        error = the_failure(run)
        last = run.end
    assert error.code == "STOMP_MESSAGE_MALFORMED"
    assert all(part in str(error) for part in (QUEUE, "ID:", "no colon", "onMalformed=column"))
    assert devbroker.bodies(QUEUE) == [b"bad", b"after"]
    devbroker.publish(QUEUE, b"later")
    with Run(options_for(devbroker.url, QUEUE), **further) as run:
        run.start = run.end = last
        the_failure(run)
    assert devbroker.bodies(QUEUE) == [b"bad", b"after", b"later"]


@IN_EVERY_MODE
def test_it_does_not_wait_for_a_pause_of_other_producers(
    devbroker: DevBroker, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load there is always something that is not in the journal yet."""
    synced = files.sync

    def slowly(descriptor: int) -> None:
        done.wait(0.02)
        synced(descriptor)

    def produce() -> None:
        while not done.wait(0.002):
            devbroker.publish_many(OTHER, [b"more"] * 5)

    monkeypatch.setattr("spark_stomp.journal.store.sync", slowly)
    poisoned(devbroker)
    done = threading.Event()
    producer = threading.Thread(target=produce)
    producer.start()
    rows: list[bytes] = []
    try:
        with (
            Run(options_for(devbroker.url, QUEUE, OTHER), **MODES[mode](tmp_path)) as run,
            pytest.raises(MalformedMessageError),
        ):
            deadline = time.monotonic() + 10.0
            while time.monotonic() < deadline:
                rows += [row["body"] for row in run.batch()]
                run.commit()
    finally:
        done.set()
        producer.join()
    assert set(GOOD) <= set(rows)


def test_it_waits_for_the_receipts(devbroker: DevBroker) -> None:
    poisoned(devbroker)
    devbroker.faults.withhold_receipts = ("ACK",)
    with Run(options_for(devbroker.url, QUEUE)) as run:
        run.gather(40)
        run.commit()
        wait_until(lambda: devbroker.queue(QUEUE).acked == 40, what="the ACKs")
        for _ in range(3):
            assert run.reader.latestOffset(run.start, None) == run.start


def test_it_is_refused_again_on_another_connection(devbroker: DevBroker) -> None:
    """The messages before it get their new handles first, and are ACKed before the query fails."""
    poisoned(devbroker)
    with Run(options_for(devbroker.url, QUEUE)) as run:
        assert len(run.gather(40)) == 40
        devbroker.drop_connections()
        wait_until(lambda: run.status.receivers[0].connection.connections == 2, what="another connection")
        run.commit()
        the_failure(run)
    assert devbroker.bodies(QUEUE) == [b"bad", b"after"]


def receive(held: Deliveries, count: int) -> None:
    """A block of so many messages."""
    by_hand.receive(held, block_of([b"MESSAGE\n\n\0"] * count, [b"1"] * count, [None] * count))


def holding(*counts: int, log: Log | None = None) -> Deliveries:
    """A receiver with blocks of so many messages."""
    held = of_queues(log)
    held.connected(keyed=False)
    for count in counts:
        receive(held, count)
    return held


def commit(held: Deliveries, count: int, end: int) -> None:
    """So many messages more are a batch, which is committed and ACKed."""
    held.number(count)
    held.log.commit(end)
    assert held.take_acks(1_000) is not None
    held.sent("a", 0.0)
    held.confirm("a")


def refusing(*counts: int, log: Log | None = None) -> Deliveries:
    """The same, with a malformed message behind them."""
    held = holding(*counts, log=log)
    held.refuse(ERROR, len(BAD))
    return held


def seen(held: Deliveries) -> ReceiverStatus:
    return replace(STATUS, refused=held.inbox.refused)


def test_what_another_receiver_is_about_to_bring_is_waited_for() -> None:
    """Until it is subscribed and has had a moment."""
    first, second = refusing(), holding()
    refusal = DelayedFailure([first, second])
    refused, other = replace(STATUS, name="a", refused=ERROR), replace(STATUS, name="b")
    assert refusal.failure([refused, replace(other, subscribed=False)], 100.0) is None
    assert refusal.failure([refused, replace(other, last_active=100.0)], 100.1) is None
    assert refusal.failure([refused, replace(other, last_active=100.0)], 100.3) is ERROR
    # The connection broke, and the message came again.
    first.disconnected(redelivers=True)
    assert refusal.failure([replace(STATUS, subscribed=False), other], 101.0) is None
    first.connected(keyed=False)
    first.refuse(ERROR_AGAIN, len(BAD))
    refused = replace(refused, refused=ERROR_AGAIN)
    assert refusal.failure([refused, replace(other, last_active=101.0)], 101.1) is None
    assert refusal.failure([refused, replace(other, last_active=101.0)], 101.4) is ERROR_AGAIN


def test_a_connection_that_breaks_meanwhile_is_no_receiver_that_has_ended() -> None:
    """Its status may be a moment older than what it holds, or the other way round."""
    first, second = refusing(), holding()
    refusal = DelayedFailure([first, second])
    breaking = replace(STATUS, refused=ERROR, subscribed=False)
    assert refusal.failure([breaking, replace(STATUS, subscribed=False)], 100.0) is None
    first.disconnected(redelivers=True)
    assert refusal.failure([replace(STATUS, refused=ERROR), STATUS], 101.0) is None
    first.refuse(ERROR_AGAIN)
    assert refusal.failure((), 102.0) is None


def test_of_two_it_is_the_error_of_the_one_that_all_was_read_before() -> None:
    log = Log(DedupIndex())
    first, second = holding(1, log=log), refusing(log=log)
    refusal = DelayedFailure([first, second])
    assert refusal.failure([seen(first), seen(second)], 101.0) is None
    receive(first, 5)
    first.refuse(ERROR_AGAIN, len(BAD))
    commit(first, 1, 1)
    assert refusal.failure([seen(first), seen(second)], 101.0) is ERROR


def test_nothing_is_waited_for_that_is_behind_the_end_of_a_run() -> None:
    """The receiver of a stream reads on, and no batch of this run takes that."""
    settings = ReceiverSettings.of(source_options("stomp://h", "/amq/queue/a", startingOffsets="earliest"))
    held, first = of_stream("a#0"), refusing()
    held.connected(keyed=False)
    stream = StreamLog(settings[0], held)
    held.receive_from(0, block_of([b"MESSAGE\n\n\0"] * 10), received_at=0, version="1.2", dialect="rabbitmq")
    refusal = DelayedFailure([first, held], [stream])
    stream.stop_at(5)
    held.log.commit(4)
    assert refusal.failure([seen(first), seen(held)], 101.0) is None
    held.log.commit(5)
    assert refusal.failure([seen(first), seen(held)], 101.0) is ERROR
    # It begins anew, in the moment of the question: its log is another one.
    other = StreamLog(settings[0], of_stream("a#0"))
    other.stop_at(5)
    refusal = DelayedFailure([first, held], [other])
    assert refusal.failure([seen(first), seen(held)], 101.0) is None


class TestWhatIsWaitedFor:
    def begin(self, held: Deliveries, *others: Deliveries) -> None:
        """All that came before the malformed message waits in ``held``, or in inboxes of others."""
        self.held, self.all = held, [held, *others]
        self.refusal = DelayedFailure(self.all)
        assert self.waits

    @property
    def waits(self) -> bool:
        failure = self.refusal.failure([*map(seen, self.all)], 101.0)
        assert failure in (None, ERROR)
        return failure is None

    def test_nothing_that_was_dropped_meanwhile(self) -> None:
        """Another receiver's connection broke, and its messages went elsewhere."""
        other = holding(1)
        self.begin(refusing(), other)
        assert self.waits
        other.disconnected(redelivers=True)
        assert not self.waits

    def test_nothing_that_another_receiver_gets_later(self) -> None:
        log = Log(DedupIndex())
        other = holding(1, log=log)
        self.begin(refusing(log=log), other)
        receive(other, 1)
        commit(other, 1, 1)
        assert not self.waits

    def test_all_batches_with_what_came_before(self) -> None:
        """A limit lets a batch have only some of the messages that came together."""
        self.begin(refusing(2, 5))
        for end in range(1, 8):
            assert self.waits
            commit(self.held, 1, end)
        assert not self.waits

    def test_its_own_although_others_get_as_many_numbers(self) -> None:
        log = Log(DedupIndex())
        other = holding(1, log=log)
        self.begin(refusing(1, log=log), other)
        receive(other, 5)
        commit(other, 6, 6)
        assert self.waits
        commit(self.held, 1, 7)
        assert not self.waits

    def test_what_stays_of_a_broken_connection(self) -> None:
        """The broker does not redeliver the messages of a plain topic."""
        other = holding(2)
        self.begin(refusing(), other)
        other.disconnected(redelivers=True, but=["t"])
        assert other.inbox.pending == 2
        assert self.waits
        other.number(2)
        other.log.commit(2)
        assert not self.waits
