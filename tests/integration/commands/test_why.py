"""spark-stomp why: three lines about a query, and what it asks the broker."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.commands import Command, Done
from support.driven import Run
from support.scripted import RabbitMQ, ScriptedBroker, header_of
from support.tcp import stomp_server, unused_port
from support.waiting import wait_until

from spark_stomp.brokers.standing import Standing
from spark_stomp.commands.diagnosis import Health
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import LoginRefused
from spark_stomp.options import ConnectionOptions

QUEUE = "/queue/a"
NOW = "2026-11-26T00:00:00+00:00"
SECRET = "s3cret"
FORGOTTEN = (
    "nothing: the broker has forgotten the query's consumer, and it connects anew by itself within 40 s"
)
STARTS = "start the broker; the query connects again by itself until reconnectTimeout"


def lines(done: Done) -> dict[str, str]:
    """The three lines, by their labels."""
    facts = dict(re.findall(r"^(\w+) +(.*)$", done.out, re.MULTILINE))
    assert list(facts) == ["why", "broker", "next"] and done.out.count("\n") == 3, done
    return facts


def status(**keys: object) -> dict[str, Any]:
    receivers = {f"{QUEUE}#0": {"connected": True, "destinations": [QUEUE]}}
    base = {"version": 1, "query": "q", "host": "elsewhere", "running": True, "written_at": None}
    return {**base, "receivers": receivers, **keys}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "status.json"


def write(path: Path, **keys: object) -> Path:
    path.write_text(json.dumps(status(**keys)))
    path.chmod(0o600)
    return path


class TestOfAQuery:
    def test_from_beginning_to_end(self, devbroker: DevBroker, path: Path, command: Command) -> None:
        with Run({"url": devbroker.url, "destination": QUEUE, "statusFile": str(path)}) as run:
            run.idle()
            wait_until(lambda: path.exists() and '"waiting_on": "broker"' in path.read_text(), what="waiting")
            done = command("why", path)
            facts = lines(done)
            assert done.code == 0 and done.err == ""
            assert facts["why"].startswith(f"{QUEUE}: it has waited for ")
            assert "for the broker: nothing un-acked and nothing new (it is empty" in facts["why"]
            address = devbroker.url.removeprefix("stomp://")
            assert re.match(rf"spark-stomp-devbroker/\S+ at {address} answered in \d+ ms; ", facts["broker"])
            show = f"spark-stomp status {path} shows how it goes on"
            silent = "nothing has come in this run: if something should have, check the name"
            assert facts["next"] == f"{silent}; {show}"
        done = command("why", path)
        assert done.code == 0 and " ended in order " in lines(done)["why"]

    def test_the_broker_is_away(self, devbroker: DevBroker, path: Path, command: Command) -> None:
        options = {"url": devbroker.url, "destination": QUEUE, "statusFile": str(path), "heartbeat": "5s,5s"}
        with Run(options) as run:
            run.idle()
            devbroker.stop()
            wait_until(lambda: path.exists() and '"connected": false' in path.read_text(), what="the loss")
            done = command("why", path)
        facts = lines(done)
        assert done.code == Health.CONNECTION.value
        assert facts["why"].startswith(f"{QUEUE}: no connection for {QUEUE}#0 for ")
        assert facts["broker"].startswith("[STOMP_CONNECT_FAILED] cannot connect to ")
        assert facts["next"] == STARTS


def test_what_is_missing_on_this_machine_is_no_fault_of_the_broker(path: Path, command: Command) -> None:
    options = {"url": "stomp+ssl://localhost:1", "destination": QUEUE, "tlsCaFile": "/only/there.pem"}
    done = command("why", write(path, waiting_on="trigger", waiting_for="a trigger", options=options))
    assert done.code == Health.FINE.value and "/only/there.pem" in lines(done)["broker"]


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
            facts = lines(command("why", path))
            assert facts["broker"] == "not asked: the status has no password of the query"
            for arguments in (("--password-file", file), ("-o", f"password=@{file}")):
                facts = lines(command("why", path, *arguments))
                assert " answered ada in " in facts["broker"] and SECRET not in str(facts)
            monkeypatch.setenv("SPARK_STOMP_PASSWORD", SECRET)
            assert " answered ada in " in lines(command("why", path))["broker"]
            monkeypatch.setenv("SPARK_STOMP_PASSWORD", "wr0ng")
            done = command("why", path)
            # The query may have another one.
            assert done.code == 0 and lines(done)["broker"].startswith("[STOMP_LOGIN_REFUSED]")
            assert lines(done)["broker"].endswith(". The query is connected, with another password")
            write(path, options={**OF_ADA, "url": broker.url, "passwordFile": str(file)})
            assert " answered ada in " in lines(command("why", path))["broker"]
            facts = lines(command("why", path, "--login", "eve"))
            assert "[STOMP_LOGIN_REFUSED]" in facts["broker"]

    @pytest.mark.parametrize("over", [False, True], ids=["it connects again and again", "it has failed"])
    def test_the_querys_own_is_refused(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, over: bool
    ) -> None:
        refused = LoginRefused("Bad CONNECT")
        monkeypatch.setenv("SPARK_STOMP_PASSWORD", SECRET)
        with DevBroker(users={"ada": SECRET, "eve": SECRET}) as broker:
            keys: dict[str, Any] = {"options": {**OF_ADA, "url": broker.url}}
            if over:
                keys |= {"running": False, "failure": str(refused), "failure_code": refused.code}
            else:
                away = {"last_error": str(refused), "last_error_code": refused.code}
                keys |= {"receivers": {"r#0": {"connected": False, "destinations": [QUEUE], **away}}}
            facts = lines(command("why", write(path, **keys)))
            assert "; it takes this password, and has refused that of the query" in facts["broker"]
            assert facts["next"].startswith("give the query the password that the broker takes")
            # Of another login that says nothing.
            facts = lines(command("why", path, "--login", "eve"))
            assert "this password" not in facts["broker"] and facts["next"].startswith("spark-stomp probe ")

    @pytest.mark.parametrize("right", [False, True], ids=["the file has the old one", "the file is right"])
    def test_the_one_in_its_file_is_refused(
        self, tmp_path: Path, path: Path, command: Command, right: bool
    ) -> None:
        (file := tmp_path / "password").write_text(SECRET if right else "wr0ng")
        refused = LoginRefused("Bad CONNECT")
        away = {"last_error": str(refused), "last_error_code": refused.code}
        receivers = {"r#0": {"connected": False, "destinations": [QUEUE], **away}}
        with DevBroker(users={"ada": SECRET}) as broker:
            options = {**OF_ADA, "url": broker.url, "passwordFile": str(file)}
            facts = lines(command("why", write(path, options=options, receivers=receivers)))
        if right:
            again = (
                "nothing: the query reads its passwordFile again and tries by itself until reconnectTimeout"
            )
            assert facts["next"] == again
        else:
            write_it = f"write the password that the broker takes into {file}"
            assert facts["next"] == f"{write_it}; the query tries again by itself until reconnectTimeout"

    def test_an_address_that_is_not_in_the_status(
        self, devbroker: DevBroker, path: Path, command: Command
    ) -> None:
        write(path, options={"url": None, "destination": QUEUE})
        assert lines(command("why", path))["broker"] == "not asked: the status has no url of the query"
        assert " answered in " in lines(command("why", path, "-o", f"url={devbroker.url}"))["broker"]


class TestAStatusThatOthersMayHaveWritten:
    """It does not say where a password goes, nor which. The option url does."""

    @pytest.fixture(autouse=True)
    def password(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPARK_STOMP_PASSWORD", SECRET)

    @pytest.fixture
    def broker(self) -> Iterator[DevBroker]:
        with DevBroker(users={"ada": SECRET}) as broker:
            yield broker

    @pytest.fixture
    def folder(self, tmp_path: Path, broker: DevBroker) -> Path:
        """A checkpoint with the status of two sources and of a sink."""
        (folder := tmp_path / "checkpoint" / "spark_stomp").mkdir(parents=True)
        options = {"login": "ada", "url": broker.url}
        for number, name in enumerate(("status.json", "status-2.json"), 1):
            write(folder / name, source=number, driver="1", options=options)
        write(folder / "status.sink.json", run="r", options=options, receivers={})
        return folder

    def broker_lines(self, command: Command, folder: Path, *arguments: object) -> set[str]:
        said = re.findall(r"^broker +(.*)$", command("why", folder.parent, *arguments).out, re.MULTILINE)
        return {re.sub(r"answered (\w+) in .*", r"answered \1", one) for one in said}

    def refused(self, command: Command, folder: Path, broker: DevBroker) -> None:
        before = broker.connects
        assert self.broker_lines(command, folder) == {
            "not asked: others may have written the status, so name the address yourself: -o url=URL"
        }
        assert broker.connects == before
        (line,) = self.broker_lines(command, folder, "-o", f"url={broker.url}")
        assert line.endswith(" answered ada")

    def test_what_is_the_callers_own_is_asked(self, command: Command, folder: Path) -> None:
        (line,) = self.broker_lines(command, folder)
        assert line.endswith(" answered ada")

    @pytest.mark.parametrize("name", ["status.json", "status-2.json", "status.sink.json"])
    @pytest.mark.parametrize("late", [False, True], ids=["", "it becomes the caller's while it is read"])
    def test_another_users(
        self,
        command: Command,
        folder: Path,
        broker: DevBroker,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        late: bool,
    ) -> None:
        before, status = os.fstat, (folder / name).stat()

        def fstat(descriptor: int) -> os.stat_result:
            found = before(descriptor)
            if (found.st_dev, found.st_ino) != (status.st_dev, status.st_ino):
                return found
            if late:
                (copy := folder / "copy").write_bytes((folder / name).read_bytes())
                copy.replace(folder / name)
            return os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))

        monkeypatch.setattr("os.fstat", fstat)
        if late:
            assert self.broker_lines(command, folder) == {
                "not asked: others may have written the status, so name the address yourself: -o url=URL"
            }
        else:
            self.refused(command, folder, broker)

    def test_a_later_start_of_another_user_hides_the_callers(
        self, command: Command, folder: Path, broker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with DevBroker(users={"ada": SECRET}) as elsewhere:
            options = {"login": "ada", "url": elsewhere.url}
            forged = write(folder / "status-2.json", driver="2", started_at=NOW, options=options)
            forged.chmod(0o666)
            self.refused(command, folder, broker)
            assert elsewhere.connects == 0

    @pytest.mark.parametrize("mode", [0o620, 0o602])
    def test_others_may_write_to_it(
        self, command: Command, folder: Path, broker: DevBroker, mode: int
    ) -> None:
        (folder / "status.json").chmod(mode)
        self.refused(command, folder, broker)

    def test_a_link_to_a_file_of_the_caller(self, command: Command, folder: Path, broker: DevBroker) -> None:
        (folder / "status.json").rename(elsewhere := folder / "else")
        (folder / "status.json").symlink_to(elsewhere)
        self.refused(command, folder, broker)
        (folder / "status.json").unlink()
        (folder / "status.json").hardlink_to(elsewhere)
        self.refused(command, folder, broker)

    def test_a_store(
        self, command: Command, folder: Path, broker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.files.Location.is_local", False)
        self.refused(command, folder, broker)

    def test_its_other_options(
        self, path: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither its password file is read, nor does it say which certificate is good."""
        (file := tmp_path / "password").write_text("another")
        forged = {"tlsVerify": "false", "tlsCaFile": "/evil.pem", "tlsServerName": "evil"}
        forged |= {"managementUrl": "http://evil", "url": "stomp://evil", "passwordFile": str(file)}
        write(path, options={"login": "ada", "virtualHost": "v", **forged}).chmod(0o602)
        asked: list[ConnectionOptions] = []

        def note(options: ConnectionOptions) -> None:
            asked.append(options)
            raise OSError("no connection")

        monkeypatch.setattr("spark_stomp.commands.why.open_connection", note)
        url = ("-o", "url=stomp+ssl://b:1")
        command("why", path, *url)
        (options,) = asked
        tls = options.tls
        assert (tls.verify, tls.ca_file, tls.server_name, options.management_url) == (True, None, None, None)
        assert options.password_file is None and options.password == SECRET
        assert (options.login, options.virtual_host) == ("ada", "v")
        monkeypatch.delenv("SPARK_STOMP_PASSWORD")
        assert (
            lines(command("why", path, *url))["broker"]
            == "not asked: the status has no password of the query"
        )
        assert lines(command("why", path, "--offline"))["next"].count("evil") == 0

    def test_nobody_is_asked_for_a_password_that_goes_nowhere(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(path, options={"login": "ada", "password": None, "url": "stomp://evil"}).chmod(0o602)
        monkeypatch.setattr("spark_stomp.commands.why.with_login", pytest.fail)
        assert "not asked" in lines(command("why", path))["broker"]


def test_the_remedy_of_a_long_error_is_not_cut_off(path: Path, command: Command) -> None:
    refused = "[STOMP_LOGIN_REFUSED] b:61613 refused CONNECT" + " very" * 300 + ". Do this"
    write(path, running=False, failure=refused, written_at=NOW)
    assert lines(command("why", path, "--offline"))["why"].endswith(". Do this")


def test_the_worst_of_several_sources_decides(tmp_path: Path, command: Command) -> None:
    (folder := tmp_path / "spark_stomp").mkdir()
    write(folder / "status.json", source=1, driver="1", waiting_on="queue", waiting_for="it")
    write(folder / "status-2.json", source=2, driver="1")
    done = command("why", tmp_path, "--offline")
    assert done.code == Health.QUEUE.value and done.out.count("why ") == 2


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
        assert done.code == Health.CONNECTION.value and own in lines(done)["broker"]
        assert lines(done)["why"].endswith(" for it. The broker does not answer")
        # It connects again, to any of them.
        away = receiver | {"connected": False}
        assert (
            " answered in " in lines(command("why", write(path, receivers={"r#0": away}, **keys)))["broker"]
        )


def test_another_source_of_the_program_that_reads_the_queue(path: Path, command: Command) -> None:
    done = command("why", write(path, shares_with=["odd"]), "--offline")
    facts = lines(done)
    assert done.code == 0 and facts["next"].startswith("read the queue once: one DataFrame in one query")
    assert facts["why"].endswith("(query odd) reads a queue of it too: each gets a part of the messages")


@pytest.mark.parametrize("error", [TypeError("of the answer"), OSError(24, "Too many open files")])
def test_what_the_broker_does_is_no_fault_of_the_file(
    path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("spark_stomp.commands.why.open_connection", fail)
    write(path, options={"url": "stomp://b"})
    if isinstance(error, OSError):
        assert lines(command("why", path))["broker"] == "not asked: [Errno 24] Too many open files"
    else:
        with pytest.raises(TypeError):
            command("why", path)


class TestWhatTheBrokerTells:
    def says(
        self,
        command: Command,
        path: Path,
        monkeypatch: pytest.MonkeyPatch,
        figures: Standing,
        options: Mapping[str, str] | None = None,
        **keys: object,
    ) -> Done:
        monkeypatch.setattr("spark_stomp.commands.why.ask_standing", lambda *_: figures)
        with stomp_server(RabbitMQ("other").broker.serve) as url:
            own = {"url": url, "destination": QUEUE, **(options or {})}
            return command("why", write(path, options=own, **keys))

    def test_who_has_the_messages(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        figures = Standing(True, 12_400, 3, 4)
        done = self.says(command, path, monkeypatch, figures, waiting_on="broker", waiting_for="the broker")
        assert lines(done)["why"].endswith("nothing new (12,400 wait there, 3 other consumers)")
        assert lines(done)["broker"].endswith(f"; {QUEUE}: 12,400 messages wait, 3 un-acked, 4 consumers")

    @pytest.mark.parametrize("since", [NOW, None], ids=["for long", "just now"])
    def test_messages_that_wait_for_a_query_that_has_nothing(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, since: str | None
    ) -> None:
        keys: dict[str, Any] = {"waiting_on": "broker", "waiting_for": "the broker", "waiting_since": since}
        done = self.says(command, path, monkeypatch, Standing(True, 7, 0, 1), **keys)
        assert done.code == (0 if since is None else Health.WITHHELD.value)
        if since is not None:
            assert lines(done)["next"].startswith("look at the queue in the broker's management: another")
        done = self.says(command, path, monkeypatch, Standing(True, 7, 0, 1, wanted=0), **keys)
        assert done.code == 0
        receivers = {f"{QUEUE}#0": {"connected": True, "destinations": [QUEUE], "unacked": 3}}
        done = self.says(command, path, monkeypatch, Standing(True, 7, 3, 1), receivers=receivers, **keys)
        assert done.code == 0

    def test_messages_that_wait_for_the_next_run(
        self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = self.says(command, path, monkeypatch, Standing(True, 7, 0, 0), running=False)
        assert done.code == 0
        again = "start the query again, and it gets the 7 messages that wait"
        assert lines(done)["next"] == f"{again}; if it was just started, wait a minute"

    @pytest.mark.parametrize(
        ("figures", "keys", "step"),
        [
            ((0, 3, 2), {}, "3 messages are un-acked at other consumers: end them, or wait"),
            ((0, 1, 2), {}, "1 message is un-acked at other consumers: end them, or wait"),
            ((0, 3, 1), {}, "nothing; spark-stomp status "),
            (
                (5, 0, 1, None, 0, 0),
                {"selector": "a = 1"},
                "5 wait and none come: does the selector fit them?",
            ),
            (
                (5, 0, 0, None, 0, 0),
                {"selector": "a = 1", "running": False},
                "start the query again, and it gets the 5 messages that wait, as far as its selector wants "
                "them; if it was just started, wait a minute",
            ),
            (
                (0, 0, 0),
                {},
                FORGOTTEN,
            ),
            ((5, 0, 0), {}, FORGOTTEN),
            ((0, 0, 0), {"waiting_since": None}, "nothing; spark-stomp status "),
        ],
    )
    def test_nothing_comes(
        self,
        path: Path,
        command: Command,
        monkeypatch: pytest.MonkeyPatch,
        figures: tuple[Any, ...],
        keys: dict[str, Any],
        step: str,
    ) -> None:
        silent = {"waiting_on": "broker", "waiting_for": "the broker", "waiting_since": NOW, **keys}
        selector = {"selector": silent.pop("selector")} if "selector" in silent else {}
        done = self.says(command, path, monkeypatch, Standing(True, *figures), selector, **silent)
        assert lines(done)["next"].startswith(step)

    def test_an_alarm(self, path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        figures = Standing(True, 0, 0, 0, "RabbitMQ has an alarm for memory")
        done = self.says(command, path, monkeypatch, figures, waiting_on="spark", waiting_for="Spark")
        assert done.code == Health.BLOCKED.value
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
        assert done.code == (Health.BLOCKED.value if blocked else 0)


def test_a_broker_that_hangs(path: Path, command: Command) -> None:
    """The status of a query without heart-beats looks fine."""
    gone = f"stomp://127.0.0.1:{unused_port()}"
    done = command("why", write(path, options={"url": gone}, waiting_on="broker", waiting_for="it"))
    assert done.code == Health.CONNECTION.value
    assert lines(done)["why"].endswith(" for it. The broker does not answer")
    assert lines(done)["next"] == STARTS


def test_the_broker_says_the_same(path: Path, command: Command) -> None:
    gone = f"stomp://127.0.0.1:{unused_port()}"
    written = write(path, options={"url": gone}, waiting_on="broker", waiting_for="it")
    error = lines(command("why", written))["broker"]
    away = {"connected": False, "destinations": [QUEUE], "last_error": error}
    facts = lines(command("why", write(path, options={"url": gone}, receivers={"r#0": away})))
    assert facts["why"].endswith(f": {error}") and facts["broker"] == "the same"
