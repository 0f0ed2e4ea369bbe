"""A run driven by hand in a process of its own, to be killed: ``python -m support.driven_process JSON``.

It commits a first batch and plans and reads a second one, each of the size that ``maxMessagesPerTrigger``
says, prints what it saw as one line of JSON, and waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.driven import Run

__all__ = ["COLUMNS", "driven_process", "shown"]

COLUMNS = ("body", "stable_id", "received_at", "sequence")


def shown(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Rows as JSON can hold them."""
    return [[str(row[column]) for column in COLUMNS] for row in rows]


@contextmanager
def driven_process(options: dict[str, str], environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What such a process saw: ``first`` and ``second`` rows, ``committed`` and ``planned`` offsets. It is
    killed at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.driven_process", json.dumps(options)],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


def main() -> None:
    options = json.loads(sys.argv[1])
    size = int(options["maxMessagesPerTrigger"])
    run = Run(options, COLUMNS)
    first = shown(run.gather(size))
    run.commit()
    second = shown(run.gather(size))
    saw = {"first": first, "second": second, "committed": run.start, "planned": run.end}
    sys.stdout.write(json.dumps(saw) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
