"""Where the parts of a status are; tests/unit/source/test_status_file.py has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.options import sink_options, source_options

from spark_stomp.status_files import status_file


@pytest.mark.parametrize(
    ("named", "of_sink"),
    [("s.json", "s.sink.json"), ("status", "status.sink"), ("a.b.json", "a.b.sink.json")],
)
def test_the_sink_has_a_file_beside_it(tmp_path: Path, named: str, of_sink: str) -> None:
    file = status_file(sink_options("stomp://h", statusFile=tmp_path / named))
    assert file is not None
    assert file.of_sink.path == str(tmp_path / of_sink)


def test_source_and_sink_of_a_query_find_the_same_place(tmp_path: Path) -> None:
    source = status_file(source_options("stomp://h", checkpointLocation=tmp_path))
    assert source == status_file(sink_options("stomp://h", checkpointLocation=tmp_path))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = status_file(sink_options("stomp://h", statusFile=tmp_path / "s.json"))
    assert file is not None
    with pytest.raises(FileNotFoundError):
        file.read()
    file.write(b"{}")
    assert file.read() == b"{}"
