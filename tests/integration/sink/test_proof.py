"""URL, login and virtual host are proved once a query, also if there is nothing to send."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from support.options import sink_options
from support.waiting import wait_until

from spark_stomp.columns import SinkColumns
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import LoginRefused
from spark_stomp.options import SinkOptions
from spark_stomp.sink import write as sink_commit
from spark_stomp.sink.write import ProvedRuns, TaskResult
from spark_stomp.spark.writers import Confirmed, StompBatchWriter, StompStreamWriter
from spark_stomp.status.sink import TaskFigures

COLUMNS = SinkColumns(("body",), False)


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_commit, "_proved", ProvedRuns())


@pytest.fixture
def broker() -> Iterator[DevBroker]:
    with DevBroker(users={"ada": "right"}) as broker:
        yield broker


def options(broker: DevBroker, password: str = "right", **more: object) -> SinkOptions:
    return sink_options(broker.url, login="ada", password=password, **more)


def commit(given: SinkOptions, batch: int, run: str = "run", connections: int = 0) -> None:
    """As Spark does: a new writer each time."""
    message = Confirmed(TaskResult(TaskFigures(connections=connections)), run)
    StompStreamWriter(given, COLUMNS).commit([message], batch)


@pytest.mark.rule("S.8")
@pytest.mark.parametrize("batch", [0, 7])
def test_a_wrong_password_fails_a_runs_first_batch_without_rows(broker: DevBroker, batch: int) -> None:
    with pytest.raises(LoginRefused):
        commit(options(broker, "wrong"), batch)


@pytest.mark.rule("S.8")
def test_one_connection_proves_it_for_the_whole_run(broker: DevBroker) -> None:
    for batch in range(3):
        commit(options(broker), batch)
    assert broker.connects == 1
    wait_until(lambda: broker.connections == 0, what="the end of the connection")
    commit(options(broker), 3, run="another")
    assert broker.connects == 2


@pytest.mark.rule("S.8")
def test_a_batch_of_which_no_task_knows_the_run_is_one_of_the_last(broker: DevBroker) -> None:
    """Spark starts no task for a batch without partitions."""
    for batch in range(3):
        StompStreamWriter(options(broker), COLUMNS).commit([], batch)
    assert broker.connects == 1
    commit(options(broker), 3, run="another")
    assert broker.connects == 2
    StompStreamWriter(options(broker), COLUMNS).commit([], 4)
    assert broker.connects == 2


class TestABatchWrite:
    """Without rows. Spark's tasks tell whether it is in foreachBatch."""

    def write(self, given: SinkOptions, monkeypatch: pytest.MonkeyPatch, batch: str | None) -> None:
        known = {"streaming.sql.batchId": batch, "spark.jobGroup.id": "run"}
        task = mock.Mock(getLocalProperty=known.get, partitionId=lambda: 0)
        monkeypatch.setattr("spark_stomp.spark.writers.TaskContext.get", lambda: task)
        writer = StompBatchWriter(given, COLUMNS)
        writer.commit([writer.write(iter([]))])

    @pytest.mark.rule("S.8")
    def test_in_a_stream_is_proved_once_a_run(
        self, broker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for batch in range(3):
            self.write(options(broker), monkeypatch, str(batch))
        assert broker.connects == 1

    @pytest.mark.rule("S.8")
    def test_so_is_each_of_two_sinks(self, broker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        with DevBroker() as other:
            for batch in range(3):
                self.write(options(broker), monkeypatch, str(batch))
                self.write(sink_options(other.url), monkeypatch, str(batch))
            assert (broker.connects, other.connects) == (1, 1)

    @pytest.mark.rule("S.8")
    def test_alone_is_proved_each_time(self, broker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        for _ in range(3):
            self.write(options(broker), monkeypatch, None)
        assert broker.connects == 3


def test_a_task_that_connected_has_proved_it(broker: DevBroker) -> None:
    commit(options(broker), 0, connections=1)
    commit(options(broker), 1)
    assert broker.connects == 0


def test_it_is_known_in_a_new_process_too(
    broker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(broker, checkpointLocation=tmp_path)
    commit(given, 0)
    monkeypatch.setattr(sink_commit, "_proved", ProvedRuns())
    commit(given, 1)
    assert broker.connects == 1
