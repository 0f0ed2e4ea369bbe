"""The log in memory: what Spark is told gets numbers, and keeps them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.by_hand import Query, block_of, receive
from support.journals import bodies

from spark_stomp.errors import JournalMissing, RangeUnavailable, StreamTruncated
from spark_stomp.frame_batch import FrameBatch, joined
from spark_stomp.frameserver import RangeTicket
from spark_stomp.source.offsets import INITIAL, JOURNAL, MEMORY, STREAM, LogEnd, Offset, Range
from spark_stomp.source.planning import BatchLimits


class Memory(Query):
    """Receivers with these names."""

    def __init__(self, names: str = "ab") -> None:
        super().__init__(names)
        self.by_name = dict(zip(names, self.queues, strict=True))
        self.connect(keyed=False)

    def receive(self, at: str, *names: str) -> None:
        frames = [b"MESSAGE\n\n%s\0" % name.encode() for name in names]
        receive(self.by_name[at], block_of(frames, [name.encode() for name in names]))

    def reconnect(self, at: str) -> None:
        """The connection breaks, and the broker will redeliver what nobody was told of."""
        self.by_name[at].disconnected(redelivers=True)
        self.by_name[at].connected(keyed=False)

    def tell(
        self, start: Offset, limits: BatchLimits, between: Callable[[], None] = lambda: None, turn: int = 0
    ) -> Offset | None:
        """As a query does; ``between`` happens after the look and before the end is told."""
        available = self.available(start, turn)
        between()
        chosen = self.logs.take_batch(start, available, limits)
        return None if chosen is None else chosen[0]

    def batches(self, start: Offset, end: Offset) -> list[FrameBatch]:
        return self.read(start, end)[MEMORY]

    def texts(self, start: Offset, end: Offset) -> list[str]:
        return bodies(self.batches(start, end))

    def at(self, number: int) -> Offset:
        return Offset({MEMORY: LogEnd(self.log.id, number)})


@pytest.fixture
def query() -> Memory:
    return Memory()


@pytest.mark.rule("6.1")
def test_what_a_limit_leaves_waits_without_a_number(query: Memory) -> None:
    query.receive("a", "1", "2", "3")
    query.receive("b", "4", "5", "6")
    end = query.end(INITIAL, max_messages=4)
    assert end == query.at(4)
    assert query.texts(INITIAL, end) == ["1", "2", "4", "5"]
    assert [one.new for one in query.available(end)] == [1, 1]
    assert query.texts(end, query.end(end)) == ["3", "6"]


@pytest.mark.rule("2.1", "2.3")
def test_what_was_told_stays_if_its_connection_breaks(query: Memory) -> None:
    query.receive("a", "1", "2")
    end = query.end(INITIAL, max_messages=1)
    query.reconnect("a")
    assert query.texts(INITIAL, end) == ["1"]
    query.receive("a", "2 again")
    following = query.end(end)
    assert query.texts(INITIAL, following) == ["1", "2 again"]


LIMITS = (
    *(BatchLimits(), BatchLimits(max_messages=3), BatchLimits(max_bytes=1 << 10)),
    *(BatchLimits(max_bytes=1), BatchLimits(halves=True)),
)


@pytest.mark.rule("2.5")
@pytest.mark.parametrize("limits", LIMITS)
def test_what_broke_between_look_and_tell_is_looked_at_again(query: Memory, limits: BatchLimits) -> None:
    """Nothing gets a number, and no empty batch is told: that would end a run of Once."""
    query.receive("a", "1", "2")
    assert query.tell(INITIAL, limits, lambda: query.reconnect("a")) is None
    assert (query.log.end, query.logs.received_end()) == (0, INITIAL)
    query.receive("a", "1 again")
    assert query.texts(INITIAL, query.end(INITIAL)) == ["1 again"]


@pytest.mark.rule("2.5")
class TestABreakBetweenLookAndTell:
    @pytest.mark.parametrize("limits", LIMITS[:2])
    def test_of_one_receiver_takes_nothing_of_the_others(self, query: Memory, limits: BatchLimits) -> None:
        query.receive("a", "1")
        query.receive("b", "2", "3")
        assert query.tell(INITIAL, limits, lambda: query.reconnect("b")) is None
        assert (query.log.end, query.by_name["a"].inbox.pending) == (0, 1)

    def test_does_not_matter_if_as_many_came_again(self, query: Memory) -> None:
        query.receive("a", "1", "2")

        def redelivered() -> None:
            query.reconnect("a")
            query.receive("a", "2 again", "1 again")

        end = query.tell(INITIAL, BatchLimits(), redelivered)
        assert end == query.at(2)
        assert query.texts(INITIAL, end) == ["2 again", "1 again"]


@pytest.mark.rule("2.1", "6.3")
class TestAskedAgainFromBefore:
    """Spark was told of an end, and asks again from before it."""

    @pytest.mark.parametrize(
        "limits",
        [BatchLimits(), BatchLimits(max_messages=3), BatchLimits(max_bytes=30), BatchLimits(halves=True)],
    )
    def test_that_end_is_told_again(self, query: Memory, limits: BatchLimits) -> None:
        query.receive("a", "1", "2", "3")
        query.receive("b", "4", "5", "6")
        end = query.tell(INITIAL, limits)
        query.receive("a", "7")
        assert end is not None
        assert query.tell(INITIAL, limits, turn=1) == end
        assert end.to_json() == query.end(INITIAL).to_json()

    def test_no_batch_waits_for_more(self, query: Memory) -> None:
        """A minimum may not be met any more, and what comes is not of this batch."""
        query.receive("a", "1")
        query.end(INITIAL)
        (again,) = query.available(INITIAL)
        assert (again.name, again.new, again.full) == (MEMORY, 1, True)

    def test_and_from_the_offset_of_an_earlier_run(self, query: Memory) -> None:
        query.receive("a", "1")
        before = Offset({MEMORY: LogEnd("of an earlier run", 900)})
        end = query.end(before)
        assert end == query.end(before) == query.at(1)
        assert query.texts(before, end) == ["1"]


def test_the_messages_of_a_receiver_follow_one_another_in_a_batch() -> None:
    """Four receivers take turns with reads of six messages. Their record batches are as many as of one."""
    four, one = Memory("abcd"), Memory("a")
    for turn in range(50):
        for at in four.by_name:
            names = [f"{turn}{at}{number}" for number in range(6)]
            four.receive(at, *names)
            one.receive("a", *names)
    end = four.end(INITIAL)
    assert end.get(MEMORY) == LogEnd(four.log.id, 1_200)
    assert len(four.batches(INITIAL, end)) == 200
    assert [batch.receiver for batch in joined(four.batches(INITIAL, end))] == [*"abcd"]
    assert len(list(joined(one.batches(INITIAL, one.end(INITIAL))))) == 1


def test_what_was_received_counts_what_nobody_was_told(query: Memory) -> None:
    """The query's progress shows how far it is behind."""
    assert query.logs.received_end() == INITIAL
    query.receive("a", "1", "2")
    query.receive("b", "3")
    assert query.logs.received_end() == query.at(3)
    query.end(INITIAL, max_messages=2)
    assert query.logs.received_end() == query.at(3)
    query.reconnect("a")
    assert query.logs.received_end() == query.at(2)


class TestCommits:
    def test_of_another_log_free_nothing(self, query: Memory) -> None:
        query.receive("a", "1")
        query.end(INITIAL)
        other = Offset({MEMORY: LogEnd("other", 1), JOURNAL: LogEnd(query.log.id, 1)})
        assert not query.logs.commit(other)
        assert query.log.committed == 0

    def test_rows_that_wait_are_counted(self, query: Memory) -> None:
        query.receive("a", "1", "2")
        query.receive("b", "3")
        query.logs.commit(query.end(INITIAL, max_messages=1))
        assert (query.logs.rows.committed, query.logs.rows.waiting) == (1, 2)


def test_a_log_that_is_not_here_is_not_read(query: Memory) -> None:
    with pytest.raises(RangeUnavailable, match="no log here has the id other"):
        query.logs.read(RangeTicket("other", 0, 1))


class TestWhatIsMissing:
    """Of what a run without journal and streams cannot read, only the log in memory is lost silently."""

    def test_of_a_log_in_memory(self, query: Memory) -> None:
        assert query.logs.refuse_missing(Range(MEMORY, "of an earlier run", 0, 9))

    @pytest.mark.rule("J.13")
    def test_of_a_journal(self, query: Memory) -> None:
        with pytest.raises(
            JournalMissing, match=r"the journal j up to message 9, 9 of .* option journal is not set"
        ):
            query.logs.refuse_missing(Range(JOURNAL, "j", 0, 9))
        for start, planned in ((JOURNAL, MEMORY), (MEMORY, JOURNAL)):
            with pytest.raises(JournalMissing):
                query.logs.begin(Offset({start: LogEnd("j", 9)}), Offset({planned: LogEnd("j", 9)}))

    @pytest.mark.rule("R.6")
    def test_of_a_stream(self, query: Memory) -> None:
        with pytest.raises(StreamTruncated, match="offsets 5 to 8 of the stream c"):
            query.logs.refuse_missing(Range(f"{STREAM}c", "e", 5, 9))
