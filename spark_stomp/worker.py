"""What a Python worker of Spark does again around every task, and need not."""

from __future__ import annotations

import gc
import sys
from functools import cache
from pathlib import PurePath
from zipimport import zipimporter

_OF_SPARK = "pyspark.zip"


def spare_the_next_task() -> None:
    """The task that this worker runs has done its work: make the next ones cheaper.

    May be called after every task. What other tasks do in this worker stays as it is.
    """
    _spare_the_collector()
    _forget_finders()


@cache
def _spare_the_collector() -> None:
    # After each task the worker collects garbage, and with pyarrow, numpy and pandas it looks at so much that
    # this takes 45 ms of processor time and more. What was imported is no garbage, so once is enough.
    gc.freeze()


def _forget_finders() -> None:
    # Before each task Spark 4.0 and 4.1 have all finders of modules look anew, and each one of an archive
    # reads its whole directory: 17 times that of pyspark.zip, 100 ms and more. Python makes a finder again if
    # it needs one, from a directory that it has read. The archive of Spark does not change; others may.
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and PurePath(finder.archive).name == _OF_SPARK:
            sys.path_importer_cache.pop(path, None)
