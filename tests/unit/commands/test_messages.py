"""How peek and tail show messages."""

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
from spark_stomp.commands.screen import Bar
from spark_stomp.frame_batch import FrameBatch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_in_a_terminal_is_not_cut_into_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
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
