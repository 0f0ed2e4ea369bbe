"""A journal and a status file behind S3's API: killed, taken over, and out of reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from faults.engine import Engine
from faults.matrix import Cell, run_cell
from support.brokers.fixtures import BrokerPool
from support.driven import Json, Run
from support.journals import batch_of, bodies, expected
from support.waiting import wait_until

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import JournalInUse, JournalUnwritable
from spark_stomp.journal import Journal, JournalSettings, open_journal
from spark_stomp.journal.formats import WRITERS
from spark_stomp.status import read_status, read_statuses

QUEUE = "/queue/a"
BUCKET = "journals"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@dataclass(frozen=True)
class S3Server:
    """``client`` is boto3's."""

    port: int
    client: Any

    def uri(self, prefix: str, scheme: str = "s3") -> str:
        """A location under the one bucket, as a user would give it."""
        endpoint = f"scheme=http&endpoint_override=127.0.0.1:{self.port}"
        return f"{scheme}://{BUCKET}/{prefix}?region=us-east-1&{endpoint}"

    def keys(self, prefix: str) -> list[str]:
        """The names of all objects below ``prefix``, without it."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix + "/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return [key.removeprefix(prefix + "/") for key in keys if not key.endswith("/")]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """moto's server in a thread, on a free port of 127.0.0.1, with one bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        keys = {name.lower(): value for name, value in CREDENTIALS.items()}
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1", **keys)
        client.create_bucket(Bucket=BUCKET)
        yield S3Server(port, client)
        client.close()
    finally:
        server.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**CREDENTIALS, "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)


def opened(location: str) -> Journal:
    return open_journal(JournalSettings(location, 1 << 20, max_remembered=1_000))


def texts(first: int, count: int) -> list[bytes]:
    return [b"message %d" % number for number in range(first, first + count)]


def plans(run: Run) -> Json:
    """As Spark asks again and again; raises what ended the query."""
    return run.reader.latestOffset(run.end, None)


class TestQuery:
    @pytest.mark.parametrize(("mode", "prefix"), [("journal", "killed"), ("ackAfter=journal", "killed-too")])
    def test_killed_and_started_again_it_gives_every_row_once(
        self, broker_pool: BrokerPool, server: S3Server, tmp_path: Path, mode: str, prefix: str
    ) -> None:
        cell = Cell("everything killed", "after the sink wrote, before the commit log", mode)
        # Its own engine, whose processes inherit the credentials.
        with Engine() as engine:
            broker = broker_pool.get("devbroker")
            outcome = run_cell(cell, broker, engine, tmp_path, journal=server.uri(prefix))
        assert (outcome.lost, outcome.duplicates, outcome.starts) == (0, 0, 2)

    def test_a_second_one_takes_over_and_the_first_one_stops(
        self, devbroker: DevBroker, server: S3Server
    ) -> None:
        options = {"url": devbroker.url, "destination": QUEUE, "journal": server.uri("shared")}
        devbroker.publish_many(QUEUE, texts(0, 20))
        with Run(options) as first:
            rows = first.gather(20)
            with Run({**options, "destination": "/queue/b"}) as second:
                assert second.gather(20) == rows
                devbroker.publish_many(QUEUE, texts(20, 5))
                with pytest.raises(JournalInUse, match="took over"):
                    wait_until(lambda: plans(first) is None, what="the end of the first one")
                second.commit()
                devbroker.publish_many("/queue/b", texts(25, 5))
                assert [row["body"] for row in second.take(5)] == texts(25, 5)


class TestJournal:
    @pytest.mark.parametrize("scheme", ["s3", "s3a"])
    def test_it_is_a_journal_of_objects(self, server: S3Server, scheme: str) -> None:
        location = server.uri(f"objects-{scheme}", scheme)
        journal = opened(location)
        for number in range(4):
            journal.append([batch_of(5 * number, 5)])
        journal.commit(12)
        journal.trim(12)
        journal.flush()
        again = opened(location)
        assert (again.id, again.first, again.committed, again.end) == (journal.id, 10, 12, 20)
        assert bodies(again.batches(10, 20)) == expected(10, 20)
        assert len([key for key in server.keys(f"objects-{scheme}") if key.startswith(WRITERS)]) == 1

    def test_what_the_store_says_is_passed_on_without_credentials(self, server: S3Server) -> None:
        location = server.uri("x").replace("s3://journals", "s3://AKIA:tops3cret@no-such-bucket")
        with pytest.raises(JournalUnwritable, match=r"(?s)NO_SUCH_BUCKET.*bucket does not exist") as caught:
            opened(location)
        assert "tops3cret" not in str(caught.value)
        assert "s3://***@no-such-bucket/x" in str(caught.value)


def test_the_status_file_is_an_object(devbroker: DevBroker, server: S3Server) -> None:
    location = server.uri("orders/spark_stomp/status.json")
    devbroker.publish_many(QUEUE, texts(0, 5))
    with Run({"url": devbroker.url, "destination": QUEUE, "statusFile": location}) as run:
        run.gather(5)
        run.commit()
        wait_until(lambda: devbroker.queue(QUEUE).acked == 5, what="the ACKs")
    # Written at the end, whatever time a store is given otherwise.
    wait_until(lambda: not read_status(location)["running"], what="the end in the status file")
    assert read_status(location)["totals"]["rows"] == 5
    assert server.keys("orders") == ["spark_stomp/status.json"]
    # The folder of the checkpoint will do.
    assert main(["status", server.uri("orders"), "--quiet"]) == 0


def test_two_sources_of_a_query_have_an_object_each(devbroker: DevBroker, server: S3Server) -> None:
    checkpoint = server.uri("union")
    options = {"url": devbroker.url, "destination": QUEUE, "checkpointLocation": checkpoint}
    for _ in range(2):
        # Again with the files of the run before.
        with Run(options) as one, Run(options) as two:
            one.idle()
            two.idle()
            assert sorted(server.keys("union")) == ["spark_stomp/status-2.json", "spark_stomp/status.json"]
            shown = [(status["source"], status["running"]) for status in read_statuses(checkpoint)]
            assert shown == [(1, True), (2, True)]
        wait_until(
            lambda: not any(status["running"] for status in read_statuses(checkpoint)), what="the end of both"
        )


def test_a_store_that_takes_no_status_file_is_said_without_credentials(
    devbroker: DevBroker, server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    location = server.uri("x").replace("s3://journals", "s3://AKIA:tops3cret@no-such-bucket")
    with Run({"url": devbroker.url, "destination": QUEUE, "statusFile": location}) as run:
        run.idle()
        wait_until(lambda: "the status file" in caplog.text, what="a line in the log")
    assert "s3://***@no-such-bucket/x cannot be written" in caplog.text
    assert "tops3cret" not in caplog.text
