"""The connector with a journal, driven as Spark drives it: restarts of every kind, no row lost or twice."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.driven import Json, Run, log_entry
from support.journals import SmallDisk, objects
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import (
    JournalDamaged,
    JournalMismatch,
    JournalMissing,
    JournalTrimmed,
    JournalUnwritable,
    OptionError,
)

QUEUE = "/queue/a"
OTHER = "/queue/b"


def texts(first: int, count: int) -> list[bytes]:
    return [b"message %d" % number for number in range(first, first + count)]


class Query:
    """Run after run on one journal. What Spark would have in its logs is kept from run to run."""

    def __init__(self, broker: DevBroker, folder: Path, **options: Any) -> None:
        self.broker = broker
        self.journal = folder / "journal"
        self.options = {"journal": str(self.journal), **options}
        self.committed: Json | None = None
        self.planned: Json | None = None
        self.run: Run | None = None

    def begin(self, destination: str = QUEUE, **options: Any) -> Run:
        """The next run; a batch that was planned and not committed is its first."""
        given = {**self.options, "destination": destination, **options}
        present = {key: value for key, value in given.items() if value is not None}
        self.run = Run({"url": self.broker.url}, ("body", "stable_id", "received_at", "sequence"), **present)
        if self.committed is not None:
            self.run.start = self.run.end = self.committed
        if self.planned is not None:
            self.run.end = self.planned
        return self.run

    def end(self) -> None:
        """The driver goes, and what it had planned stays in the offset log."""
        if self.run is None:
            return
        run, self.run = self.run, None
        self.planned = None if run.end == run.start else run.end
        self.committed = run.start
        run.reader.stop()
        wait_until(lambda: self.broker.connections == 0, what="the end of the run")

    def again(self, destination: str = QUEUE, **options: Any) -> Run:
        self.end()
        return self.begin(destination, **options)

    def receive(self, first: int, count: int, destination: str = QUEUE) -> list[dict[str, Any]]:
        """Publish messages; the rows of one batch that has them."""
        self.broker.publish_many(destination, texts(first, count))
        return (self.run or self.begin(destination)).gather(count)

    def commit(self) -> None:
        """Commit the planned batch, until all is ACKed."""
        assert self.run is not None
        self.run.commit()
        wait_until(lambda: self.broker.queue(QUEUE).depth == 0, what="all ACKs")

    def uncommitted(self, planned: list[bytes]) -> list[bytes]:
        """Of a planned batch what the broker still has once the journal is gone: all, unless it was ACKed."""
        return [] if self.options["ackAfter"] == "journal" else planned


@pytest.fixture(params=["commit", "journal"])
def query(request: pytest.FixtureRequest, devbroker: DevBroker, tmp_path: Path) -> Iterator[Query]:
    made = Query(devbroker, tmp_path, ackAfter=request.param)
    yield made
    made.end()


def bodies(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["body"] for row in rows]


class TestReplay:
    @pytest.mark.rule("J.2")
    def test_and_nothing_else_gets_into_that_batch(self, query: Query, devbroker: DevBroker) -> None:
        run = query.begin()
        query.receive(0, 50)
        # Some of it is in the journal when the batch is planned again, and some is not.
        devbroker.publish_many(QUEUE, texts(50, 10))
        wait_until(lambda: run.status.document["journal"]["end"] == 60, 10, "the journal")
        query.end()
        devbroker.publish_many(QUEUE, texts(60, 10))
        run = query.begin()
        assert bodies(run.read()) == texts(0, 50)
        run.commit()
        assert bodies(run.take(20)) == texts(50, 20)
        query.commit()


class TestRestartedOtherwise:
    """Whatever the restarted query asks of the broker, what is in the journal comes first."""

    def test_with_fewer_connections_and_another_destination(self, query: Query, devbroker: DevBroker) -> None:
        query.begin(connections=3)
        rows = query.receive(0, 60)
        run = query.again(connections=1)
        assert run.read() == rows
        query.commit()
        rows = query.receive(60, 10)
        devbroker.publish_many(OTHER, texts(70, 5))
        run = query.again(OTHER)
        assert run.read() == rows
        run.commit()
        assert bodies(run.take(5)) == texts(70, 5)

    @pytest.mark.rule("J.4")
    def test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position(self, query: Query) -> None:
        query.receive(0, 10)
        query.commit()
        query.receive(10, 10)
        query.end()
        query.committed = query.planned = None
        run = query.begin()
        assert bodies(run.gather(10)) == texts(10, 10)
        # ... and a replay of that first batch begins there too, whatever was committed since.
        replayed = run.end
        run.commit()
        query.end()
        query.committed, query.planned = run.reader.initialOffset(), replayed
        assert bodies(query.begin().read()) == texts(10, 10)

    def test_on_the_checkpoint_of_a_query_without_a_journal(self, query: Query) -> None:
        query.begin(journal=None, ackAfter=None)
        query.receive(0, 10)
        run = query.again()
        # Those ranges were never ACKed, so they are empty, and their messages are redelivered.
        assert run.read() == []
        run.commit()
        assert bodies(run.gather(10)) == texts(0, 10)
        query.commit()


class TestRefused:
    """What a journal should have and does not is an error, or said aloud with failOnDataLoss=false."""

    @pytest.fixture
    def begun(self, query: Query) -> Query:
        """One batch committed, one planned."""
        query.receive(0, 10)
        query.commit()
        query.receive(10, 10)
        query.end()
        return query

    @pytest.mark.rule("J.13")
    def test_a_journal_that_was_moved_away(
        self, begun: Query, devbroker: DevBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        begun.journal.rename(tmp_path / "elsewhere")
        problem = r"up to message 20, 10 of them in a batch that is not committed, .*moved away or deleted"
        with pytest.raises(JournalMissing, match=problem):
            begun.begin().read()
        # Tolerated, it goes on with what comes.
        run = begun.again(failOnDataLoss="false")
        assert run.read() == []
        assert re.search(f"failOnDataLoss=false: .*{problem}", caplog.text)
        run.commit()
        devbroker.publish_many(QUEUE, texts(20, 5))
        uncommitted = begun.uncommitted(texts(10, 10))
        assert bodies(run.take(len(uncommitted) + 5)) == uncommitted + texts(20, 5)

    def test_the_option_that_was_left_out(self, begun: Query, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.raises(JournalMissing, match="the option journal is not set"):
            begun.begin(journal=None, ackAfter=None).read()
        assert begun.again(journal=None, ackAfter=None, failOnDataLoss="false").read() == []
        assert "the option journal is not set" in caplog.text

    @pytest.fixture
    def orphan(self, query: Query, tmp_path: Path) -> Query:
        """The first batch is planned, and the journal moved away."""
        query.receive(0, 10)
        query.end()
        query.journal.rename(tmp_path / "elsewhere")
        return query

    @pytest.mark.rule("J.13")
    def test_a_first_batch_whose_journal_is_gone(self, orphan: Query, devbroker: DevBroker) -> None:
        connects = devbroker.connects
        for _ in range(2):
            with pytest.raises(JournalMissing, match="moved away or deleted"):
                orphan.again().read()
        assert devbroker.connects == connects

    @pytest.mark.rule("J.13")
    def test_the_option_that_was_left_out_with_nothing_planned(self, begun: Query) -> None:
        begun.planned = None
        run = begun.begin(journal=None, ackAfter=None)
        with pytest.raises(JournalMissing, match="the option journal is not set"):
            run.reader.latestOffset(run.start, None)

    @pytest.mark.rule("J.13")
    def test_a_first_batch_whose_journal_is_gone_after_another_call(self, orphan: Query) -> None:
        run = orphan.begin()
        run.reader.latestOffset(run.reader.initialOffset(), None)
        with pytest.raises((JournalMissing, JournalMismatch)):
            run.read()

    @pytest.mark.rule("J.13", "J.14")
    def test_damage_in_the_middle(self, begun: Query, caplog: pytest.LogCaptureFixture) -> None:
        (path,) = (path for path in objects(begun.journal) if b"message 12" in path.read_bytes())
        path.write_bytes(path.read_bytes().replace(b"message 12", b"message !!"))
        with pytest.raises(JournalDamaged, match="lost"):
            begun.begin().read()
        assert b"message !!" in path.read_bytes()
        assert texts(10, 10)[2] not in bodies(begun.again(failOnDataLoss="false").read())
        assert re.search(
            r"failOnDataLoss=false: .* lacks \d+: it holds .*|of the journal are lost, \d+ in all",
            caplog.text,
        )

    @pytest.mark.rule("J.13")
    def test_the_journal_of_another_query(self, begun: Query, devbroker: DevBroker, tmp_path: Path) -> None:
        other = Query(devbroker, tmp_path / "other", ackAfter="journal")
        other.receive(0, 3, OTHER)
        other.end()
        with pytest.raises(JournalMismatch, match="another query"):
            begun.begin(journal=str(other.journal)).read()

    @pytest.mark.rule("J.3", "J.13")
    def test_an_older_copy_of_the_journal(self, query: Query, tmp_path: Path) -> None:
        query.receive(0, 10)
        query.end()
        shutil.copytree(query.journal, tmp_path / "copy")
        query.begin().read()
        query.commit()
        query.receive(10, 10)
        query.commit()
        query.end()
        shutil.rmtree(query.journal)
        (tmp_path / "copy").rename(query.journal)
        run = query.begin()
        with pytest.raises(JournalDamaged, match="older copy was put back"):
            run.reader.latestOffset(run.start, None)
        query.end()
        # What is missing was committed: once that was tolerated, the next run opens the journal without a
        # word. (Spark 4.0 plans the last end first, which alone proves nothing.)
        assert query.begin(failOnDataLoss="false").read() == query.again().read() == []
        # Tolerated, new messages do not get positions that the checkpoint takes for committed.
        query.again(failOnDataLoss="false")
        assert bodies(query.receive(20, 10)) == texts(20, 10)

    def test_a_checkpoint_whose_copy_went_on(self, query: Query, caplog: pytest.LogCaptureFixture) -> None:
        query.receive(0, 10)
        query.commit()
        planned = query.receive(10, 10)
        query.end()
        original = query.committed, query.planned
        query.begin().read()
        query.commit()
        query.receive(20, 10)
        query.end()
        query.begin().read()
        assert "the checkpoint knows of commits" not in caplog.text
        query.end()
        query.committed, query.planned = original
        assert bodies(query.begin().read()) == bodies(planned)
        warning = "the checkpoint knows of commits up to 10 of the journal, the journal of commits up to 20"
        assert caplog.text.count(warning) == 1

    def test_a_first_batch_whose_copy_went_on(self, query: Query, caplog: pytest.LogCaptureFixture) -> None:
        planned = query.receive(0, 10)
        query.end()
        first = query.planned
        query.begin().read()
        assert "the checkpoint knows of commits" not in caplog.text
        query.commit()
        query.end()
        query.committed, query.planned = None, first
        assert bodies(query.begin().read()) == bodies(planned)
        assert "knows of commits up to 0 of the journal, the journal of commits up to 10" in caplog.text

    @pytest.mark.rule("J.13")
    def test_an_older_copy_of_the_journal_under_a_planned_batch(
        self, begun: Query, devbroker: DevBroker, tmp_path: Path
    ) -> None:
        shutil.copytree(begun.journal, tmp_path / "copy")
        devbroker.publish_many(QUEUE, texts(20, 10))
        run = begun.begin()
        run.read()
        run.commit()
        run.gather(10)
        begun.end()
        shutil.rmtree(begun.journal)
        (tmp_path / "copy").rename(begun.journal)
        devbroker.publish_many(QUEUE, texts(30, 10))
        connects = devbroker.connects
        with pytest.raises(JournalDamaged, match="the journal ends at 20, but the checkpoint is at 30"):
            begun.begin().read()
        assert devbroker.connects == connects
        # Tolerated, that batch stays without what is gone; new messages are not taken for it.
        run = begun.again(failOnDataLoss="false")
        assert run.read() == []
        run.commit()
        uncommitted = begun.uncommitted(texts(20, 10))
        assert bodies(run.take(len(uncommitted) + 10)) == uncommitted + texts(30, 10)

    @pytest.mark.rule("J.13")
    def test_an_older_copy_of_the_checkpoint(self, query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("spark_stomp.source.journal_writer._TRIM_OBJECTS", 1)
        old: list[Json] = []
        run = query.begin()
        for first in range(0, 50, 10):
            query.receive(first, 10)
            query.commit()
            old.append(run.start)
        wait_until(lambda: run.status.document["journal"]["first"] > 10, what="the deletion of frames")
        query.end()
        query.committed = old[0]
        run = query.begin()
        with pytest.raises(
            JournalTrimmed, match=r"the checkpoint is an older copy, and the \d\d messages between"
        ):
            run.reader.latestOffset(run.start, None)

    def test_a_place_that_takes_nothing(self, devbroker: DevBroker, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        devbroker.publish_many(QUEUE, texts(0, 3))
        run = Run({"url": devbroker.url, "destination": QUEUE, "journal": str(tmp_path / "file" / "j")})
        with pytest.raises(JournalUnwritable):
            run.reader.latestOffset(run.start, None)
        assert devbroker.queue(QUEUE).acked == 0


@pytest.mark.rule("J.12")
def test_at_the_journals_bound_everything_still_comes(
    query: Query, devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_stomp.source.journal_writer._GROUP_BYTES", 1_000)
    devbroker.publish_many(QUEUE, texts(0, 300))
    run = query.begin(journalMaxBytes=8_000, prefetch=50)
    assert bodies(run.take(300)) == texts(0, 300)
    query.commit()
    assert sum(path.stat().st_size for path in objects(query.journal)) < 12_000


class TestFullDisk:
    SIZE = 250_000

    @pytest.fixture(params=["disk", "mount"])
    def disk(
        self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> SmallDisk:
        if request.param == "mount":
            monkeypatch.setattr("spark_stomp.files._MOUNTS", (str(tmp_path),))
        disk = SmallDisk(tmp_path, monkeypatch)
        disk.size = self.SIZE
        return disk

    @pytest.mark.rule("7.1", "J.12")
    def test_the_query_fails_once_all_is_committed_and_the_next_start_goes_on(
        self, query: Query, devbroker: DevBroker, disk: SmallDisk, caplog: pytest.LogCaptureFixture
    ) -> None:
        query.options["journalMaxBytes"] = 10_000_000
        sent = list[bytes]()
        run = query.begin()
        run.idle()

        def is_full() -> bool:
            return "No space left" in caplog.text

        def is_durable() -> bool:
            return bool(run.status.document["journal"]["end"] == len(sent))

        while not is_full():
            more = [text.ljust(10_000) for text in texts(len(sent), 5)]
            sent += more
            devbroker.publish_many(QUEUE, more)
            wait_until(lambda: is_durable() or is_full(), what="the journal")
        assert run.status.failure is None
        held = run.status.document["journal"]["end"]
        assert devbroker.queue(QUEUE).acked <= (held if query.options["ackAfter"] == "journal" else 0)
        rows = bodies(run.take(held))
        run.commit()
        with pytest.raises(JournalUnwritable, match=r"/journal cannot be.*No space left.*Make room there"):
            run.batch()
        query.end()
        # Nobody makes room for it.
        run = query.begin()
        rows += bodies(run.take(len(sent) - held))
        assert sorted(rows) == sorted(sent)
        query.commit()

    @pytest.mark.rule("J.11", "J.12")
    def test_full_of_what_is_committed_it_is_started_again_and_goes_on(
        self, query: Query, devbroker: DevBroker, disk: SmallDisk
    ) -> None:
        query.options["journalMaxBytes"] = 10_000_000
        sent = [text.ljust(10_000) for text in texts(0, 40)]
        run = query.begin()
        devbroker.publish_many(QUEUE, sent[:10])
        assert sorted(bodies(run.gather(10))) == sorted(sent[:10])
        query.commit()
        disk.fill(free=20_000)
        devbroker.publish_many(QUEUE, sent[10:15])
        wait_until(lambda: run.status.failure is not None, what="the failure")
        query.end()
        # Nobody makes room for it.
        run = query.begin()
        assert sorted(bodies(run.take(5))) == sorted(sent[10:15])
        query.commit()


@pytest.mark.rule("J.10")
def test_acks_that_the_broker_never_saw_need_no_further_batch(devbroker: DevBroker, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    query = Query(devbroker, tmp_path, checkpointLocation=str(checkpoint))
    devbroker.publish_many(QUEUE, texts(0, 10))
    run = query.begin()

    def planned() -> bool:
        run.end = run.reader.latestOffset(run.start, None)
        return run.end["logs"].get("journal", {}).get("next") == 10

    wait_until(planned, what="all messages in the journal")
    log_entry(checkpoint, "offsets", 0, run.end)
    log_entry(checkpoint, "commits", 0, {})
    # Spark's last batch was committed as the driver died; nothing new comes in the next run.
    query.end()
    query.committed, query.planned = query.planned, None
    run = query.begin()
    assert run.reader.latestOffset(run.start, None) == run.start
    wait_until(lambda: devbroker.queue(QUEUE).depth == 0, what="all ACKs")
    query.end()


@pytest.mark.rule("1.9")
def test_with_ack_after_journal_the_end_says_nothing_of_missing_evidence(
    devbroker: DevBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(devbroker, tmp_path, ackAfter="journal")
    query.receive(0, 3)
    query.end()
    assert "no evidence" not in caplog.text


def test_what_fails_to_start_or_to_recover_lets_go_of_the_journal(
    devbroker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_stomp.journal.store.Disk.lock_timeout", 0.2)
    query = Query(devbroker, tmp_path)
    for _ in range(2):
        # An address that is nobody's here: the frame server cannot listen.
        with pytest.raises(OptionError, match="frameServerHost"):
            query.begin(frameServerHost="192.0.2.1").batch()

    def failing(*_: object, **__: object) -> None:
        raise JournalDamaged("lost")

    with monkeypatch.context() as broken, pytest.raises(JournalDamaged):
        broken.setattr("spark_stomp.source.receivers.recover", failing)
        query.begin().batch()
    query.run = None
    assert bodies(query.receive(0, 3)) == texts(0, 3)
    query.end()
