"""spark-stomp why: three lines about a query, and what it asks the broker."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from support.commands import Command, Done
from support.driven import Run
from support.scripted import RabbitMQ, ScriptedBroker, header_of
from support.tcp import stomp_server, unused_port
from support.waiting import wait_until

from spark_stomp.commands.diagnosis import Kind
from spark_stomp.devbroker import DevBroker
from spark_stomp.transport.standing import Standing

QUEUE = "/queue/a"
NOW = "2026-11-26T00:00:00+00:00"
SECRET = "s3cret"


def lines(done: Done) -> dict[str, str]:
    """The three lines, by their labels."""
    told = dict(re.findall(r"^(\w+) +(.*)$", done.out, re.MULTILINE))
    assert list(told) == ["why", "broker", "next"] and done.out.count("\n") == 3, done
    return told


def status(**keys: object) -> dict[str, Any]:
    receivers = {f"{QUEUE}#0": {"connected": True, "destinations": [QUEUE]}}
    base = {"version": 1, "query": "q", "host": "elsewhere", "running": True, "written_at": None}
    return {**base, "receivers": receivers, **keys}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "status.json"


def write(path: Path, **keys: object) -> Path:
    path.write_text(json.dumps(status(**keys)))
    return path


class TestOfAQuery:
    def test_from_beginning_to_end(self, devbroker: DevBroker, path: Path, command: Command) -> None:
        with Run({"url": devbroker.url, "destination": QUEUE, "statusFile": str(path)}) as run:
            run.idle()
            wait_until(lambda: path.exists() and '"waiting_on": "broker"' in path.read_text(), what="waiting")
            done = command("why", path)
            told = lines(done)
            assert done.code == 0 and done.err == ""
            assert told["why"].startswith(f"{QUEUE}: it has waited for ")
            assert "for the broker: nothing un-acked and nothing new (it is empty" in told["why"]
            address = devbroker.url.removeprefix("stomp://")
            assert re.match(rf"spark-stomp-devbroker/\S+ at {address} answered in \d+ ms; ", told["broker"])
            assert told["next"] == f"nothing; spark-stomp status {path} shows how it goes on"
        done = command("why", path)
        assert done.code == 0 and ": it ended in order " in lines(done)["why"]

    def test_the_broker_is_away(self, devbroker: DevBroker, path: Path, command: Command) -> None:
        options = {"url": devbroker.url, "destination": QUEUE, "statusFile": str(path), "heartbeat": "5s,5s"}
        with Run(options) as run:
            run.idle()
            devbroker.stop()
            wait_until(lambda: path.exists() and '"connected": false' in path.read_text(), what="the loss")
            done = command("why", path)
        told = lines(done)
        assert done.code == Kind.CONNECTION.value
        assert told["why"].startswith(f"{QUEUE}: no connection for {QUEUE}#0 for ")
        assert told["broker"].startswith("[STOMP_CONNECT_FAILED] cannot connect to ")
        assert told["next"] == f"spark-stomp probe {devbroker.url} -o heartbeat=5s,5s"


def test_what_is_missing_on_this_machine_is_no_fault_of_the_broker(path: Path, command: Command) -> None:
    options = {"url": "stomp+ssl://localhost:1", "destination": QUEUE, "tlsCaFile": "/only/there.pem"}
    done = command("why", write(path, waiting_on="trigger", waiting_for="a trigger", options=options))
    assert done.code == Kind.FINE.value and "/only/there.pem" in lines(done)["broker"]


def of_artemis(asked: list[bytes]) -> ScriptedBroker:
    """Artemis, which answers nothing about queues, and what it is asked."""

    def answer(_: int, frame: bytes) -> bytes:
        asked.append(frame)
        return b""

    return ScriptedBroker(b"ActiveMQ-Artemis/2.56.0", answer)


def test_a_sink_that_has_a_column_for_the_destination(path: Path, command: Command) -> None:
    asked: list[bytes] = []
    with stomp_server(of_artemis(asked).serve) as url:
        options = {"url": url, "destinationType": "queue"}
        of_sink = {"version": 1, "query": "q", "run": "r", "host": "h", "options": options}
        path.with_suffix(".sink.json").write_text(json.dumps({**of_sink, "written_at": NOW}))
        done = command("why", path)
    assert " answered in " in lines(done)["broker"]
    assert not any(b"None" in frame for frame in asked)


def test_a_topic_keeps_nobody_from_asking_about_a_queue(path: Path, command: Command) -> None:
    asked: list[bytes] = []
    with stomp_server(of_artemis(asked).serve) as url:
        receivers = {"r#0": {"connected": True, "destinations": ["/topic/a", "/queue/b"]}}
        command("why", write(path, receivers=receivers, waiting_on="trigger", options={"url": url}))
    assert any(b"listQueues" in frame for frame in asked)


OF_ADA = {"login": "ada", "password": None, "destination": QUEUE}


class TestThePassword:
    def test_is_asked_for_and_never_shown(
        self, tmp_path: Path, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (file := tmp_path / "password").write_text(f"{SECRET}\n")
        with DevBroker(users={"ada": SECRET}) as broker:
            write(path, options={**OF_ADA, "url": broker.url})
            told = lines(command("why", path))
            assert told["broker"] == "not asked: the status has no password of the query"
            for arguments in (("--password-file", file), ("-o", f"password=@{file}")):
                told = lines(command("why", path, *arguments))
                assert " answered ada in " in told["broker"] and SECRET not in str(told)
            monkeypatch.setenv("SPARK_STOMP_PASSWORD", SECRET)
            assert " answered ada in " in lines(command("why", path))["broker"]
            monkeypatch.setenv("SPARK_STOMP_PASSWORD", "wr0ng")
            done = command("why", path)
            # The query may have another one.
            assert done.code == 0 and lines(done)["broker"].startswith("[STOMP_LOGIN_REFUSED]")
            write(path, options={**OF_ADA, "url": broker.url, "passwordFile": str(file)})
            assert " answered ada in " in lines(command("why", path))["broker"]
            told = lines(command("why", path, "--login", "eve"))
            assert "[STOMP_LOGIN_REFUSED]" in told["broker"]

    def test_an_address_that_is_not_in_the_status(
        self, devbroker: DevBroker, path: Path, command: Command
    ) -> None:
        write(path, options={"url": None, "destination": QUEUE})
        assert lines(command("why", path))["broker"] == "not asked: the status has no url of the query"
        assert " answered in " in lines(command("why", path, "-o", f"url={devbroker.url}"))["broker"]


def test_a_status_of_another_user_does_not_say_where_a_password_goes(
    tmp_path: Path, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "password").write_text(SECRET)
    monkeypatch.setenv("SPARK_STOMP_PASSWORD", SECRET)
    with DevBroker(users={"ada": SECRET}) as broker:
        write(path, options={"login": "ada", "url": broker.url, "passwordFile": str(file)})
        monkeypatch.setattr("os.getuid", lambda: path.stat().st_uid + 1)
        told = lines(command("why", path))
        assert (
            told["broker"] == "not asked: the status is another user's, so give the address with -o url=URL"
        )
        assert broker.connects == 0
        assert " answered ada in " in lines(command("why", path, "-o", f"url={broker.url}"))["broker"]
        monkeypatch.delenv("SPARK_STOMP_PASSWORD")
        told = lines(command("why", path, "-o", f"url={broker.url}"))
        assert told["broker"] == "not asked: the status has no passwordFile of the query"


def test_a_query_that_failed(path: Path, command: Command) -> None:
    refused = "[STOMP_LOGIN_REFUSED] b:61613 refused CONNECT" + " very" * 300 + ". Do this"
    options = {"url": "stomp://b", "login": "ada"}
    write(path, running=False, failure=refused, written_at=NOW, options=options)
    done = command("why", path, "--offline")
    told = lines(done)
    # The remedy is at the end.
    assert done.code == Kind.FAILED.value and told["why"].endswith(". Do this")
    assert told["broker"] == "not asked: --offline"
    assert told["next"].startswith("spark-stomp probe stomp://b --login ada; then start the query again")
    full = "[STOMP_JOURNAL_UNWRITABLE] /j cannot be written: [Errno 28] No space left on device"
    write(path, running=False, failure=full, written_at=NOW)
    assert lines(command("why", path, "--offline"))["next"].startswith("df -h  # on elsewhere; then start")


@pytest.mark.parametrize(
    ("keys", "kind", "step"),
    [
        (
            {"written_at": NOW},
            Kind.GONE,
            "dmesg -T | grep -i 'killed process'  # on elsewhere: out of memory",
        ),
        (
            {"running": False, "unfinished": True},
            Kind.UNFINISHED,
            "grep -n -e STOMP_ -e 'Caused by' DRIVER_LOG",
        ),
        ({"waiting_on": "spark", "waiting_for": "Spark", "batch_since": NOW}, Kind.SLOW, "Spark's UI (port"),
        ({"waiting_on": "spark", "waiting_for": "Spark"}, Kind.FINE, "Spark's UI (port 4040 of elsewhere"),
        ({"waiting_on": "queue", "waiting_for": "it"}, Kind.QUEUE, "correct the name in load(...)"),
        (
            {"waiting_on": "queue", "waiting_for": "a, which was deleted"},
            Kind.QUEUE,
            "stop the query, delete the queue that it has made, declare it as it was",
        ),
        (
            {"running": False, "totals": {"withheld": 5}},
            Kind.WITHHELD,
            "look at the queue in the broker's management: the queue is paused, or another",
        ),
        (
            {"waiting_on": "acks", "waiting_for": "it", "waiting_since": NOW},
            Kind.BLOCKED,
            "its memory or disk",
        ),
        ({"waiting_on": "messages", "waiting_for": "it"}, Kind.FINE, "nothing, or set a shorter maxTrigger"),
        ({"waiting_on": "journal", "waiting_for": "it"}, Kind.FINE, "df -h  # on elsewhere: the journal's"),
        ({"waiting_on": "commit", "waiting_for": "it"}, Kind.FINE, "set checkpointLocation of the source"),
        ({}, Kind.FINE, "nothing; spark-stomp status "),
    ],
)
def test_the_next_step(path: Path, command: Command, keys: dict[str, Any], kind: Kind, step: str) -> None:
    done = command("why", write(path, **keys), "--offline")
    assert done.code == kind.value and lines(done)["next"].startswith(step), done.out


def test_the_worst_of_several_sources_decides(tmp_path: Path, command: Command) -> None:
    (folder := tmp_path / "spark_stomp").mkdir()
    write(folder / "status.json", source=1, driver="1", waiting_on="queue", waiting_for="it")
    write(folder / "status-2.json", source=2, driver="1")
    done = command("why", tmp_path, "--offline")
    assert done.code == Kind.QUEUE.value and done.out.count("why ") == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "is not a status file"),
        ('{"version": 1, "query": "q", "receivers": [5]}', "its receivers is"),
        (
            '{"version": 1, "query": "q", "written_at": null, "options": {"url": "stomp://b"}, '
            '"running": true, "receivers": {"a": {"connected": true, "destinations": 5}}}',
            "is not the status of a query",
        ),
    ],
)
def test_no_status(path: Path, command: Command, content: str, words: str) -> None:
    path.write_text(content)
    done = command("why", path)
    assert done.code == 1 and done.out == "" and words in done.err and done.err.count("\n") == 1
    assert command("why", f"{path}.gone").code == 2


def test_the_node_of_the_query_hangs_while_another_one_answers(
    devbroker: DevBroker, path: Path, command: Command
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        own = f"127.0.0.1:{hangs.getsockname()[1]}"
        options = {"url": f"{devbroker.url},stomp://{own}", "destination": QUEUE, "connectTimeout": "500ms"}
        receiver = {"connected": True, "destinations": [QUEUE], "peer": own}
        keys = {"waiting_on": "broker", "waiting_for": "it", "options": options}
        done = command("why", write(path, receivers={"r#0": receiver}, **keys))
        assert done.code == Kind.CONNECTION.value and own in lines(done)["broker"]
        assert lines(done)["why"].endswith(" for it. The broker does not answer")
        # It connects again, to any of them.
        away = receiver | {"connected": False}
        assert (
            " answered in " in lines(command("why", write(path, receivers={"r#0": away}, **keys)))["broker"]
        )


def test_another_source_of_the_program_that_reads_the_queue(path: Path, command: Command) -> None:
    done = command("why", write(path, shares_with=["odd"]), "--offline")
    told = lines(done)
    assert done.code == 0 and told["next"].startswith("read the queue once: one DataFrame in one query")
    assert told["why"].endswith("(query odd) reads a queue of it too: each gets a part of the messages")


class TestWhatTheBrokerTells:
    def told(
        self, command: Command, path: Path, monkeypatch: pytest.MonkeyPatch, figures: Standing, **keys: object
    ) -> Done:
        monkeypatch.setattr("spark_stomp.commands.why.standing", lambda *_: figures)
        with stomp_server(RabbitMQ("other").broker.serve) as url:
            return command("why", write(path, options={"url": url, "destination": QUEUE}, **keys))

    def test_who_has_the_messages(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits = "the broker: nothing un-acked and nothing new (it is empty, or another consumer has them)"
        figures = Standing(True, 12_400, 3, 4)
        done = self.told(command, path, monkeypatch, figures, waiting_on="broker", waiting_for=waits)
        assert lines(done)["why"].endswith("nothing new (12,400 wait there, 3 other consumers)")
        assert lines(done)["broker"].endswith(f"; {QUEUE}: 12,400 messages wait, 3 un-acked, 4 consumers")

    @pytest.mark.parametrize("since", [NOW, None], ids=["for long", "just now"])
    def test_messages_that_wait_for_a_query_that_has_nothing(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, since: str | None
    ) -> None:
        keys: dict[str, Any] = {"waiting_on": "broker", "waiting_for": "the broker", "waiting_since": since}
        done = self.told(command, path, monkeypatch, Standing(True, 7, 0, 1), **keys)
        assert done.code == (0 if since is None else Kind.WITHHELD.value)
        if since is not None:
            assert lines(done)["next"].startswith("look at the queue in the broker's management: another")
        done = self.told(command, path, monkeypatch, Standing(True, 7, 0, 1, wanted=0), **keys)
        assert done.code == 0
        receivers = {f"{QUEUE}#0": {"connected": True, "destinations": [QUEUE], "unacked": 3}}
        done = self.told(command, path, monkeypatch, Standing(True, 7, 3, 1), receivers=receivers, **keys)
        assert done.code == 0

    def test_messages_that_wait_for_the_next_run(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = self.told(command, path, monkeypatch, Standing(True, 7, 0, 0), running=False)
        assert done.code == 0
        assert lines(done)["next"] == "start the query again, and it gets the 7 messages that wait"

    def test_an_alarm(self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        figures = Standing(True, 0, 0, 0, "RabbitMQ has an alarm for memory")
        done = self.told(command, path, monkeypatch, figures, waiting_on="spark", waiting_for="Spark")
        assert done.code == Kind.BLOCKED.value
        assert lines(done)["why"].endswith(" for Spark. The broker: RabbitMQ has an alarm for memory")
        assert lines(done)["broker"].endswith("; RabbitMQ has an alarm for memory")
        assert lines(done)["next"].startswith("rabbitmq-diagnostics alarms")

    @pytest.mark.parametrize("blocked", [True, False])
    def test_rabbitmq_that_reads_nothing_of_who_sends(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, blocked: bool
    ) -> None:
        """Only a query with a sink of this package lets it be tried out, by a message to nobody."""
        monkeypatch.setattr("spark_stomp.transport.standing._TIMEOUT", 0.3)
        sent: list[bytes] = []

        class Blocking(ScriptedBroker):
            def _answer(self, number: int, frame: bytes) -> bytes:
                if frame.startswith(b"SEND"):
                    sent.append(header_of(frame, b"destination"))
                reads = not blocked or not sent or not frame.startswith(b"DISCONNECT")
                return super()._answer(number, frame) if reads else b""

        with stomp_server(Blocking(b"RabbitMQ/4.3.6", lambda number, frame: b"").serve) as url:
            keys: dict[str, Any] = {"waiting_on": "spark", "waiting_for": "Spark"}
            options = {"url": url, "destination": "/queue/out"}
            command("why", write(path, options=options, **keys))
            assert sent == []
            sink = path.with_name("status.sink.json")
            sink.write_text(json.dumps({"version": 1, "query": "q", "options": options}))
            done = command("why", path)
        assert len(sent) == 1 and sent[0].startswith(b"/topic/spark_stomp.")
        assert done.code == (Kind.BLOCKED.value if blocked else 0)


def test_a_broker_that_hangs(path: Path, command: Command) -> None:
    """The status of a query without heart-beats looks fine."""
    gone = f"stomp://127.0.0.1:{unused_port()}"
    done = command("why", write(path, options={"url": gone}, waiting_on="broker", waiting_for="it"))
    assert done.code == Kind.CONNECTION.value
    assert lines(done)["why"].endswith(" for it. The broker does not answer")
    assert lines(done)["next"] == f"spark-stomp probe {gone}"
