"""spark-stomp peek --schema: of the messages of the dev broker, and of files."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ENVIRONMENT, PROGRAM, Command
from support.ddl import printed_schema
from support.pages import ROOT
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"
ORDERS = [b'{"id": 1, "price": 2.5}', b'{"id": 2, "price": 7}', b'{"id": 3, "name": "Zo\xc3\xab"}']


def test_of_a_queue(devbroker: DevBroker, command: Command) -> None:
    devbroker.publish_many(QUEUE, ORDERS)
    code, out, err = command("peek", devbroker.url, QUEUE, "--schema")
    printed = printed_schema(out)
    assert (code, err) == (0, "")
    assert printed.comments[0] == f"from 3 messages of {QUEUE}"
    assert {name: part.name for name, part in printed.columns["body"].parts.items()} == {
        "id": "BIGINT",
        "price": "DOUBLE",
        "name": "STRING",
    }
    view = devbroker.queue(QUEUE)
    assert (view.depth, view.delivered) == (3, 0)


def test_bodies_are_read_as_a_query_reads_them(devbroker: DevBroker, command: Command) -> None:
    """By the charset of their content type; a message that a query cannot read is rescued there."""
    latin = [("content-type", "application/json; charset=iso-8859-1")]
    devbroker.publish(QUEUE, '{"é": 1}'.encode("latin-1"), latin)
    devbroker.publish(QUEUE, '{"é": 1}'.encode("latin-1"))
    devbroker.publish(QUEUE, gzip.compress(b'{"id": 1}'))
    devbroker.publish(QUEUE, b"")
    devbroker.publish(QUEUE, b'{"id": 1}', raw=b"no colon\n")
    printed = printed_schema(command("peek", devbroker.url, QUEUE, "--schema").out)
    assert list(printed.columns["body"].parts) == ["é"]
    begin, *reasons = printed.comments
    assert begin.startswith("from 1 of 5 messages")
    assert sum(int(reason.partition(":")[0]) for reason in reasons) == 4
    assert any("no colon" in reason for reason in reasons)
    assert any("the body is not UTF-8" in reason for reason in reasons)


def test_more_messages_than_peek_shows(devbroker: DevBroker, command: Command) -> None:
    """But no more than ActiveMQ does."""
    devbroker.publish_many(QUEUE, [b'{"id": %d}' % number for number in range(500)])
    for more, count in (([], 400), (["-n", "12"], 12)):
        done = command("peek", devbroker.url, QUEUE, "--schema", *more)
        assert done.code == 0 and f"from {count} messages" in done.out
        assert done.err.endswith(f"the schema is of the first {count} messages; -n takes more\n")
    assert command("peek", devbroker.url, QUEUE, "--schema", "-o", "broker=activemq").code == 0


def test_what_has_a_price_needs_yes(devbroker: DevBroker, command: Command) -> None:
    devbroker.publish_many(QUEUE, ORDERS)
    generic = ["-o", "broker=generic", "-o", "idleTimeout=300ms"]
    assert command("peek", devbroker.url, QUEUE, "--schema", *generic).code == 2
    done = command("peek", devbroker.url, QUEUE, "--schema", "--yes", *generic)
    assert done.code == 0 and "from 3 messages" in done.out
    wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")


def test_without_a_schema_it_fails(devbroker: DevBroker, tmp_path: Path, command: Command) -> None:
    done = command("peek", devbroker.url, QUEUE, "--schema")
    assert (done.code, done.out) == (1, "") and "has no messages" in done.err
    devbroker.publish_many(QUEUE, [b"\x1b[2J", b"7"])
    done = command("peek", devbroker.url, QUEUE, "--schema")
    problem = (
        f"there is no schema: no body of {QUEUE} is a JSON object or a list of them: 1: no JSON document; "
        "1: the body is a whole number, fields were expected\n"
    )
    assert done == (1, "", problem)
    (tmp_path / "a").write_bytes(b"")
    assert command("peek", "--schema", "--file", tmp_path / "a").code == 1


class TestFiles:
    def test_a_body_on_each_line(
        self, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a").write_bytes(b"\r\n".join(ORDERS) + b"\n")
        (tmp_path / "b").write_bytes(b'{"id": 4, "b": true}')
        done = command("peek", "--schema", "--file", "a", "b")
        assert (done.code, done.err) == (0, "")
        assert list(printed_schema(done.out).columns["body"].parts) == ["id", "price", "name", "b"]
        assert "from 4 messages of a, b" in done.out
        done = command("peek", "--schema", "-n", "1", "--file", tmp_path / "a")
        assert "from 1 message of" in done.out

    def test_what_peek_prints(
        self, devbroker: DevBroker, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        devbroker.publish_many(QUEUE, ORDERS)
        bodies = command("peek", devbroker.url, QUEUE, "--bodies").out
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bodies.encode())))
        of_file = command("peek", "--schema", "--file", "-").out
        of_queue = command("peek", devbroker.url, QUEUE, "--schema").out
        assert of_file.replace("standard input", QUEUE) == of_queue

    def test_octets_that_are_no_text(self, tmp_path: Path, command: Command) -> None:
        (tmp_path / "a").write_bytes(b'{"id": 1}\n{"id": "\xff"}\n')
        done = command("peek", "--schema", "--file", tmp_path / "a")
        assert "--   1: the body is not UTF-8\n" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "URL and DESTINATION are needed, or --schema and --file"),
        (["--schema"], "URL and DESTINATION are needed"),
        (["stomp://broker"], "URL and DESTINATION are needed"),
        (["--file", "x"], "--file goes with --schema"),
        (["--bodies", "--file", "x"], "--file goes with --schema"),
        (["--schema", "--file", "/no/such"], "/no/such is not a file that can be read"),
        (["stomp://broker", "/queue/a", "--schema", "--file", "x"], "--file asks no broker"),
        (["--schema", "--login", "ada", "--file", "x"], "--file asks no broker"),
        (["--schema", "--bodies", "stomp://broker", "/queue/a"], "not allowed with argument"),
    ],
)
def test_a_mistake_is_a_sentence(arguments: list[str], words: str, command: Command) -> None:
    done = command("peek", *arguments)
    assert done.code == 2 and words in done.err and "Traceback" not in done.err


@pytest.mark.parametrize("page", ["start.md", "payloads.md"])
def test_the_pages_show_what_it_prints(page: str, devbroker: DevBroker) -> None:
    """What is below a command, after those that send messages."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")

    def output(command: str) -> str:
        script = command.replace("venv/bin/", "").replace("stomp://localhost:61613", devbroker.url)
        script = f'spark-stomp() {{ "{PROGRAM[0]}" -m spark_stomp "$@"; }}\n{script}'
        done = subprocess.run(
            ["bash", "-c", script], env=ENVIRONMENT, capture_output=True, timeout=PATIENCE, check=True
        )
        return done.stdout.decode()

    (block,) = re.findall(r"```console\n\$ (.*?)```", text, re.DOTALL)
    command, call, expected = block.partition(".schema(")
    if "/queue/" in command:
        for send in re.findall(r"^    (echo '.*)$", text, re.MULTILINE):
            output(send)
    assert output(command) == call + expected
