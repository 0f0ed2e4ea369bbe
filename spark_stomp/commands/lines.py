"""The lines of files or of standard input, as ``send`` and ``peek`` take them: a body each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import cast

from spark_stomp.commands import UsageError

# Bytes of one read from a file or a pipe.
_READ = 1 << 20


def require_readable(files: Sequence[str]) -> None:
    """Raise UsageError if a file cannot be read."""
    for file in files:
        if file != "-" and not (os.access(file, os.R_OK) and not Path(file).is_dir()):
            raise UsageError(f"{file} is not a file that can be read")


def lines_of(files: Sequence[str]) -> Iterator[list[bytes]]:
    """The lines without their ends, in chunks, as soon as they arrive."""
    for file in files:
        if file == "-":
            yield from _lines_of(cast(BufferedReader, sys.stdin.buffer))
        else:
            with Path(file).open("rb") as opened:
                yield from _lines_of(opened)


def _lines_of(file: BufferedReader) -> Iterator[list[bytes]]:
    begun: list[bytes] = []
    # read1 returns what a pipe has, so that a line is sent as soon as it arrives.
    while data := file.read1(_READ):
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*begun, whole[0]))
            begun = []
            yield [line.removesuffix(b"\r") for line in whole]
        begun.append(rest)
    if last := b"".join(begun):
        yield [last.removesuffix(b"\r")]
