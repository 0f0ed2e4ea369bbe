"""What is drawn in a terminal, and what is written to a file or a pipe."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys

import pytest
from support.options import source_options

from spark_stomp.brokers import dialect_named
from spark_stomp.commands.messages import Messages
from spark_stomp.commands.screen import Bar, Screen, json_line, labelled, safe_text
from spark_stomp.frame_batch import FrameBatch


class Stream(io.StringIO):
    """Says that it is a terminal; it has no size."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Stream()


def test_a_pipe_gets_plain_text_without_spaces_at_line_ends() -> None:
    out = io.StringIO()
    Screen(out).put(
        labelled([("one", safe_text("two", "red")), ("three", safe_text("four"))]), safe_text("x " * 60)
    )
    table, rest = out.getvalue()[: len("one    two\nthree  four\n")], out.getvalue().splitlines()[2:]
    assert table == "one    two\nthree  four\n"
    assert [len(line) for line in rest] == [99, 19]


def test_no_variable_makes_a_pipe_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "CLICOLOR_FORCE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(out := io.StringIO())
    screen.put(safe_text("one", "red"))
    assert out.getvalue() == "one\n" and not screen.is_interactive


def test_a_terminal_gets_colours(terminal: Stream) -> None:
    Screen(terminal).put(safe_text("one", "red"))
    assert terminal.getvalue() == "\x1b[31mone\x1b[0m\n"


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(
    terminal: Stream, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]
) -> None:
    monkeypatch.setenv(*variable)
    Screen(terminal).put(safe_text("one", "red"))
    assert terminal.getvalue() == "one\n"


def test_a_terminal_is_not_filled_beyond_its_width_or_what_is_wanted(
    terminal: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns, widest in ((60, 60), (300, 100)):
        monkeypatch.setenv("COLUMNS", str(columns))
        terminal.seek(terminal.truncate(0))
        Screen(terminal).put(labelled([("one", safe_text("y" * 10 + " x" * 300))]), widest=100)
        plain = re.sub("\x1b\\[\\d*m", "", terminal.getvalue())
        assert max(map(len, plain.splitlines())) == widest


def test_markup_is_shown_as_it_is() -> None:
    out = io.StringIO()
    Screen(out).put("[red]x[/red] :smile:", labelled([("[b]a", "[link=x]b")]))
    assert out.getvalue() == "[red]x[/red] :smile:\n[b]a  [link=x]b\n"


def test_a_bar_in_a_terminal(terminal: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)
    with Bar(shown=True, total=10) as bar:
        bar.say("half\x1b[2J", done=5)
        bar.refresh()
        bar.screen.whole(safe_text("a message"))
    drawn = terminal.getvalue()
    assert "half\\x1b[2J" in drawn and "a message" in drawn
    # It is gone at the end.
    assert drawn.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_a_bar_is_on_stderr_if_stdout_has_data(terminal: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", terminal)
    with Bar(shown=True) as bar:
        bar.say("one of /queue/a")
        sys.stdout.write("data\n")
        sys.stderr.write("a line of the log\n")
        assert sys.stdout.getvalue() == "data\n"  # type: ignore[attr-defined]
    assert "a line of the log\n" in terminal.getvalue()


@pytest.mark.parametrize(("stream", "shown"), [(io.StringIO(), True), (Stream(), False)])
def test_no_bar(stream: io.StringIO, shown: bool, terminal: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe, and with --no-progress."""
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    with Bar(shown=shown) as bar:
        bar.say("one")
    assert stream.getvalue() == ""


def test_json_is_one_line_of_ascii() -> None:
    text = "\x9b2J \u202e \x7f Zoë \U000e0001\n"
    line = json_line({"body": text})
    assert line.isprintable() and line.isascii()
    assert json.loads(line)["body"] == text


def test_a_message_as_json_is_not_cut_into_lines(terminal: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)
    frame = b"MESSAGE\ndestination:/queue/a\n\n" + 90 * b"word " + b"\0"
    batch = FrameBatch(frame, [len(frame)], 0, 0, "1.2", "generic", "a#0", None)
    arguments = argparse.Namespace(json=True, bodies=False, destination="/queue/a")
    with Bar(shown=True) as bar:
        messages = Messages(arguments, source_options("stomp://127.0.0.1", "/queue/a"), bar)
        messages.take(batch, dialect_named("generic"))
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).splitlines()
    (shown,) = (line for line in lines if line.lstrip("\r").startswith("{"))
    assert json.loads(shown)["body"] == 90 * "word "
