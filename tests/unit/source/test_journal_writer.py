"""The writer, step by step: log first, then tell, then acknowledge; and room at the bound."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.by_hand import Journaled, block_of, receive
from support.journals import SmallDisk, batch_of, bodies, frame, local_journal
from support.waiting import PATIENCE, wait_until

from spark_stomp.errors import JournalError, JournalInUse, JournalUnwritable
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal import Journal
from spark_stomp.source.journal_log import JournalLog, stable_ids


class Writing(Journaled):
    """A journal, one receiver and the writer between them; the writer steps when told, or runs."""

    def __init__(self, folder: Path, **given: Any) -> None:
        super().__init__(folder, **given)
        (self.receiver,) = self.queues
        self.connect()

    def deliver(self, first: int, count: int = 1, handle: str = "h", subscription: str = "") -> None:
        numbers = range(first, first + count)
        frames = [frame(number, subscription=subscription) for number in numbers]
        handles = [f"{handle}{number}".encode() for number in numbers]
        receive(
            self.receiver, block_of(frames, handles, [b"ID:%d" % number for number in numbers]), "devbroker"
        )

    def write(self, first: int, count: int = 1, handle: str = "h", subscription: str = "") -> bool:
        """Deliver messages and write them; whether anything was written."""
        self.deliver(first, count, handle, subscription)
        return self.writer.step()

    def reconnect(self) -> None:
        self.receiver.disconnected(redelivers=True)
        self.receiver.connected(keyed=True)

    def fill(self) -> int:
        """Deliver and write until frames wait for room; returns how many were delivered."""
        for number in range(1_000):
            self.write(number)
            if self.writer.full:
                return number + 1
        raise AssertionError("it takes any number of frames")

    def acks(self, receipt: str = "receipt") -> list[bytes]:
        acks = self.receiver.take_acks(100)
        if acks is None:
            return []
        self.receiver.sent(receipt, 0.0)
        return acks.handles

    def confirmed_acks(self) -> list[bytes]:
        """Those that go out now; their receipt comes."""
        acks = self.acks()
        self.receiver.confirm("receipt")
        return acks

    def rest(self) -> None:
        """What is known now becomes durable."""
        self.writer.step()
        self.journal.flush()


Make = Callable[..., Writing]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Writing] = []

    def one(**options: object) -> Writing:
        if made:
            made.pop().close()
        made.append(Writing(tmp_path / "journal", **options))
        return made[-1]

    yield one
    made[-1].close()


@pytest.mark.rule("J.5")
def test_durable_alone_is_no_reason_to_ack(make: Make) -> None:
    query = make()
    query.write(0, 2)
    assert query.acks() == []
    assert query.writer.commit(1)
    assert query.acks() == [b"h0"]


@pytest.mark.rule("J.9", "J.11")
@pytest.mark.parametrize(("most", "first"), [(1_000, 39), (40, 0)])
def test_frames_stay_while_the_keys_of_many_unconfirmed_acks_would_push_one_another_out(
    make: Make, most: int, first: int
) -> None:
    query = make(most=most)
    for number in range(40):
        query.write(number)
    query.receiver.disconnected(redelivers=True)
    query.writer.commit(39)
    query.writer.commit(40)
    query.rest()
    assert query.journal.first == first
    query = make(most=most)
    query.deliver(0, 40, handle="again")
    assert query.receiver.counts.dropped == 40
    assert len(query.confirmed_acks()) == 40
    query.write(40)
    query.writer.commit(41)
    query.rest()
    assert query.journal.first >= 39


@pytest.mark.rule("J.6")
def test_what_the_receivers_do_not_know_to_be_durable_is_not_offered(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the journal, and has no number yet. Spark cannot commit it, so no commit of it is missed."""
    query = make()
    query.write(0)
    query.deliver(1)
    log = JournalLog(query.writer, (), tolerant=False)
    append, offered = query.journal.append, []

    def overtaken(runs: list[FrameBatch]) -> list[int]:
        positions = append(runs)
        assert query.journal.end == 2
        (available,) = log.available(0, {})
        offered.append((available.low, available.high))
        query.writer.commit(available.high)
        return positions

    monkeypatch.setattr(query.journal, "append", overtaken)
    query.writer.step()
    assert offered == [(0, 1)]
    assert query.acks() == [b"h0"]
    query.writer.commit(2)
    assert query.acks() == [b"h1"]


def test_of_two_commits_the_newer_counts(make: Make) -> None:
    query = make()
    query.write(0, 3)
    assert query.writer.commit(3)
    assert not query.writer.commit(2)
    assert not query.writer.commit(3)
    assert query.acks() == [b"h0", b"h1", b"h2"]
    query.writer.step()
    assert query.journal.committed == 3


@pytest.mark.rule("J.7")
def test_frames_on_their_way_to_the_disk_are_not_discarded(make: Make) -> None:
    query = make()
    query.deliver(0, 2)
    taken = query.receiver.pin_next(1 << 20)
    query.deliver(2, 1)
    query.receiver.disconnected(redelivers=True)
    assert query.receiver.inbox.received == 2
    query.receiver.connected(keyed=True)
    query.deliver(0, 3, handle="again")
    assert query.receiver.inbox.received == 3
    for block, position in zip(taken, query.journal.append([one.batch for one in taken]), strict=True):
        query.receiver.journaled(block, position)
    query.writer.step()
    assert bodies(query.journal.batches(0, 3)) == ["body 0", "body 1", "body 2"]


class TestAfterARestart:
    @pytest.mark.rule("4.2", "J.8")
    @pytest.mark.parametrize("committed", [False, True])
    def test_copies_of_one_message_in_two_queues_are_two(self, make: Make, committed: bool) -> None:
        """One connection reads both. Only the subscription tells them apart, also by their keys."""
        query = make()
        for subscription in ("one", "two"):
            query.write(0, 2, subscription=subscription)
        assert query.journal.end == 4
        if committed:
            query.writer.commit(4)
            query.confirmed_acks()
            query.rest()
        query = make()
        for subscription in ("two", "one", "three"):
            query.write(0, 2, handle=subscription, subscription=subscription)
        assert query.journal.end == 6
        counts = query.receiver.counts
        assert (counts.dropped, counts.reattached) == ((4, 0) if committed else (0, 4))

    def test_beyond_the_bound_the_oldest_committed_have_no_key_and_are_counted(self, make: Make) -> None:
        query = make()
        for number in range(4):
            query.write(number)
        query.writer.commit(3)
        query.confirmed_acks()
        query.rest()
        query = make(most=2)
        assert (query.index.held, query.index.remembered, query.index.evicted) == (1, 1, 2)

    @pytest.mark.rule("J.9")
    @pytest.mark.parametrize("ack_when_durable", [False, True])
    def test_what_the_broker_may_deliver_again_is_known_however_much_waits(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, ack_when_durable: bool
    ) -> None:
        """Of the others, so many as are remembered."""
        monkeypatch.setattr("spark_stomp.source.journal_writer._FLUSH_ACKS", 2)
        query = make(ack_when_durable=ack_when_durable)
        for number in range(6):
            query.write(number)
            if number == 3 and ack_when_durable:
                query.confirmed_acks()
        query.writer.step()
        query = make(most=1, ack_when_durable=ack_when_durable)
        known = 2 if ack_when_durable else 6
        assert query.index.evicted == 6 - known
        query.write(6 - known, known, handle="again")
        assert query.journal.end == 6, "no second row"

    @pytest.mark.rule("J.9")
    def test_a_message_that_is_only_remembered_is_known_until_its_ack_is_confirmed(self, make: Make) -> None:
        """Its connection broke after the commit, and many came behind it."""
        query = make()
        query.write(0)
        query.writer.commit(1)
        query.acks()
        query.reconnect()
        for number in range(1, 4):
            query.write(number)
        query.writer.commit(4)
        query.confirmed_acks()
        query.rest()
        query = make(most=2)
        query.write(0, handle="again")
        assert query.journal.end == 4, "no second row"


class TestRoom:
    SMALL = 6_000

    @pytest.fixture(autouse=True)
    def small_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("spark_stomp.source.journal_writer._GROUP_BYTES", 500)

    def filled(self, make: Make) -> Writing:
        query = make(max_bytes=self.SMALL)
        query.fill()
        return query

    @pytest.mark.rule("J.12")
    def test_at_the_bound_frames_wait_un_acked_and_un_offered(self, make: Make) -> None:
        query = self.filled(make)
        assert query.journal.size <= self.SMALL
        assert (query.writer.unwritten, query.writer.full) == (1, True)
        assert not query.writer.step()
        assert query.acks() == []

    @pytest.mark.rule("J.11")
    def test_a_commit_whose_acks_are_confirmed_makes_room(self, make: Make) -> None:
        query = self.filled(make)
        query.writer.commit(query.journal.end)
        assert not query.writer.step()
        query.confirmed_acks()
        assert query.writer.step()
        assert (query.writer.unwritten, query.writer.full) == (0, False)

    def test_what_is_committed_stays_for_one_batch_more_where_there_is_room(self, make: Make) -> None:
        query = make()
        for number in range(40):
            query.write(number)
        for committed in (15, 16, 35, 38):
            query.writer.commit(committed)
            query.confirmed_acks()
            query.writer.step()
            # Not before sixteen objects may go.
            assert query.journal.first == {35: 16, 38: 35}.get(committed, 0)

    @pytest.mark.rule("J.12")
    @pytest.mark.parametrize("before", ["_write", "_lacks_space"])
    def test_the_bound_holds_if_a_commit_comes_meanwhile(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, before: str
    ) -> None:
        """While frames are gathered, or after space was freed and before its bound is looked at again."""
        query = make(max_bytes=self.SMALL, ack_when_durable=True)
        end = query.fill() - 1
        query.confirmed_acks()
        original, append = getattr(query.writer, before), query.journal.append
        calls, sizes = iter(range(9)), []

        def measured_append(batches: Sequence[FrameBatch]) -> list[int]:
            sizes.append(query.journal.size)
            return append(batches)

        def committed_meanwhile() -> bool:
            if next(calls) == (before == "_lacks_space"):
                query.writer.commit(end)
            return bool(original())

        monkeypatch.setattr(query.writer, before, committed_meanwhile)
        monkeypatch.setattr(query.journal, "append", measured_append)
        while not query.writer.step():
            pass
        assert sizes[0] + 500 <= self.SMALL


class TestFullDisk:
    @pytest.fixture
    def disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
        return SmallDisk(tmp_path / "journal", monkeypatch)

    @pytest.mark.rule("J.12")
    def test_the_query_fails_after_the_next_commit_and_what_has_no_room_is_not_offered(
        self, make: Make, disk: SmallDisk, caplog: pytest.LogCaptureFixture
    ) -> None:
        query = make(ack_when_durable=True)
        query.write(0, 2)
        assert query.acks() == [b"h0", b"h1"]
        disk.fill()
        query.deliver(2, 2)
        query.writer.start()
        query.writer.wake()
        wait_until(lambda: "No space left" in caplog.text, what="the full disk")
        assert query.writer.full and query.writer.failure is None
        query.receiver.confirm("receipt")
        query.writer.commit(2)
        wait_until(lambda: query.writer.failure is not None, what="the failure")
        assert query.journal.first == 2
        assert isinstance(query.writer.failure, JournalUnwritable)
        assert "Make room there, and start the query again" in str(query.writer.failure)
        assert (query.journal.end, query.acks("second")) == (2, [])
        # The next run has the rest from the broker.
        disk.size = 1 << 30
        query = make(ack_when_durable=True)
        query.write(2, 2, handle="again")
        assert bodies(query.journal.batches(2, 4)) == ["body 2", "body 3"]

    @pytest.mark.rule("7.1")
    def test_what_else_fails_meanwhile_does_not_hide_that(
        self, make: Make, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        query = make(ack_when_durable=True)
        query.write(0, 2)
        query.acks()
        disk.fill()
        query.deliver(2, 2)
        query.writer.start()
        query.writer.wake()
        wait_until(lambda: "No space left" in caplog.text, what="the full disk")

        def trim(upto: int) -> None:
            raise JournalUnwritable("the file system is read-only")

        monkeypatch.setattr(query.journal, "trim", trim)
        query.receiver.confirm("receipt")
        query.writer.commit(2)
        wait_until(lambda: query.writer.failure is not None, what="the failure")
        assert "No space left" in str(query.writer.failure) and "read-only" in caplog.text

    @pytest.mark.rule("J.11", "J.12")
    @pytest.mark.parametrize("is_told", [False, True])
    def test_full_of_what_is_committed_the_next_run_makes_room(
        self, make: Make, disk: SmallDisk, is_told: bool
    ) -> None:
        query = make()
        for number in range(5):
            query.write(number)
        disk.fill()
        if is_told:
            query.writer.commit(5)
        query.deliver(5)
        with pytest.raises(JournalUnwritable, match="No space left"):
            query.writer.step()
        query.receiver.disconnected(redelivers=True)
        query = make()
        assert query.journal.committed == (5 if is_told else 0)
        # Spark says it, if the journal does not know.
        query.writer.commit(5)
        query.deliver(0, 6, handle="again")
        if not is_told:
            with pytest.raises(JournalUnwritable, match="No space left"):
                query.writer.step()
            query.receiver.disconnected(redelivers=True)
            query = make()
            query.deliver(0, 6, handle="again")
        # What is deleted has to give the room of the reserve back.
        disk.size += 2_000
        assert query.writer.step()
        assert (query.journal.first, query.journal.end) == (5, 6)
        assert query.receiver.counts.dropped == 5
        assert query.acks() == [b"again%d" % number for number in range(5)]


class TestThread:
    def test_it_writes_what_comes_and_rests_in_between(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        query = make()
        query.writer.start()
        query.deliver(0, 2)
        query.writer.wake()
        wait_until(lambda: query.journal.end == 2, what="the frames in the journal")
        flush, flushed = query.journal.flush, []

        def noted() -> None:
            flush()
            flushed.append(query.journal.committed)

        monkeypatch.setattr(query.journal, "flush", noted)
        query.writer.commit(2)
        wait_until(lambda: 2 in flushed, what="the commit in the journal")
        query.close()
        assert make().journal.committed == 2

    @pytest.mark.rule("7.1")
    @pytest.mark.parametrize(
        ("raised", "seen"),
        [
            (OSError(errno.ENOSPC, "No space left on device"), JournalUnwritable),
            (ZeroDivisionError("oops"), JournalError),
        ],
    )
    def test_what_ends_it_is_told_and_nothing_was_acked(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, raised: Exception, seen: type[JournalError]
    ) -> None:
        query = make(ack_when_durable=True)

        def fails(descriptor: int, data: bytes) -> None:
            raise raised

        monkeypatch.setattr("spark_stomp.journal.store.write_fully", fails)
        query.deliver(0, 2)
        query.writer.start()
        wait_until(lambda: query.writer.failure is not None, what="the failure")
        assert isinstance(query.writer.failure, seen)
        assert query.acks() == []
        assert query.journal.end == 0


def test_a_write_that_outlives_the_stop_is_finished_and_the_journal_let_go(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = make()
    begun, go_on = threading.Event(), threading.Event()
    append = Journal.append

    def slow(journal: Journal, runs: Sequence[FrameBatch]) -> list[int]:
        begun.set()
        assert go_on.wait(PATIENCE)
        return append(journal, runs)

    monkeypatch.setattr(Journal, "append", slow)
    query.deliver(0)
    query.writer.start()
    query.writer.wake()
    assert begun.wait(PATIENCE)
    query.writer.stop(0.01)
    with pytest.raises(JournalInUse):
        local_journal(tmp_path / "journal")
    go_on.set()
    again = local_journal(tmp_path / "journal", lock_timeout=20.0)
    assert (query.journal.end, again.end) == (1, 1)
    again.close()


@pytest.mark.parametrize(
    ("dialect", "option", "ids"),
    [
        ("devbroker", None, [b"ID:3", b"ID:4"]),
        ("devbroker", "ack", [b"3", b"4"]),
        ("devbroker", "order-id", [None, None]),
        ("rabbitmq", None, [None, None]),
    ],
)
def test_ids_of_frames_that_earlier_runs_left(
    dialect: str, option: str | None, ids: list[bytes | None]
) -> None:
    """The option wins over what the dialect knows."""
    assert stable_ids(replace(batch_of(3, 2), dialect=dialect), option) == ids
