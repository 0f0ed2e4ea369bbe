"""Keys that outlive their frames."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from support.journals import damage

from spark_stomp.errors import JournalDamaged
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal.local.dedup_log import DedupLog
from spark_stomp.journal.records import pack_keys

KEYS = [MessageKey("/queue/ä", b"ID:%d" % number, bytes([number]) * 16) for number in range(5)]


def opened(path: Path, most: int = 100, *, tolerant: bool = False) -> list[MessageKey]:
    return DedupLog(path, most, tolerant=tolerant).keys


def test_what_was_appended_is_there_after_opening_again(tmp_path: Path) -> None:
    file = DedupLog(tmp_path / "keys", 100, tolerant=False)
    file.append(KEYS[:2])
    file.append(KEYS[2:])
    assert opened(tmp_path / "keys") == KEYS
    # Rewritten as one batch, and none twice.
    DedupLog(tmp_path / "keys", 100, tolerant=False).append(KEYS[:1])
    assert opened(tmp_path / "keys") == KEYS


def test_beyond_the_bound_the_oldest_are_forgotten(tmp_path: Path) -> None:
    DedupLog(tmp_path / "keys", 100, tolerant=False).append(KEYS)
    assert opened(tmp_path / "keys", most=2) == KEYS[-2:]


def test_while_it_grows_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    file = DedupLog(path, 2, tolerant=False)
    for _ in range(3):
        file.append(KEYS)
        assert file.keys == KEYS[-2:]
        assert path.stat().st_size <= len(pack_keys(KEYS))
    assert opened(path, most=2) == KEYS[-2:]


def test_with_a_full_disk_it_is_opened_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_bytes(pack_keys(KEYS) + pack_keys(KEYS)[:-3])

    def full(descriptor: int, keys: object) -> None:
        os.write(descriptor, b"half")
        os.close(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("spark_stomp.journal.local.dedup_log._write_synced", full)
    assert opened(path, most=2) == KEYS[-2:]
    assert path.read_bytes() == pack_keys(KEYS)
    assert [one.name for one in tmp_path.iterdir()] == ["keys"]
    assert "No space left" in caplog.text


def test_a_torn_end_is_what_a_crash_leaves(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(pack_keys(KEYS[:2]) + pack_keys(KEYS[2:])[:-3])
    assert opened(path) == KEYS[:2]


def test_damage_before_the_end_is_an_error_or_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(pack_keys(KEYS[:2]) + pack_keys(KEYS[2:]))
    damage(path, 20)
    with pytest.raises(JournalDamaged, match="second row"):
        opened(path)
    assert opened(path, tolerant=True) == []
