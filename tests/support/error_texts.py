"""The text of an error as a user's terminal shows it, without what differs from run to run."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path

_PLACES = (
    (
        re.compile(r'File "[^"]*?/(pyspark\.zip/|)(pyspark|spark_stomp|tests)/([^"]*)", line \d+'),
        r'File "\2/\3"',
    ),
    (re.compile(r"\b(id|runId) = [0-9a-f-]{36}"), r"\1 = ..."),
    (re.compile(r"(127\.0\.0\.1|localhost):\d{4,5}"), r"\1:61613"),
    (re.compile(r"(stage|Stage|TID|Task|task) \d+(\.\d+)?"), r"\1 N"),
    (re.compile(r"@[0-9a-f]{6,8}\b"), "@..."),
    (re.compile(r"\(\S+ executor driver\)"), "(executor driver)"),
    (re.compile(r"#\d+L?\b"), "#N"),
    (re.compile(r"ID:[\w.-]+(:[\w.-]+)*"), "ID:..."),
)
_CARETS = re.compile(r"^\s*[~^]+\s*$")
_SENTENCE = re.compile(r"\[STOMP_[A-Z_]+\]")
_OF_PYTHON = re.compile(r'^\s+File "|^Traceback|^During handling|^The above exception|^\w*Error: ')


def rendered(error: BaseException, folder: Path) -> str:
    """What Python prints of ``error`` below the lines of the user's own script."""
    text = "".join(traceback.format_exception_only(error))
    text = text.replace(str(folder), "FOLDER").replace(sys.executable, "PYTHON")
    for pattern, put in _PLACES:
        text = pattern.sub(put, text)
    return "\n".join(_shortened(text.rstrip().splitlines())) + "\n"


def _shortened(lines: list[str]) -> list[str]:
    """The lines without carets, which come with newer Pythons; a run of frames of the JVM is one line."""
    found: list[str] = []
    for line in lines:
        if line.startswith(("\tat ", "\t... ")):
            line = "\t(frames of the JVM)"
            if found[-1:] == [line]:
                continue
        if not _CARETS.match(line):
            found.append(line.rstrip())
    return found


def above_the_sentence(text: str) -> list[str]:
    """The lines of Python's trace that a user reads before the sentence."""
    lines = text.splitlines()
    sentence = _sentence(lines)
    begin = max(
        (i for i in range(sentence) if "Traceback (most recent call last)" in lines[i]), default=sentence
    )
    return lines[begin:sentence]


def below_the_sentence(text: str) -> list[str]:
    """The lines of Python's after it: there should be none."""
    lines = text.splitlines()
    return [line for line in lines[_sentence(lines) + 1 :] if _OF_PYTHON.match(line)]


def _sentence(lines: list[str]) -> int:
    """Where the first sentence of ours is."""
    return next(number for number, line in enumerate(lines) if _SENTENCE.search(line))
