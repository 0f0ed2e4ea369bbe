"""Nothing that a stranger said forges a line of a log, drives a terminal or fills a disk.

A stranger is a broker, a producer, whoever wrote a row, or a file that was found. Log lines, errors and what
is drawn are made printable and cut in three places, so that no call can forget it. The package is walked for
ways around these.
"""

from __future__ import annotations

import ast
import builtins
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_stomp import errors
from spark_stomp.commands.screen import Screen, labelled, safe_text
from spark_stomp.errors import OptionError, StompError
from spark_stomp.logs import get_log

PACKAGE = Path(__file__).resolve().parents[2] / "spark_stomp"
PATHS = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in PATHS.items()}
NODES = [(path, node) for path, tree in MODULES.items() for node in ast.walk(tree)]
HOSTILE = {
    "line ends": "one\r\ntwo\x85three\u2028four\u2029five\x0b\x0c\x1c",
    "escape sequences": "\x1b[2J\x1b]0;title\x07\x9b31m\x90q\x9c",
    "other directions": "\u202eabc\u2066def\u200f\u061c",
    "half a pair": "\ud800",
    "invisible": "a\u200bb\ufeffc\U000e0041",
}
LONG = "x" * 1_000_000

# What the package says to others than loggers: only here, and each through quoting or json.
COMMANDS = ("messages", "peek", "main", "connecting", "devbroker", "probe", "send", "status", "tail")
WRITERS = {"logs.py"} | {f"commands/{name}.py" for name in (*COMMANDS, "screen", "unsubscribe", "why")}
# Errors that are no StompErrors: arguments of the user's own, what becomes an OptionError or an OSError of a
# file, and what no user sees. Everything else may hold a stranger's words.
OTHER_ERRORS = {
    "UsageError": {f"commands/{name}.py" for name in (*COMMANDS, "lines", "statuses", "trial")},
    "ArgumentTypeError": {"commands/devbroker.py", "commands/messages.py"},
    "OSError": {"commands/devbroker.py", "files.py", "status/files.py"},
    # In the tests of whoever uses the dev broker.
    # The others are caught where an answer is awaited.
    "TimeoutError": {
        *("devbroker/server.py", "frameserver/client.py", "transport/addresses.py", "transport/http_get.py")
    },
    "RuntimeError": {"devbroker/server.py"},
    "TypeError": {"source/offsets.py", "brokers/rabbitmq.py"},
    "AttributeError": {"__init__.py"},
    # As pa.array raises it.
    "ArrowCapacityError": {"arrow/columns.py"},
    # In the task, which makes a FrameServerError of it.
    "ConnectionRefusedError": {"frameserver/client.py", "frameserver/wire.py"},
    "ConnectionResetError": {"frameserver/client.py"},
    # Caught where they are raised from, or with quoting.
    "ValueError": {
        *(
            "journal/formats.py",
            "files.py",
            "options/endpoint.py",
            "options/kinds.py",
            "transport/http_get.py",
        ),
        *(f"status/{name}.py" for name in ("figure", "files", "reading")),
    },
}


def calls(name: str, tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(name):
            yield node


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
class TestIsPrintable:
    def test_in_a_log_line(self, text: str, caplog: pytest.LogCaptureFixture) -> None:
        log = get_log("spark_stomp.some")
        log.warning("the broker said %s", text)
        log.warning(f"the broker said {text}".replace("%", "%%"))
        log.warning("%s", ValueError(text))
        assert len(caplog.records) == 3
        for record in caplog.records:
            assert record.getMessage().isprintable(), record.getMessage()
        assert logging.Formatter().format(caplog.records[0]).isprintable()

    def test_in_an_error(self, text: str) -> None:
        for name in errors.__all__:
            error = getattr(errors, name)(f"the broker said {text}")
            assert str(error).isprintable() and error.message.isprintable()
        several = str(OptionError(["one", f"two: {text}"])).split("\n  - ")[1:]
        assert several == ["one", OptionError(f"two: {text}").message]

    def test_in_a_terminal(self, text: str) -> None:
        for part in (text, safe_text(text), labelled([(text, text)])):
            stream = io.StringIO()
            Screen(stream).put(part)
            assert stream.getvalue().replace("\n", "").isprintable()


class TestIsCut:
    def test_in_a_log_line(self, caplog: pytest.LogCaptureFixture) -> None:
        get_log("spark_stomp.some").warning("%s: try again", LONG)
        assert len(caplog.messages[0]) < 5_000
        assert caplog.messages[0].endswith("x: try again")

    def test_in_an_error(self) -> None:
        assert len(str(StompError(f"{LONG}; try again"))) < 5_000
        assert str(StompError(f"{LONG}; try again")).endswith("x; try again")
        assert len(str(OptionError([LONG, LONG]))) < 10_000

    def test_in_a_terminal(self) -> None:
        stream = io.StringIO()
        Screen(stream).whole(safe_text(LONG))
        assert len(stream.getvalue()) < 5_000


class TestNobodyGoesAround:
    def test_every_error_shows_its_text_in_the_same_way(self) -> None:
        shown = {name: vars(getattr(errors, name)).keys() for name in errors.__all__}
        own = [name for name, has in shown.items() if has & {"__str__", "message", "__repr__"}]
        assert own == ["StompError", "OptionError"]
        elsewhere = [
            f"{path}: {node.name}"
            for path, node in NODES
            if isinstance(node, ast.ClassDef)
            and path != "errors.py"
            and any(ast.unparse(base) in errors.__all__ for base in node.bases)
            and not all(isinstance(part, ast.Expr) for part in node.body)
        ]
        assert elsewhere == []

    @pytest.mark.parametrize(("name", "where"), [("print", set()), ("Text", {"commands/screen.py"})])
    def test_nobody_prints_or_makes_a_text_that_is_not_quoted(self, name: str, where: set[str]) -> None:
        found = [(path, call) for path, tree in MODULES.items() for call in calls(name, tree)]
        assert {path for path, call in found if ast.unparse(call.func) == name} == where

    def test_only_these_write_to_a_stream(self) -> None:
        streams = ("sys.stdout", "sys.stderr", "sys.__stderr__", "sys.__stdout__")
        used = {
            path for path, node in NODES if isinstance(node, ast.Attribute) and ast.unparse(node) in streams
        }
        assert used <= WRITERS

    def test_what_they_write_is_quoted(self) -> None:
        """An f-string that is written as it is names only what is ours."""
        ours = {"broker.url", "_NOTICE", "sent", "line(part)"}
        for path in WRITERS - {"logs.py"}:
            for call in calls(".write", MODULES[path]):
                parts = [
                    part for node in call.args if isinstance(node, ast.JoinedStr) for part in node.values
                ]
                named = {ast.unparse(part.value) for part in parts if isinstance(part, ast.FormattedValue)}
                assert named <= ours, f"{path}:{call.lineno}"

    def test_warnings_are_log_lines(self) -> None:
        for path, tree in MODULES.items():
            assert not list(calls("warnings.warn", tree)), path
            modules = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import)}
            assert "import logging" not in modules or not list(calls("logging.warning", tree)), path

    def test_what_is_raised_is_an_error_of_ours(self) -> None:
        known = {
            *errors.__all__,
            "KeyboardInterrupt",
            "StopIteration",
            "NotImplementedError",
            "AssertionError",
        }
        foreign = {
            (name, path)
            for path, node in NODES
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
            for name in [ast.unparse(node.exc.func).rpartition(".")[2]]
            if name not in known and (isinstance(vars(builtins).get(name), type) or name.endswith("Error"))
        }
        unknown = {(name, path) for name, path in foreign if path not in OTHER_ERRORS.get(name, ())}
        assert unknown == set()
        listed = {(name, path) for name, paths in OTHER_ERRORS.items() for path in paths}
        assert listed <= foreign, "of the list"
