"""What a task decodes: runs gathered to blocks worth decoding, with each frame's own time."""

from __future__ import annotations

from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.framebatch import FrameBatch
from spark_stomp.schema import Projection
from spark_stomp.source import tasks
from spark_stomp.source.tasks import gathered


def run(first: int, count: int, version: str = "1.2", size: int = 10) -> FrameBatch:
    frames = [b"MESSAGE\nmessage-id:%d\n\n%b\0\n" % (first + index, b"x" * size) for index in range(count)]
    ends = [sum(map(len, frames[: index + 1])) - 1 for index in range(count)]
    # The EOL after the last frame leads the next run's first, as on the wire.
    data = b"".join(frames)[:-1]
    return FrameBatch(
        data if first == 0 else b"\n" + data, _shifted(ends, first), first, 1_000 + first, version, "g", "r"
    )


def _shifted(ends: list[int], first: int) -> list[int]:
    return ends if first == 0 else [end + 1 for end in ends]


def test_small_runs_become_one_block_and_rows_stay_exact() -> None:
    runs = [run(0, 3), run(3, 1), run(4, 2)]
    block = FrameBatch.join(runs)
    batch = decode_frames(
        block, Projection.of("message_id", "received_at", "sequence", "receiver"), RowRules(None, "ms")
    )
    assert batch.column("message_id").to_pylist() == [str(number) for number in range(6)]
    assert batch.column("sequence").to_pylist() == list(range(6))
    assert set(batch.column("receiver").to_pylist()) == {"r"}
    times = [int(value.value) for value in batch.column("received_at")]
    assert times == [1_000, 1_000, 1_000, 1_003, 1_004, 1_004]


def test_one_run_is_not_copied() -> None:
    only = run(0, 3)
    assert FrameBatch.join([only]).data is only.data


def test_blocks_are_cut_by_size_and_where_the_version_changes() -> None:
    large = tasks._GROUP_BYTES
    runs = [run(0, 1), run(1, 1, size=large), run(2, 1), run(3, 1, version="1.1"), run(4, 1, version="1.1")]
    assert [[part.first_sequence for part in group] for group in gathered(runs)] == [[0, 1], [2], [3, 4]]


def test_parts_of_a_journal_that_lost_messages_are_not_joined() -> None:
    """Or the column ``sequence`` would be wrong behind the gap."""
    runs = [run(0, 3), run(5, 2), run(7, 1)]
    assert [[part.first_sequence for part in group] for group in gathered(runs)] == [[0], [5, 7]]


def test_nothing_gives_nothing() -> None:
    assert list(gathered([])) == []
