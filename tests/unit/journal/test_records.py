"""Records: what goes in comes out, and a byte that changed is noticed."""

from __future__ import annotations

import pytest
from support.journals import bodies, run_of

from spark_stomp.journal.records import decode_run, encode_mark, encode_run, is_intact, parse_head


def record(first: int = 40, count: int = 3) -> bytes:
    return b"".join(encode_run(run_of(5, count, received_at=-9), first, committed=11, durable=22))


def test_a_run_comes_back_with_its_positions_as_numbers() -> None:
    raw = memoryview(record())
    head = parse_head(raw)
    assert head is not None
    assert (head.first, head.end, head.committed, head.durable, head.size) == (40, 43, 11, 22, len(raw))
    run = decode_run(head, raw)
    assert (run.first_sequence, run.received_at, run.version) == (40, -9, "1.2")
    assert (run.dialect, run.receiver) == ("devbroker", "/queue/a#0")
    assert bodies([run]) == ["body 5", "body 6", "body 7"]


def test_a_mark_has_no_frames() -> None:
    (raw,) = encode_mark(7, committed=5, durable=100)
    head = parse_head(raw)
    assert head is not None
    assert (head.first, head.end, head.count, head.committed, head.durable) == (7, 7, 0, 5, 100)
    assert is_intact(head, memoryview(raw))


@pytest.mark.parametrize("offset", range(0, len(record()), 3))
def test_any_changed_byte_is_noticed(offset: int) -> None:
    raw = bytearray(record())
    raw[offset] ^= 1
    head = parse_head(raw)
    assert head is None or not is_intact(head, memoryview(raw))


def test_what_is_cut_off_is_not_intact() -> None:
    raw = record()
    head = parse_head(raw)
    assert head is not None
    assert not is_intact(head, memoryview(raw)[:-1])
    assert parse_head(raw[:10]) is None


def test_an_impossible_length_is_no_head() -> None:
    raw = bytearray(record())
    raw[52:56] = b"\xff\xff\xff\xff"
    assert parse_head(raw) is None
