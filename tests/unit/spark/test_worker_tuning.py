"""A task leaves nothing in its worker process that slows the next task down."""

from __future__ import annotations

import importlib
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest
from support.columns import projection_of
from support.options import sink_options, source_options

from spark_stomp.columns import SinkColumns
from spark_stomp.spark import worker_tuning
from spark_stomp.spark.readers import StompStreamReader
from spark_stomp.spark.writers import StompStreamWriter

FREEZES = """
import gc
from spark_stomp.spark.worker_tuning import spare_the_next_task
spare_the_next_task()
first = gc.get_freeze_count()
kept = [[] for _ in range(1_000)]
spare_the_next_task()
assert 0 < first == gc.get_freeze_count(), (first, gc.get_freeze_count())
"""


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Two archives on Python's path, each with its own package, of which one module is imported."""
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
    worker_tuning.spare_the_next_task()
    assert (finders(spark), finders(mine)) == (0, 2)


def test_what_is_in_the_archive_is_found_all_the_same(archives: list[Path]) -> None:
    worker_tuning.spare_the_next_task()
    importlib.invalidate_caches()
    assert importlib.import_module("of_spark.two").__name__ == "of_spark.two"


def test_what_was_imported_is_frozen_once() -> None:
    subprocess.run([sys.executable, "-c", FREEZES], check=True, timeout=60)


@pytest.mark.parametrize("module", ["spark.readers", "spark.writers"])
def test_a_task_expects_its_input_once_it_has_its_reader_or_writer(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark sends the pickle of either as the first, and then the partition or the rows."""
    url = "stomp://127.0.0.1:1"
    made = {
        "spark.readers": StompStreamReader(source_options(url), projection_of("body")),
        "spark.writers": StompStreamWriter(sink_options(url), SinkColumns(("body",), False)),
    }
    pickled, expected = pickle.dumps(made[module]), []
    monkeypatch.setattr(f"spark_stomp.{module}.expect_input", lambda: expected.append(module))
    pickle.loads(pickled)
    assert expected == [module]


def test_nor_does_a_task_fail_if_open_files_are_not_to_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_tuning, "_OPEN_FILES", tmp_path / "none")
    worker_tuning.expect_input()


def test_other_files_and_sockets_are_let_alone(tmp_path: Path) -> None:
    (one, other), datagrams = socket.socketpair(), socket.socket(type=socket.SOCK_DGRAM)
    with one, other, datagrams, (tmp_path / "file").open("wb") as file:
        worker_tuning.expect_input()
        one.sendall(b"still open")
        assert other.recv(10) == b"still open"
        for number in (file.fileno(), datagrams.fileno()):
            os.fstat(number)
