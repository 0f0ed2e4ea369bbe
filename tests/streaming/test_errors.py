"""Contract 7 and bad input: a code and the thing's name in the query's exception text, messages untouched."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support.certificates import Authority
from support.fronts import tls_front
from support.spark import Recorder, Running, stomp_stream
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
PASSWORD = "correct horse battery staple"


def failure(spark: SparkSession, url: str, tmp_path: Path, destination: str = QUEUE, **options: Any) -> str:
    """The text of the error that a query with these options ends with."""
    with Running(stomp_stream(spark, url, destination, **options), tmp_path, Recorder()) as running:
        return running.failure()


@contextmanager
def tcp_server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that treats each connection with ``answer``; yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"stomp://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE)


def test_a_wrong_password(spark: SparkSession, tmp_path: Path) -> None:
    with DevBroker(users={"ada": PASSWORD}) as broker:
        text = failure(spark, broker.url, tmp_path, login="ada", password="wrong secret")
    assert "[STOMP_LOGIN_REFUSED]" in text
    assert f"127.0.0.1:{broker.port}" in text
    assert "wrong secret" not in text


@pytest.mark.parametrize(
    ("host", "days", "trusted", "reason"),
    [
        ("broker.example", 1, True, "127.0.0.1 is not among its subject alternative names"),
        ("127.0.0.1", -1, True, "certificate has expired"),
        ("127.0.0.1", 1, False, "set tlsCaFile to the authority that signed it"),
    ],
)
def test_a_certificate_that_does_not_hold(
    spark: SparkSession,
    devbroker: DevBroker,
    tmp_path: Path,
    host: str,
    days: int,
    trusted: bool,
    reason: str,
) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    authority = Authority(folder, "good")
    context = authority.issue(host, until=timedelta(days=days)).server_context()
    options = {"tlsCaFile": authority.ca_file} if trusted else {}
    with tls_front(devbroker.port, context) as port:
        text = failure(spark, f"stomp+ssl://127.0.0.1:{port}", tmp_path / "checkpoint", **options)
    assert "[STOMP_TLS_REFUSED]" in text
    assert reason in text
    assert devbroker.connects == 0


def test_a_destination_that_the_broker_refuses(spark: SparkSession, tmp_path: Path) -> None:
    with DevBroker(refuse=("/queue/forbidden",)) as broker:
        text = failure(spark, broker.url, tmp_path, "/queue/forbidden")
    assert "[STOMP_DESTINATION_REFUSED]" in text
    assert "/queue/forbidden" in text


def test_an_http_server(spark: SparkSession, tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n<html>what?</html>")

    with tcp_server(answer) as url:
        text = failure(spark, url, tmp_path)
    assert "[STOMP_NOT_A_STOMP_SERVER]" in text
    assert url.removeprefix("stomp://") in text


def test_a_server_that_says_nothing(spark: SparkSession, tmp_path: Path) -> None:
    release = threading.Event()
    with tcp_server(lambda connection: (release.wait(60), None)[1]) as url:
        begun = time.monotonic()
        text = failure(spark, url, tmp_path, connectTimeout="1s")
        took = time.monotonic() - begun
        release.set()
    assert "[STOMP_CONNECT_TIMEOUT]" in text
    assert "connectTimeout (1s)" in text
    assert took < 30


def test_nobody_listening(spark: SparkSession, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"stomp://127.0.0.1:{listener.getsockname()[1]}"
    assert "[STOMP_CONNECT_FAILED]" in failure(spark, url, tmp_path)


@pytest.mark.rule("7.4")
def test_a_frame_over_the_limit_stays_on_the_broker(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish(QUEUE, b"x" * 100_000)
    text = failure(spark, devbroker.url, tmp_path, maxFrameBytes="50k")
    assert "[STOMP_FRAME_TOO_LARGE]" in text or "[STOMP_BODY_TOO_LARGE]" in text
    wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
    assert devbroker.queue(QUEUE).depth == 1


def test_an_undecodable_body_stays_on_the_broker(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish(QUEUE, b"caf\xe9", [("content-type", "text/plain")])
    text = failure(spark, devbroker.url, tmp_path, schema="body string")
    assert "[STOMP_BODY_UNDECODABLE]" in text
    assert "ID:" in text
    wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
    assert devbroker.queue(QUEUE).depth == 1


def test_an_undecodable_body_as_null_and_a_malformed_timestamp(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish(QUEUE, b"caf\xe9", [("content-type", "text/plain"), ("timestamp", "yesterday")])
    devbroker.publish(QUEUE, b"caf\xe9", [("content-type", "text/plain;charset=latin-1")])
    rows: list[Any] = []
    frame = stomp_stream(
        spark,
        devbroker.url,
        QUEUE,
        schema="body string, timestamp timestamp",
        bodyDecodeErrors="null",
    )
    with Running(frame, tmp_path, lambda batch, _: rows.extend(batch.collect())) as running:
        running.wait(lambda: len(rows) == 2, what="both rows")
    assert [row.body for row in rows] == [None, "café"]
    assert rows[0].timestamp is None
    assert rows[1].timestamp is not None


def test_all_problems_with_options_at_once_when_it_is_loaded(
    spark: SparkSession, devbroker: DevBroker
) -> None:
    wrong = {"prefech": "10", "passcode": "hush", "minMessagesPerTrigger": -1, "connectTimeout": "5"}
    with pytest.raises(AnalysisException) as caught:
        stomp_stream(spark, devbroker.url, QUEUE, **wrong)
    text = str(caught.value)
    assert "[STOMP_OPTIONS_INVALID]" in text
    for part in ("prefech", "prefetch", "passcode", "password", "minMessagesPerTrigger", "connectTimeout"):
        assert part in text
    assert "hush" not in text


def test_a_column_that_does_not_exist(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    text = failure(spark, devbroker.url, tmp_path, schema="bodi string")
    assert "[STOMP_SCHEMA_INVALID]" in text
    assert "body" in text


def test_a_broker_that_stays_away_is_an_error_and_not_no_data(spark: SparkSession, tmp_path: Path) -> None:
    with DevBroker() as broker:
        broker.publish(QUEUE, b"one")
        seen = Recorder()
        with Running(
            stomp_stream(spark, broker.url, QUEUE, reconnectTimeout="2s"), tmp_path, seen
        ) as running:
            running.wait(lambda: seen.bodies, what="the first message")
            broker.stop()
            text = running.failure()
    assert "[STOMP_CONNECTION_LOST]" in text
    assert "reconnectTimeout (2s)" in text


def test_secrets_are_in_no_plan(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor in the progress, or in the checkpoint, the status and the journal that are written."""
    token = "a-t0ken-for-a-proxy"
    given = {
        "password": PASSWORD,
        "secretConnectHeaders": json.dumps({"x-token": token}),
        "journal": f"{tmp_path}/journal",
        "statusFile": f"{tmp_path}/status.json",
        "exchangeTls": "true",
        "logLevel": "debug",
    }
    with DevBroker(users={"ada": PASSWORD}) as broker:
        broker.publish(QUEUE, b"one")
        seen = Recorder()
        frame = stomp_stream(spark, broker.url, QUEUE, login="ada", **given)
        with Running(frame, tmp_path, seen) as running:
            running.wait(lambda: seen.bodies, what="the first message")
            running.query.explain(extended=True)
            frame.explain(extended=True)
            progress = str(running.query.recentProgress)
    plan = capfd.readouterr().out
    assert "stomp" in plan, "no plan was printed: this test proves nothing"
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"offsets", "journal"} <= {path.parent.name for path in written}
    places = {**written, "plan": plan.encode(), "progress": progress.encode()}
    secrets = (PASSWORD, token, "PRIVATE KEY", "BEGIN CERTIFICATE", "Bearer")
    found = [
        (place, secret) for place, text in places.items() for secret in secrets if secret.encode() in text
    ]
    assert found == []
