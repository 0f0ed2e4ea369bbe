"""spark_stomp.protocol.layouts: runs of raw frames, swept up or walked along."""

from __future__ import annotations

import pytest

from spark_stomp.protocol import layouts
from spark_stomp.protocol.layouts import Layout, Numbers, UniformFrames, compile_layout, sweep, walk
from spark_stomp.protocol.raw import RawNames

NAMES = ("subscription", "message-id", "ack", "id", "timestamp", "content-length")
ANY = 1 << 20
COLLECTED = RawNames(b"ack", b"id", b"timestamp")


def frame(number: int, body: bytes = b"body", length: bytes | None = None) -> bytes:
    head = b"MESSAGE\nsubscription:q%d\nmessage-id:m%d\nack:a%d\nid:s%d\ntimestamp:%d\n" % ((number,) * 5)
    size = b"%d" % len(body) if length is None else length
    return head + b"content-length:%b\n\n%b\0" % (size, body)


@pytest.fixture
def layout() -> Layout:
    return compile_layout(NAMES, COLLECTED)


def swept(layout: Layout, data: bytes, start: int = 0, stop: int = ANY) -> UniformFrames:
    """A sweep, which begins after a NUL."""
    run = sweep(layout, b"\0" + data, start + 1, stop + 1, Numbers())
    return run._replace(ends=[end - 1 for end in run.ends])


def walked(layout: Layout, data: bytes, start: int = 0, stop: int = ANY) -> UniformFrames:
    return walk(layout, data, start, ANY, stop)


def ends_of(frames: list[bytes], start: int = 0) -> list[int]:
    return [start + len(b"".join(frames[: count + 1])) for count in range(len(frames))]


FOUR = [frame(n) for n in range(4)]


class TestSweep:
    def test_leaves_bodies_with_nuls_to_a_walk(self, layout: Layout) -> None:
        data = b"".join(FOUR) + frame(4, b"\0\0") + frame(5)
        assert swept(layout, data).ends == ends_of(FOUR)
        assert len(walked(layout, data).ends) == 6

    def test_is_not_led_astray_by_frames_in_a_body(self, layout: Layout) -> None:
        data = frame(1, frame(2) + frame(3)) + frame(4)
        assert swept(layout, data).ends == []
        assert walked(layout, data).ends == [len(data) - len(frame(4)), len(data)]


class TestWalk:
    def test_takes_no_more_than_it_is_told(self, layout: Layout) -> None:
        assert walk(layout, frame(1) * 9, 0, 5, ANY).ends == ends_of([frame(1)] * 5)

    def test_takes_no_frame_that_is_too_large(self, layout: Layout) -> None:
        size = len(frame(1))
        assert len(walk(layout, frame(1) * 3, 0, 5, size).ends) == 3
        assert walk(layout, frame(1) * 3, 0, 5, size - 1).ends == []


def test_numbers_are_kept_but_not_without_bound() -> None:
    numbers = Numbers()
    assert [numbers[b"%d" % n] for n in range(layouts.MOST_NUMBERS)] == list(
        range(1, layouts.MOST_NUMBERS + 1)
    )
    assert len(numbers) == layouts.MOST_NUMBERS
    assert numbers[b"7"] == 8
    assert len(numbers) == layouts.MOST_NUMBERS
    assert numbers[b"007"] == 8
    assert len(numbers) == 1
