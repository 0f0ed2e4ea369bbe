"""What is left of a task in a worker: nothing that the next one has to pay for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest

from spark_stomp import worker

FREEZES = """
import gc
from spark_stomp.worker import spare_the_next_task
spare_the_next_task()
first = gc.get_freeze_count()
kept = [[] for _ in range(1_000)]
spare_the_next_task()
assert 0 < first == gc.get_freeze_count(), (first, gc.get_freeze_count())
"""


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Two archives on Python's path, each with a package of its own, of which one module is imported."""
    made = []
    for archive, package in (("pyspark.zip", "of_spark"), ("mine.zip", "of_mine")):
        with ZipFile(tmp_path / archive, "w") as opened:
            for module in ("__init__", "one", "two"):
                opened.writestr(f"{package}/{module}.py", "")
        made.append(tmp_path / archive)
        monkeypatch.syspath_prepend(str(tmp_path / archive))
        importlib.import_module(f"{package}.one")
    yield made
    for name in [name for name in sys.modules if name.startswith(("of_spark", "of_mine"))]:
        del sys.modules[name]


def finders(archive: Path) -> int:
    found = [one for one in sys.path_importer_cache.values() if isinstance(one, zipimporter)]
    return sum(one.archive == str(archive) for one in found)


def test_no_finder_of_sparks_archive_is_left_to_read_its_directory_again(archives: list[Path]) -> None:
    spark, mine = archives
    assert (finders(spark), finders(mine)) == (2, 2)
    worker.spare_the_next_task()
    assert (finders(spark), finders(mine)) == (0, 2)


def test_what_is_in_the_archive_is_found_all_the_same(archives: list[Path]) -> None:
    worker.spare_the_next_task()
    importlib.invalidate_caches()
    assert importlib.import_module("of_spark.two").__name__ == "of_spark.two"


def test_what_was_imported_is_frozen_once() -> None:
    subprocess.run([sys.executable, "-c", FREEZES], check=True, timeout=60)
