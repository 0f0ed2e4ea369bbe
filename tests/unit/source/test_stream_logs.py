"""The logs of streams: the numbers of messages are the broker's offsets."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
from support.by_hand import Query, block_of
from support.options import source_options

from spark_stomp.errors import LoginRefused, RangeUnavailable, StreamTruncated
from spark_stomp.receiver import FIRST, LATEST, ReceiverSettings, StreamDeliveries
from spark_stomp.source import stream_log
from spark_stomp.source.offsets import INITIAL, STREAM, LogEnd, Offset, Range, split
from spark_stomp.source.planning import BatchLimits
from spark_stomp.source.stream_log import find_ends

A, B = "/amq/queue/a", "/amq/queue/b"
SIZE = 12


def frame(offset: int) -> bytes:
    return (b"MESSAGE %d\0" % offset).rjust(SIZE, b"\n")


def at(**offsets: tuple[str, int] | tuple[str, int, int]) -> Offset:
    """Positions in the streams ``a`` and ``b``: id, offset, base."""
    return Offset({f"{STREAM}{name}": LogEnd(*position) for name, position in offsets.items()})


class Run(Query):
    """A run that reads the streams ``a`` and ``b``: what Spark asks of their logs, and what they bring."""

    def __init__(
        self, starting: str = "earliest", start: Offset = INITIAL, planned: Offset = INITIAL, **options: str
    ) -> None:
        chosen = source_options("stomp://b", json.dumps([A, B]), startingOffsets=starting, **options)
        super().__init__((), ReceiverSettings.of(chosen), tolerant=not chosen.fail_on_data_loss)
        self.a, self.b = self.streams
        self.logs.begin(start, planned)
        self.connect(keyed=False)

    def receive(self, held: StreamDeliveries, *offsets: int) -> None:
        for offset in offsets:
            held.receive_from(offset, block_of([frame(offset)]), received_at=0, version="1.2", dialect="r")

    def stop_at(self, end: int | None) -> None:
        for one in self.stream_logs:
            one.stop_at(end)

    def next_end(self, start: Offset, **limits: Any) -> Offset:
        """The end of a batch, or of none."""
        chosen = self.logs.take_batch(start, self.available(start), BatchLimits(**limits))
        return self.logs.offset(start, {}) if chosen is None else chosen[0]

    def tasks(self, start: Offset, end: Offset, about: int = 1 << 20) -> list[list[int]]:
        """The offsets of the messages of each task of a batch."""
        tasks = []
        for task in split(self.logs.ranges(start, end)[0], about):
            tickets = [found for one in task for found in self.logs.tickets(one)]
            batches = [batch for ticket in tickets for batch in self.logs.read(ticket)]
            texts = b"".join(bytes(batch.data) for batch in batches).split(b"\0")[:-1]
            tasks.append([int(text.split()[1]) for text in texts])
        return [task for task in tasks if task]


class TestWhereARunBegins:
    @pytest.mark.rule("R.4")
    def test_where_the_options_say_only_for_what_the_checkpoint_does_not_name(self) -> None:
        one = Run('{"a": 7, "b": 8}', at(b=("e", 50)))
        assert (one.a.stream.base, one.b.stream.base, one.b.log.id) == (7, 50, "e")
        assert one.a.log.id != Run('{"a": 7, "b": 8}').a.log.id

    @pytest.mark.rule("R.2")
    def test_at_a_batch_that_is_planned(self) -> None:
        one = Run("earliest", at(a=("e", 50)), at(a=("e", 60), b=("f", 9, 3)))
        assert (one.a.stream.base, one.b.stream.base) == (50, 3)
        assert (one.a.log.id, one.b.log.id) == ("e", "f")
        assert one.a.stream.awaits_planned and one.b.stream.awaits_planned

    @pytest.mark.rule("R.2")
    def test_of_a_stream_that_began_anew_with_it(self) -> None:
        one = Run("earliest", at(a=("old", 50)), at(a=("new", 60, 2)))
        assert (one.a.stream.base, one.a.log.id) == (2, "new")


@pytest.mark.rule("R.1")
class TestBatches:
    def test_follow_one_another_without_gap_and_overlap(self) -> None:
        one = Run()
        one.receive(one.a, 5, 6, 7, 20, 21)
        one.receive(one.b, 0, 1)
        ends = [INITIAL]
        while (end := one.next_end(ends[-1], max_messages=3)) != ends[-1]:
            ends.append(end)
        batches = [one.tasks(start, end) for start, end in pairwise(ends)]
        offsets = [offset for tasks in batches for task in tasks for offset in task]
        assert sorted(offsets) == [0, 1, 5, 6, 7, 20, 21]
        assert all(batches)
        # The broker's offsets, or the next run would go on elsewhere.
        assert {name: position.next for name, position in ends[-1]} == {f"{STREAM}a": 22, f"{STREAM}b": 2}

    def test_begin_where_the_first_message_was(self) -> None:
        one = Run()
        one.receive(one.a, 5, 6)
        end = one.next_end(INITIAL)
        assert end == at(a=(one.a.log.id, 7, 5))
        one.receive(one.a, 7)
        assert one.next_end(end) == at(a=(one.a.log.id, 8))

    def test_tell_no_offsets_of_a_gap_before_their_first_message(self) -> None:
        one = Run(start=at(a=("e", 10)))
        assert one.available(at(a=("e", 10)))[0].new == 0
        one.receive(one.a, 90, 91)
        first = one.available(at(a=("e", 10)))[0]
        assert (first.name, first.low, first.high) == (f"{A}#0", 90, 92)
        assert one.next_end(at(a=("e", 10))) == at(a=("e", 92))

    @pytest.mark.parametrize(("max_bytes", "count"), [(1, 1), (SIZE, 1), (2 * SIZE, 2), (36, 3), (99, 4)])
    def test_have_as_many_bytes_as_they_may(self, max_bytes: int, count: int) -> None:
        one = Run()
        one.receive(one.a, 5, 6, 20, 21)
        assert one.a.log.bytes_between(0, 21) == 3 * SIZE
        end = one.next_end(INITIAL, max_bytes=max_bytes)
        assert one.tasks(INITIAL, end) == [[5, 6, 20, 21][:count]]


@pytest.mark.rule("R.2")
class TestAPlannedBatch:
    def test_is_awaited_and_is_the_same(self) -> None:
        start, end = at(a=("e", 5)), at(a=("e", 8))
        one = Run(start=start, planned=end)
        for offset in (5, 6, 7):
            assert not one.logs.are_here(end)
            one.receive(one.a, offset)
        one.receive(one.a, 8, 9)
        assert one.logs.are_here(end) and not one.a.stream.awaits_planned
        assert one.tasks(start, end) == [[5, 6, 7]]

    @pytest.mark.rule("R.7")
    def test_has_all_the_memory_that_it_needs(self) -> None:
        one = Run(start=at(a=("e", 5)), planned=at(a=("e", 8)))
        assert one.a.room() > 1 << 40
        one.receive(one.a, 5, 6, 7)
        assert one.a.room() == (1 << 20) - 3 * SIZE

    def test_that_is_not_of_a_stream_here_is_not_awaited(self) -> None:
        one = Run()
        assert one.logs.are_here(at(a=("other", 8)))
        assert one.logs.are_here(Offset({f"{STREAM}c": LogEnd("e", 8)}))

    @pytest.mark.rule("R.6")
    @pytest.mark.parametrize("tolerant", [False, True])
    def test_that_is_lost_is_an_error(self, tolerant: bool, caplog: pytest.LogCaptureFixture) -> None:
        one = Run(failOnDataLoss=str(not tolerant).lower())
        lost = Range(f"{STREAM}c", "e", 5, 9)
        error = pytest.raises(StreamTruncated, match="offsets 5 to 8 of the stream c")
        with nullcontext() if tolerant else error:
            one.logs.refuse_missing(lost)
        assert ("offsets 5 to 8" in caplog.text) == tolerant


class TestCommits:
    def test_free_what_they_commit(self) -> None:
        one = Run()
        one.receive(one.a, 5, 6, 20)
        name = one.a.log.id
        assert one.logs.commit(at(a=(name, 7)))
        assert one.a.log.committed == 7
        assert not one.logs.commit(at(a=(name, 7)))
        with pytest.raises(RangeUnavailable, match="asks again for messages from 6 on, but those below 7"):
            one.logs.tickets(Range(f"{STREAM}a", name, 6, 21))
        assert one.a.take_acks(1_000) is None
        assert one.a.inbox.memory_bytes == SIZE

    def test_of_another_log_or_stream_free_nothing(self) -> None:
        one = Run()
        one.receive(one.a, 5)
        assert not one.logs.commit(Offset({**at(a=("e", 6)).ends, f"{STREAM}c": LogEnd("e", 6)}))
        assert one.a.log.committed == 5

    def test_what_was_received(self) -> None:
        one = Run("latest")
        assert one.logs.received_end() == INITIAL
        one.receive(one.a, 5)
        assert one.logs.received_end() == at(a=(one.a.log.id, 6))


@pytest.mark.rule("R.4")
class TestLatest:
    def test_is_in_the_first_batch_which_is_empty(self) -> None:
        one = Run("latest")
        assert one.next_end(INITIAL) == INITIAL
        one.a.locate(40)  # as the receiver does when it knows it
        pinned = at(a=(one.a.log.id, 40, 40))
        assert one.logs.offset(INITIAL, {}) == one.next_end(INITIAL) == pinned
        assert one.tasks(INITIAL, pinned) == []
        assert one.logs.offset(pinned, {}) == pinned
        again = Run("latest", pinned)
        assert (again.a.stream.base, again.a.log.id, again.b.stream.place) == (40, one.a.log.id, LATEST)

    def test_of_an_end_that_is_found_later_is_in_a_later_batch(self) -> None:
        one = Run("latest")
        one.a.locate(40)
        start = one.next_end(INITIAL)
        one.b.locate(0)
        assert one.next_end(start) == at(a=(one.a.log.id, 40, 40), b=(one.b.log.id, 0))

    @pytest.mark.parametrize("starting", ["earliest", "2026-11-23T08:00:00Z", '{"a": 3, "b": 3}'])
    def test_only_for_latest(self, starting: str) -> None:
        one = Run(starting)
        one.a.locate(3)
        assert one.logs.offset(INITIAL, {}) == INITIAL


@pytest.mark.rule("R.5")
class TestTheEndOfARun:
    def complete(self, one: Run, start: Offset = INITIAL) -> list[bool | None]:
        return [found.complete for found in one.available(start)]

    def test_is_that_of_the_streams_when_it_began(self) -> None:
        one = Run()
        one.receive(one.a, 7, 8)
        one.stop_at(10)
        assert self.complete(one) == [False, False]
        one.receive(one.a, 9, 10, 11)
        first = one.available(INITIAL)[0]
        assert (first.low, first.high) == (7, 10)
        end = one.next_end(INITIAL)
        one.a.stream.note_end_known()
        assert self.complete(one, end) == [True, False]
        assert one.available(end)[0].new == 0

    def test_is_not_known_of_a_query_that_goes_on(self) -> None:
        one = Run()
        one.receive(one.a, 5, 11)
        one.stop_at(10)
        one.stop_at(None)
        assert self.complete(one) == [None, None]
        assert one.available(INITIAL)[0].high == 12

    def test_an_empty_stream_is_complete(self) -> None:
        one = Run()
        one.stop_at(0)
        assert self.complete(one) == [True, True]

    @pytest.mark.parametrize(
        ("starting", "start", "complete"),
        [
            # Behind it, at a time without messages, and where messages are only late.
            ("latest", at(a=("e", 12)), [True, True]),
            ("2026-11-23T08:00:00Z", INITIAL, [True, False]),
            ("earliest", INITIAL, [False, False]),
        ],
    )
    def test_a_stream_without_messages_before_it(
        self, starting: str, start: Offset, complete: list[bool]
    ) -> None:
        """It may be complete once its end is known."""
        one = Run(starting, start)
        one.stop_at(10)
        assert self.complete(one, start) == [False, False]
        assert one.available(start)[0].new == 0
        one.a.stream.note_end_known()
        if starting == "latest":
            one.b.locate(12)
        assert self.complete(one, start) == complete

    @pytest.mark.parametrize(("filters", "complete"), [({}, False), ({"x-stream-filter": "red"}, None)])
    def test_where_a_filter_may_leave_it_out_silence_tells(
        self, filters: dict[str, str], complete: bool | None
    ) -> None:
        one = Run(subscribeHeaders=json.dumps(filters))
        one.stop_at(10)
        one.receive(one.a, 7, 8)
        assert self.complete(one) == [complete, complete]
        one.receive(one.a, 9)
        assert self.complete(one)[0] is True


class TestWhatComesMeanwhile:
    """The receiver's thread takes messages between two looks of Spark's thread."""

    def come(self, one: Run, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, when: str) -> None:
        """Messages come once that method is called, before or after it has looked."""
        real = getattr(owner, name)

        def looks(*given: Any) -> Any:
            monkeypatch.setattr(owner, name, real)
            if when == "before":
                one.receive(one.a, 5000, 5001)
            found = real(*given)
            if when == "after":
                one.receive(one.a, 5000, 5001)
            return found

        monkeypatch.setattr(owner, name, looks)

    @pytest.mark.rule("R.1", "R.5")
    @pytest.mark.parametrize("until", [None, 5001, 5002])
    @pytest.mark.parametrize("name", ["next_held", "has_all_below"])
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_is_seen_whole_or_not_at_all(
        self, monkeypatch: pytest.MonkeyPatch, until: int | None, name: str, when: str
    ) -> None:
        one = Run("earliest")
        one.stop_at(until)
        owner = one.a.log if name == "next_held" else one.a.stream
        self.come(one, monkeypatch, owner, name, when)
        seen = one.available(INITIAL)
        assert seen[0].new or not seen[0].complete
        chosen = one.logs.take_batch(INITIAL, seen, BatchLimits())
        end = INITIAL if chosen is None else chosen[0]
        assert one.logs.are_here(end)
        low, high = 5000, end.ends[f"{STREAM}a"].next if chosen else 5000
        assert one.tasks(INITIAL, end) == ([] if high == low else [[*range(low, high)]])


@pytest.mark.rule("R.6")
def test_a_stream_that_was_declared_anew_has_another_log() -> None:
    start, planned = at(a=("e", 50)), at(a=("e", 60))
    one = Run(start=start, planned=planned)
    one.a.begin_at(FIRST)  # as the receiver does then
    assert one.logs.are_here(planned) and not one.a.stream.awaits_planned
    assert "e" not in one.logs.ids
    one.receive(one.a, 0, 1)
    assert one.next_end(start) == at(a=(one.a.log.id, 2))
    assert one.tasks(start, one.next_end(start)) == [[0, 1]]


def test_a_login_that_is_refused_when_a_run_asks_for_the_ends_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> dict[str, int]:
        raise LoginRefused("b:1 refused CONNECT: no")

    monkeypatch.setattr(stream_log, "ask_stream_ends", refused)
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it is tried again"))
    with pytest.raises(LoginRefused):
        find_ends(source_options("stomp://b", A, startingOffsets="earliest"), [A])
