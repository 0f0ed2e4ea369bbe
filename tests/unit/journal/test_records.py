"""Records and keys: what goes in comes out, and a byte that changed is noticed."""

from __future__ import annotations

import pytest
from support.journals import batch_of, bodies

from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal.formats import (
    decode_batch,
    encode_batch,
    is_intact,
    pack_keys,
    parse_head,
    unpack_keys,
)

KEYS = [MessageKey("/queue/ä", b"ID:%d" % number, bytes([number]) * 16) for number in range(5)]


def record(first: int = 40, count: int = 3) -> bytes:
    return b"".join(encode_batch(batch_of(5, count, received_at=-9), first)[1])


def test_a_run_comes_back_with_its_positions_as_numbers() -> None:
    raw = memoryview(record())
    head = parse_head(raw)
    assert head is not None
    assert head == encode_batch(batch_of(5, 3, received_at=-9), 40)[0]
    assert (head.first, head.end, head.size) == (40, 43, len(raw))
    batch = decode_batch(head, raw)
    assert (batch.first_number, batch.received_at, batch.version) == (40, -9, "1.2")
    assert (batch.dialect, batch.receiver) == ("devbroker", "/queue/a#0")
    assert bodies([batch]) == ["body 5", "body 6", "body 7"]


@pytest.mark.parametrize("offset", range(0, len(record()), 3))
def test_any_changed_byte_is_noticed(offset: int) -> None:
    raw = bytearray(record())
    raw[offset] ^= 1
    head = parse_head(raw)
    assert head is None or not is_intact(head, memoryview(raw))


def test_an_impossible_length_is_no_head() -> None:
    raw = bytearray(record())
    raw[36:40] = b"\xff\xff\xff\xff"
    assert parse_head(raw) is None


class TestKeys:
    def test_with_and_without_a_subscription(self) -> None:
        entries = [KEYS[0]._replace(subscription=one) for one in ("a::q1", "a::q2", "", "me.sub@/topic/ä")]
        assert unpack_keys(pack_keys(entries)) == entries
        assert b"a::q1\0/queue/\xc3\xa4ID:0" in pack_keys(entries[:1])

    @pytest.mark.rule("7.7")
    def test_a_malformed_message_may_have_a_nul_in_its_destination(self) -> None:
        keys = [KEYS[0]._replace(subscription="0", destination=name) for name in ("a\0b", "\0", "\0\0a")]
        assert unpack_keys(pack_keys(keys)) == keys

    @pytest.mark.parametrize("offset", range(0, len(pack_keys(KEYS)), 5))
    def test_any_changed_byte_is_noticed(self, offset: int) -> None:
        raw = bytearray(pack_keys(KEYS))
        raw[offset] ^= 1
        # How many they are is only told.
        assert unpack_keys(bytes(raw)) is None or 8 <= offset < 12

    def test_so_is_a_part(self) -> None:
        raw = pack_keys(KEYS)
        for part in (raw[:-1], raw[:7], b"", raw + b"x"):
            assert unpack_keys(part) is None
