"""Whether all tasks surely run on the driver's machine, as far as Spark's own process shows it.

Spark tells a source nothing of its master. But it starts the reader's process as a child of its JVM, and on
the command line of that is the master that ``spark-submit``, ``pyspark`` or a Python program asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
# The options of spark-submit that no value follows.
_FLAGS = frozenset({"--help", "-h", "--supervise", "--usage-error", "--verbose", "-v", "--version"})
# A local cluster has its tasks in processes of their own, and is for Spark's own tests.
_LOCAL = re.compile(r"local(\[.*\])?")


def master_is_local() -> bool:
    """True only if the process that started this one names a local master, and no other; Linux only."""
    try:
        raw = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    except OSError:
        return False
    masters = list(_masters(os.fsdecode(raw).split("\0")))
    return bool(masters) and all(_LOCAL.fullmatch(master) for master in masters)


def _masters(command: Sequence[str]) -> Iterator[str]:
    """What a command line of spark-submit says of the master; what follows the program is the program's."""
    words = iter(command[command.index(_SUBMIT) + 1 :] if _SUBMIT in command else ())
    for word in words:
        if not word.startswith("-"):
            return
        option, given, value = word.partition("=")
        if option in _FLAGS:
            continue
        value = value if given else next(words, "")
        if option == "--master":
            yield value
        elif option in ("--conf", "-c") and value.startswith("spark.master="):
            yield value.partition("=")[2]
