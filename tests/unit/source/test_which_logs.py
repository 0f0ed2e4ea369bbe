"""What becomes of a log from run to run: it is there again, it is not, it is new, or it is another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from support.by_hand import Journaled, Query, block_of, receive
from support.journals import bodies, damage, fill, frame, local_journal, objects
from support.options import source_options

from spark_stomp.errors import JournalMismatch, JournalMissing, StompError, StreamTruncated
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver import FIRST, ReceiverSettings
from spark_stomp.source.logs import Logs, Shares
from spark_stomp.source.offsets import INITIAL, JOURNAL, MEMORY, STREAM, LogEnd, Offset, Range
from spark_stomp.source.planning import Available, BatchLimits
from spark_stomp.source.stream_log import StreamLog

A, B = f"{STREAM}a", f"{STREAM}b"
# The first offset that the streams still have. Some offsets behind it were never messages.
EARLIEST, GAPS = 20, {23, 24}
# Committed messages in the journal ``k``.
OTHERS = 3
JOURNALS = "jk"
QUEUES = "m" + JOURNALS


def messages(*numbers: int) -> MessageBlock:
    frames, handles = [frame(number) for number in numbers], [b"h%d" % number for number in numbers]
    return block_of(frames, handles, [b"ID:%d" % number for number in numbers])


class Run:
    """A run of a query. Each letter of ``reads`` is a receiver.

    ``m`` reads a queue, ``j`` and ``k`` read it with one or another journal, ``a``, ``b``, ``c`` each read a
    stream, and ``A`` reads the stream ``a``, which was declared anew.
    """

    def __init__(self, folder: Path, reads: str, tolerant: bool, numbers: Iterator[int]) -> None:
        self.reads, self._numbers = reads, numbers
        names = [f"q#{at}" for at, one in enumerate(reads) if one in QUEUES]
        streams = list[ReceiverSettings]()
        for at, one in enumerate(reads.lower()):
            if one not in QUEUES:
                destination = f"/amq/queue/{one}"
                options = source_options("stomp://b", destination, startingOffsets="earliest")
                streams.append(ReceiverSettings(f"{destination}#{at}", (destination,), options))
        self.query = (
            Journaled(folder / reads[0], names, streams, tolerant=tolerant)
            if reads[0] in JOURNALS
            else Query(names, streams, tolerant=tolerant)
        )
        self.logs, self.queues, self.streams = self.query.logs, self.query.queues, self.query.streams

    def begin(self, start: Offset, planned: Offset) -> None:
        self.logs.begin(start, planned)
        for letter, one in zip([one for one in self.reads if one not in QUEUES], self.streams, strict=True):
            if letter == "A":
                one.begin_at(FIRST)  # as its receiver does, with failOnDataLoss=false
        self.query.connect()

    def receive(self, count: int) -> None:
        """So many messages come of each."""
        for queue in self.queues:
            receive(queue, messages(*(next(self._numbers) for _ in range(count))), "devbroker")
        while isinstance(self.query, Journaled) and self.query.writer.step():
            pass
        for stream in self.streams:
            at = stream.stream.next if stream.stream.next is not None else EARLIEST
            for offset in [one for one in range(at, at + count + len(GAPS)) if one not in GAPS][:count]:
                stream.receive_from(
                    offset, messages(offset), received_at=0, version="1.2", dialect="rabbitmq"
                )

    def end(self, start: Offset) -> Offset:
        """The end of a batch of all that is there."""
        available = self.query.available(start)
        chosen = self.logs.take_batch(start, available, BatchLimits())
        assert chosen is not None and sum(chosen[1].values()) == sum(one.new for one in available)
        return chosen[0]

    def read(self, start: Offset, end: Offset) -> tuple[dict[str, list[str]], list[Range]]:
        """The bodies of a batch by the names of logs, and the ranges that are lost."""
        rows = {name: bodies(batches) for name, batches in self.query.read(start, end).items()}
        return rows, self.logs.ranges(start, end)[1]


Runs = Callable[..., Run]
Take = Callable[[Logs, Callable[[], dict[str, int]]], tuple[Offset, Shares] | None]


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Take:
    """Takes a batch of what a function chooses while the lock is held."""

    def taken(logs: Logs, choose: Callable[[], dict[str, int]]) -> tuple[Offset, Shares] | None:
        with monkeypatch.context() as patch:
            patch.setattr("spark_stomp.source.logs.shares_of", lambda *_: choose())
            return logs.take_batch(INITIAL, [], BatchLimits())

    return taken


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Makes the next run; the one before is over then."""
    made, numbers = list[Run](), count()

    def one(reads: str, *, tolerant: bool = False) -> Run:
        for run in made:
            run.query.close()
        made.append(Run(tmp_path, reads, tolerant, numbers))
        return made[-1]

    yield one
    for run in made:
        run.query.close()


READ, LOST, KEPT, NEW = "read again", "lost", "kept as it is", "begins"
# For each kind of log: how a run differs from the one before it, what both read, and the log in question.
# Then what becomes of its planned batch, or the error; and where a new batch ends.
MATRIX: dict[tuple[str, str], tuple[str, str, str, object, str]] = {
    ("memory", "same"): ("m", "m", MEMORY, LOST, NEW),
    ("memory", "off"): ("ma", "a", MEMORY, LOST, KEPT),
    ("memory", "on"): ("a", "ma", MEMORY, None, NEW),
    ("memory", "other"): ("m", "j", MEMORY, LOST, KEPT),
    ("memory", "fewer destinations"): ("mma", "ma", MEMORY, LOST, NEW),
    ("memory", "more destinations"): ("m", "mmab", MEMORY, LOST, NEW),
    ("journal", "same"): ("j", "j", JOURNAL, READ, READ),
    ("journal", "off"): ("j", "m", JOURNAL, JournalMissing, KEPT),
    ("journal", "off, streams only"): ("ja", "a", JOURNAL, JournalMissing, KEPT),
    ("journal", "on"): ("ma", "ja", JOURNAL, None, NEW),
    ("journal", "other"): ("j", "k", JOURNAL, JournalMismatch, NEW),
    ("journal", "fewer destinations"): ("jja", "ja", JOURNAL, READ, READ),
    ("journal", "more destinations"): ("j", "jjb", JOURNAL, READ, READ),
    ("stream", "same"): ("ma", "ma", A, READ, READ),
    ("stream", "off"): ("ma", "m", A, StreamTruncated, KEPT),
    ("stream", "off, with a journal"): ("ja", "j", A, StreamTruncated, KEPT),
    ("stream", "on"): ("m", "ma", A, None, NEW),
    ("stream", "other"): ("ja", "jA", A, StreamTruncated, NEW),
    ("stream", "fewer destinations"): ("ab", "b", A, StreamTruncated, KEPT),
    ("stream", "more destinations"): ("b", "ab", A, None, NEW),
    ("stream", "more, of which one is older"): ("a", "mab", A, READ, READ),
}


@pytest.mark.rule("2.2", "3.1", "3.2", "J.2", "J.13", "R.2", "R.4", "R.6")
@pytest.mark.parametrize("tolerant", [False, True], ids=["strict", "tolerant"])
@pytest.mark.parametrize("planned", [False, True], ids=["committed", "planned"])
@pytest.mark.parametrize(("kind", "change"), MATRIX)
def test_a_log_from_run_to_run(
    runs: Runs, kind: str, change: str, planned: bool, tolerant: bool, caplog: pytest.LogCaptureFixture
) -> None:
    before, after, name, becomes, ends = MATRIX[kind, change]
    other = runs("k")  # another journal, which is not empty
    other.begin(INITIAL, INITIAL)
    other.receive(OTHERS)
    other.logs.commit(other.end(INITIAL))
    assert isinstance(other.query, Journaled) and not other.query.writer.step()
    other.query.journal.flush()
    first = runs(before)
    first.begin(INITIAL, INITIAL)
    first.receive(5)
    start = last = first.end(INITIAL)
    first.logs.commit(start)
    if planned:
        first.receive(3)
        last = first.end(start)
    rows, _ = first.read(start, last)

    second = runs(after, tolerant=tolerant)
    error = becomes if isinstance(becomes, type) and issubclass(becomes, StompError) else None
    if error is not None and error is not StreamTruncated:
        if not tolerant:
            # With streams only, the option journal alone would be refused.
            remedy = "Read the queues again with journal, or" if change.startswith("off") else ""
            with pytest.raises(error, match=rf"^\S+ the checkpoint names the journal.*{remedy}"):
                second.begin(start, last)
            return
        second.begin(start, last)
        assert caplog.text.count("failOnDataLoss=false: ") == 1
    else:
        second.begin(start, last)
    # A stream is received again, from where the planned batch begins.
    for _ in range(3):
        second.receive(1)
    assert second.logs.are_here(last)
    again, lost = second.read(start, last)
    if becomes == READ:
        assert again.get(name, []) == rows.get(name, []) and len(again.get(name, [])) >= 3 * planned
    else:
        assert name not in again
    assert [one.name for one in lost if one.name == name] == [name] * (
        planned and becomes not in (READ, None)
    )
    for one in lost:
        raises = one.name != MEMORY and not tolerant
        with pytest.raises(StompError) if raises else ExitStack():
            second.logs.refuse_missing(one)

    second.receive(2)
    end = second.end(last)
    old, new = last.get(name), end.get(name)
    if ends == KEPT:
        assert new == old is not None
    elif ends == READ:
        assert old is not None and new is not None
        assert (new.id, new.base) == (old.id, 0) and new.next > old.next
    else:
        assert new is not None and new.id not in {one.id for _, one in last}
        assert new.base == {MEMORY: 0, JOURNAL: OTHERS if "k" in after else 0, A: EARLIEST}[name]
    read = {part.name for part, _ in second.logs.ranges(last, end)[0]}
    assert {one: end.get(one) for one, _ in last if one not in read} == {
        one: place for one, place in last if one not in read
    }
    assert second.end(last) == end, "what was told is told again"
    assert Offset.from_dict(json.loads(end.to_json())) == end


# What earlier runs read. Nothing of the stream b has come since a run began at its end.
KNOWN = Offset({MEMORY: LogEnd("m", 7), A: LogEnd("e", 25), B: LogEnd("f", 29, 29)})


@pytest.mark.rule("R.4")
@pytest.mark.parametrize("between", [["a"], ["b"], ["c"], ["m"], ["j"], ["a", "m", "jc", "ac"]])
def test_a_stream_is_read_on_by_a_run_that_names_it_again(runs: Runs, between: list[str]) -> None:
    end = KNOWN
    for reads in between:
        run = runs(reads, tolerant=True)
        run.begin(end, end)
        run.receive(2)
        end = run.end(end)
    run = runs("ab", tolerant=True)
    run.begin(end, end)
    left = [place for name, place in end if name in (A, B)]
    assert [(held.log.id, held.stream.place.offset) for held in run.streams] == [
        (place.id, place.next) for place in left
    ]
    assert [place.id for place in left] == ["e", "f"]


@pytest.mark.rule("2.5")
def test_a_break_takes_nothing_of_other_logs(runs: Runs, take: Take) -> None:
    """What of a queue is gone when the end is told is looked for again, and so is the rest."""
    run = runs("ma")
    run.begin(INITIAL, INITIAL)
    run.receive(3)
    (queue,), (stream,) = run.queues, run.streams

    def broken() -> dict[str, int]:
        queue.disconnected(redelivers=True)
        return {queue.inbox.name: 3, stream.inbox.name: 3}

    assert take(run.logs, broken) is None
    assert (queue.log.end, stream.log.end) == (0, EARLIEST + 3)
    queue.connected(keyed=True)
    run.receive(1)
    end = run.end(INITIAL)
    assert {name: place.next for name, place in end} == {MEMORY: 1, A: EARLIEST + 6}


@pytest.mark.rule("2.5")
@pytest.mark.parametrize("reads", ["m", "ma"])
def test_no_connection_of_a_queue_breaks_while_shares_are_chosen(runs: Runs, reads: str, take: Take) -> None:
    run = runs(reads)
    run.begin(INITIAL, INITIAL)
    run.receive(1)

    def chosen() -> dict[str, int]:
        with ThreadPoolExecutor(1) as other:
            assert not other.submit(run.queues[0].lock.acquire, blocking=False).result()
        return {run.queues[0].inbox.name: 1}

    assert take(run.logs, chosen) is not None


@pytest.mark.rule("R.1", "R.4")
def test_a_stream_that_is_declared_anew_while_an_end_is_told_names_no_offset_of_the_old_one(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs("ma", tolerant=True)
    start = Offset({A: LogEnd("e", 50)})
    run.begin(start, start)
    receive(run.queues[0], messages(1))
    take = StreamLog.take

    def overtaken(log: StreamLog, low: int, shares: Mapping[str, int]) -> int:
        end = take(log, low, shares)
        run.streams[0].begin_at(FIRST)
        return end

    monkeypatch.setattr(StreamLog, "take", overtaken)
    chosen = run.logs.take_batch(
        start, [Available(run.queues[0].inbox.name, run.queues[0].log, 0, 1)], BatchLimits()
    )
    assert chosen is not None
    assert dict(chosen[0]) == {**start.ends, MEMORY: LogEnd(run.queues[0].log.id, 1)}


@pytest.mark.rule("R.1")
def test_a_batch_of_one_log_names_no_end_of_another(runs: Runs) -> None:
    run = runs("ma")
    run.begin(INITIAL, INITIAL)
    run.receive(5)
    (queue,), (stream,) = run.queues, run.streams

    def end(start: Offset, of_queue: int, of_stream: int) -> Offset:
        shares = {queue.inbox.name: of_queue, stream.inbox.name: of_stream}
        available = [Available(name, queue.log, 0, count) for name, count in shares.items()]
        chosen = run.logs.take_batch(start, available, BatchLimits())
        assert chosen is not None and chosen[1] == shares
        return chosen[0]

    first = end(INITIAL, 2, 0)
    assert [name for name, _ in first] == [MEMORY]
    second = end(first, 0, 3)
    assert dict(second) == {**first.ends, A: LogEnd(stream.log.id, min(GAPS), EARLIEST)}
    third = end(second, 1, 0)
    assert dict(third) == {**second.ends, MEMORY: LogEnd(queue.log.id, 3)}
    assert end(third, 0, 1).get(A) == LogEnd(stream.log.id, max(GAPS) + 2)


@pytest.mark.rule("J.13")
@pytest.mark.parametrize(("limits", "count"), [({}, 9), ({"max_messages": 2}, 2), ({"max_bytes": 1}, 1)])
def test_with_an_older_checkpoint_a_batch_begins_behind_what_the_journal_has_deleted(
    runs: Runs, limits: dict[str, int], count: int
) -> None:
    run, ends = runs("j"), [INITIAL]
    run.begin(INITIAL, INITIAL)
    for _ in range(3):
        run.receive(3)
        ends.append(run.end(ends[-1]))
        run.logs.commit(ends[-1])
    assert isinstance(run.query, Journaled)
    run.query.journal.trim(6)
    run.receive(6)

    run, (_, older, *_) = runs("j", tolerant=True), ends
    run.begin(older, older)
    available = run.query.available(older)
    chosen = run.logs.take_batch(older, available, BatchLimits(**limits))
    assert chosen is not None and chosen[1] == {JOURNAL: count}
    assert run.read(older, chosen[0])[0] == {JOURNAL: [f"body {6 + at}" for at in range(count)]}


@pytest.mark.rule("5.4")
@pytest.mark.parametrize("limits", [{}, {"max_bytes": 10_000}, {"max_messages": 2}])
def test_what_a_journal_has_lost_at_its_end_gives_no_batch(tmp_path: Path, limits: dict[str, int]) -> None:
    """With failOnDataLoss=false. Of what comes then the first batch begins behind it."""
    filled = fill(local_journal(tmp_path))
    filled.flush()
    filled.close()
    damage(objects(tmp_path)[-1], 60)
    query = Journaled(tmp_path, ack_when_durable=True, tolerant=True)
    start = Offset({JOURNAL: LogEnd(query.journal.id, 15)})
    query.logs.begin(start, start)
    assert (query.journal.held(0, 20), query.journal.end) == ([(0, 15)], 20)
    assert [one.new for one in query.available(start)] == [0]
    query.connect()
    receive(query.queues[0], messages(30, 31))
    assert query.writer.step()
    assert query.end(start, **limits) == Offset({JOURNAL: LogEnd(query.journal.id, 22)})
    query.close()
