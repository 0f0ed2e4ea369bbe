"""A producer may send bodies that look like records of the journal: they are never taken for some."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.journals import batch_of, bodies, damage, expected, frame, local_journal, segments

from spark_stomp.errors import JournalDamaged
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal.local.journal import LocalJournal
from spark_stomp.journal.records import encode_batch, encode_mark

# As far as the file is long, and more: whatever is before it would count as synced, and as committed.
FAR = 1 << 40


def forged() -> bytes:
    """Records in a row, as a whole: a batch at the position that comes next, and marks."""
    parts = [
        *encode_mark(5, committed=FAR, durable=FAR),
        *encode_batch(batch_of(900, 3), 6, committed=FAR, durable=FAR),
        *encode_mark(FAR, committed=FAR, durable=FAR),
    ]
    return b"".join(bytes(part) for part in parts)


def one_frame(number: int, body: bytes) -> FrameBatch:
    data = frame(number).replace(b"body %d" % number, body)
    return FrameBatch(data, [len(data)], number, 7, "1.2", "devbroker", "/queue/a#0")


def with_forged_body(directory: Path) -> Path:
    """Five frames, one whose body is forged records, and five more; returns the file."""
    journal = local_journal(directory)
    for batch in (batch_of(0, 5), one_frame(5, b"x" * 200 + forged()), batch_of(6, 5)):
        journal.append([batch])
    journal.close()
    (path,) = segments(directory)
    return path


def reopened(directory: Path, *, tolerant: bool = False) -> LocalJournal:
    journal = local_journal(directory, tolerant=tolerant)
    journal.close()
    return journal


@pytest.mark.parametrize("where", ["its magic", "its checksum", "its size", "its marker", "its body"])
def test_where_a_record_is_damaged(tmp_path: Path, where: str) -> None:
    path = with_forged_body(tmp_path)
    content = path.read_bytes()
    body = content.index(b"x" * 200)
    head = content.rindex(b"SSJR", 0, body)
    places = {
        "its magic": head,
        "its checksum": head + 4,
        "its size": head + 33,
        "its marker": head - 1,
        "its body": body,
    }
    damage(path, places[where])
    journal = reopened(tmp_path, tolerant=True)
    held = journal.held(0, 11)
    assert held == [(0, 5), (6, 11)]
    assert [text for low, high in held for text in bodies(journal.batches(low, high))] == expected(
        0, 5
    ) + expected(6, 11)
    assert (journal.committed, journal.end) == (0, 11)


@pytest.mark.rule("J.14")
def test_where_a_crash_cut_a_record_off(tmp_path: Path) -> None:
    """What is behind it would say that it was synced: damage, and the query would not start again."""
    journal = local_journal(tmp_path)
    journal.append([batch_of(0, 5)])
    journal.append([one_frame(5, forged() + b"x" * 200)])
    journal.close()
    (path,) = segments(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    again = reopened(tmp_path)
    assert (again.committed, again.end) == (0, 5)


@pytest.mark.parametrize("size", [10, 100])
def test_where_a_crash_left_a_hole(tmp_path: Path, size: int) -> None:
    """Blocks of a file may reach the disk in any order."""
    journal = local_journal(tmp_path)
    journal.append([batch_of(0, 5)])
    begin = journal.size
    journal.append([one_frame(5, b"x" * 200 + forged())])
    journal.close()
    (path,) = segments(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:begin] + bytes(size) + content[begin + size :])
    again = reopened(tmp_path)
    assert (again.committed, again.end) == (0, 5)


@pytest.mark.parametrize("place", range(0, 76, 5))
def test_records_are_found_though_the_header_is_damaged(tmp_path: Path, place: int) -> None:
    """A copy of the marker is before the first record."""
    path = with_forged_body(tmp_path)
    damage(path, place)
    journal = reopened(tmp_path, tolerant=True)
    (*_, (low, high)) = journal.held(0, 11)
    assert bodies(journal.batches(6, 11)) == expected(6, 11)
    assert (low, high, journal.committed, journal.end) == (low, 11, 0, 11)


def test_no_two_segments_have_the_same_marker(tmp_path: Path) -> None:
    markers = set()
    for name in "ab":
        markers.add(with_forged_body(tmp_path / name).read_bytes()[36:52])
    assert len(markers) == 2


@pytest.mark.rule("J.14")
@pytest.mark.parametrize("size", [72, 512])
def test_nothing_is_cut_off_though_no_marker_is_left(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A block of the disk is as large. What cannot be found may be durable all the same."""
    path = with_forged_body(tmp_path)
    broken = bytes(size) + path.read_bytes()[size:]
    path.write_bytes(broken)
    for _ in range(2):
        with pytest.raises(JournalDamaged, match="messages from 0 on are lost"):
            reopened(tmp_path)
        assert path.read_bytes() == broken
    # Tolerated, it goes on, and what comes then is not damaged.
    journal = local_journal(tmp_path, tolerant=True)
    assert "messages from 0 on are lost" in caplog.text
    assert path.with_suffix(".damaged").read_bytes() == broken
    assert journal.append([batch_of(0, 5)]) == [0]
    journal.close()
    again = reopened(tmp_path)
    assert bodies(again.batches(0, 5)) == expected(0, 5)


def test_what_comes_after_a_damaged_header_is_in_its_own_file(tmp_path: Path) -> None:
    path = with_forged_body(tmp_path)
    damage(path, 30)
    broken = path.read_bytes()
    journal = local_journal(tmp_path, tolerant=True)
    assert journal.append([batch_of(11, 5)]) == [11]
    journal.close()
    assert path.read_bytes() == broken
    again = reopened(tmp_path, tolerant=True)
    assert bodies(again.batches(6, 16)) == expected(6, 16)
