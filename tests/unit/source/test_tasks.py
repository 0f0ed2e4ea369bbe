"""What a task decodes: batches joined to blocks worth decoding, with each frame's own time."""

from __future__ import annotations

from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.columns import Projection
from spark_stomp.frame_batch import FrameBatch, joined


def run(first: int, count: int) -> FrameBatch:
    frames = [b"\nMESSAGE\nmessage-id:%d\n\nx\0" % (first + index) for index in range(count)]
    ends = [sum(map(len, frames[: index + 1])) for index in range(count)]
    return FrameBatch(b"".join(frames), ends, first, 1_000 + first, "1.2", "g", "r")


def test_small_batches_become_one_block_and_rows_stay_exact() -> None:
    [block] = joined([run(0, 3), run(3, 1), run(4, 2)])
    batch = decode_frames(
        block, Projection.of("message_id", "received_at", "sequence", "receiver"), RowRules(None, "ms")
    )
    assert batch.column("message_id").to_pylist() == [str(number) for number in range(6)]
    assert batch.column("sequence").to_pylist() == list(range(6))
    assert set(batch.column("receiver").to_pylist()) == {"r"}
    times = [int(value.value) for value in batch.column("received_at")]
    assert times == [1_000, 1_000, 1_000, 1_003, 1_004, 1_004]
