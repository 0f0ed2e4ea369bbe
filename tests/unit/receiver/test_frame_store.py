"""The window: dense numbers, the same bytes each time, and an error for what is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from spark_stomp.errors import RangeUnavailable
from spark_stomp.framebatch import FrameBatch
from spark_stomp.receiver.frame_store import FrameStore

_opened: list[FrameStore] = []


@pytest.fixture(autouse=True)
def close_windows() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def filled(max_bytes: int = 1 << 20, blocks: int = 5) -> tuple[FrameStore, list[bytes]]:
    """A window with ``blocks`` reads of three frames each, and those frames."""
    window, frames = FrameStore(max_bytes), []
    _opened.append(window)
    for number in range(blocks):
        three = [b"MESSAGE\n\n%d.%d\0" % (number, index) + b"\n" * index for index in range(3)]
        ends = [sum(len(frame) for frame in three[: index + 1]) for index in range(3)]
        window.append(b"".join(three), ends, received_at=number, version="1.2", dialect="generic")
        frames += three
    return window, frames


def content(runs: Iterable[FrameBatch]) -> list[bytes]:
    frames = []
    for run in runs:
        begin = 0
        for end in run.ends:
            frames.append(bytes(run.data[begin:end]))
            begin = end
    return frames


@pytest.mark.parametrize("max_bytes", [1, 40, 1 << 20], ids=["spilled", "partly spilled", "in memory"])
def test_every_range_gives_exactly_its_frames(max_bytes: int) -> None:
    window, frames = filled(max_bytes)
    for low in range(len(frames) + 1):
        for high in range(low, len(frames) + 1):
            assert content(window.runs(low, high)) == frames[low:high]


def test_freed_frames_have_no_size() -> None:
    window, frames = filled()
    window.release(6)
    window.free(6)
    assert window.bytes_between(0, 9) == window.bytes_between(6, 9) == sum(map(len, frames[6:9]))
    window.release(15)
    window.free(15)
    assert window.bytes_between(0, 15) == 0


def test_the_mean_is_that_of_everything_that_ever_came() -> None:
    window, frames = filled()
    mean = sum(map(len, frames)) / len(frames)
    assert window.mean_bytes == mean
    window.release(len(frames))
    assert window.mean_bytes == mean
    assert filled(blocks=0)[0].mean_bytes is None


def test_runs_carry_sequence_time_and_version() -> None:
    window, _ = filled()
    runs = list(window.runs(1, 8))
    assert [run.first_sequence for run in runs] == [1, 3, 6]
    assert [run.received_at for run in runs] == [0, 1, 2]
    assert {run.version for run in runs} == {"1.2"}


@pytest.mark.rule("2.1")
def test_reading_again_gives_the_same() -> None:
    window, _ = filled(max_bytes=30)
    assert content(window.runs(2, 13)) == content(window.runs(2, 13))


@pytest.mark.rule("3.4")
def test_released_frames_are_an_error_and_never_no_rows() -> None:
    window, frames = filled()
    window.release(4)
    with pytest.raises(RangeUnavailable, match=r"\[4, 15\)"):
        window.runs(3, 6)
    assert content(window.runs(4, 15)) == frames[4:]


def test_frames_not_received_are_an_error() -> None:
    window, _ = filled()
    with pytest.raises(RangeUnavailable):
        window.runs(10, 16)


@pytest.mark.rule("3.4")
def test_release_in_the_middle_of_a_read_is_an_error_there() -> None:
    window, _ = filled()
    runs = window.runs(0, 15)
    next(runs)
    window.release(9)
    with pytest.raises(RangeUnavailable):
        next(runs)


def test_what_was_released_is_freed_in_whole_blocks() -> None:
    window, frames = filled(max_bytes=70)
    assert window.memory_bytes > 0
    assert window.spilled_bytes > 0
    window.release(4)
    assert content(window.retained(0, 4)) == frames[:4]
    window.free(4)
    assert content(window.retained(0, 4)) == frames[3:4]
    assert content(window.runs(4, 5)) == [b"MESSAGE\n\n1.1\0\n"]
    window.release(15)
    window.free(15)
    assert (window.memory_bytes, window.spilled_bytes) == (0, 0)


@pytest.mark.rule("2.1")
def test_what_was_not_released_is_not_freed() -> None:
    window, frames = filled()
    window.release(4)
    window.free(15)
    assert content(window.runs(4, 15)) == frames[4:]


@pytest.mark.parametrize("max_bytes", [1, 40, 1 << 20], ids=["spilled", "partly spilled", "in memory"])
@pytest.mark.parametrize("end", range(17))
def test_numbers_of_truncated_frames_go_to_others(max_bytes: int, end: int) -> None:
    window, frames = filled(max_bytes)
    window.truncate(end)
    assert window.end == min(end, 15)
    assert content(window.runs(0, window.end)) == frames[:end]
    assert window.bytes_between(0, window.end) == sum(map(len, frames[:end]))
    first = window.append(b"MESSAGE\n\nx\0", [11], received_at=9, version="1.2", dialect="generic")
    assert first == min(end, 15)
    assert content(window.runs(0, first + 1)) == [*frames[:end], b"MESSAGE\n\nx\0"]
    window.release(first + 1)
    window.free(first + 1)
    assert (window.memory_bytes, window.spilled_bytes) == (0, 0)


def test_numbers_go_on_after_a_release() -> None:
    window, _ = filled()
    window.release(15)
    first = window.append(b"MESSAGE\n\n\0", [10], received_at=9, version="1.2", dialect="generic")
    assert (first, window.end, window.released) == (15, 16, 15)
    assert content(window.runs(15, 16)) == [b"MESSAGE\n\n\0"]


@pytest.mark.rule("5.7")
def test_memory_stays_within_the_bound_however_much_arrives() -> None:
    window, frames = filled(max_bytes=100, blocks=200)
    assert window.memory_bytes <= 100
    assert content(window.runs(0, 600)) == frames


def test_bytes_between_counts_frames_as_they_came() -> None:
    window, frames = filled()
    for low in range(0, 16, 2):
        for high in range(low, 16):
            assert window.bytes_between(low, high) == sum(map(len, frames[low:high]))


def test_end_within_is_the_last_frame_that_fits() -> None:
    window, frames = filled()
    window.release(2)
    for low in range(2, 15):
        for budget in range(0, 120, 7):
            expected = low
            while expected < 15 and sum(map(len, frames[low : expected + 1])) <= budget:
                expected += 1
            assert window.end_within(low, 15, budget) == expected
            assert window.end_within(low, low + 1, budget) == min(expected, low + 1)


def test_a_full_disk_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> int:
        raise OSError(28, "No space left on device")

    window, _ = filled(max_bytes=1, blocks=1)
    monkeypatch.setattr("os.pwrite", no_space)
    with pytest.raises(Exception, match=r"un-acked and stay on the broker.*lower prefetch"):
        window.append(b"MESSAGE\n\n\0", [10], received_at=0, version="1.2", dialect="generic")
    assert window.end == 3
