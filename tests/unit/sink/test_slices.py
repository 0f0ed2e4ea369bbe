"""An encoded slice: its frames, their receipts, and where they go."""

from __future__ import annotations

import numpy as np
import pytest

from spark_stomp.sink.slices import EncodedSlice, receipt_id, receipt_number

FRAMES = [b"SEND\ndestination:/queue/%d\nreceipt:x\n\nbody %d\0" % (n, n) for n in range(3)]
SLICE = EncodedSlice(memoryview(b"".join(FRAMES)), np.cumsum([len(frame) for frame in FRAMES]), 7)


def test_frames_lie_in_place() -> None:
    assert len(SLICE) == 3
    assert bytes(SLICE.frames(0, 3)) == b"".join(FRAMES)
    assert [bytes(SLICE.frames(n, n + 1)) for n in range(3)] == FRAMES
    assert bytes(SLICE.frames(0, 0)) == bytes(SLICE.frames(2, 2)) == b""


def test_a_frame_names_its_destination() -> None:
    assert [SLICE.destination(n) for n in range(3)] == ["/queue/0", "/queue/1", "/queue/2"]


@pytest.mark.parametrize("number", [0, 1, 99_999_999_999])
def test_receipts_have_one_length_and_their_number(number: int) -> None:
    receipt = receipt_id(number)
    assert len(receipt) == len(receipt_id(0))
    assert receipt_number(receipt) == receipt_number(receipt.encode()) == number


@pytest.mark.parametrize(
    "receipt", ["", "s", "s1", "r-1", "t100000000000", "s1000000000000", "s10000000000x", "s" + 12 * "²"]
)
def test_any_other_receipt_has_none(receipt: str) -> None:
    assert receipt_number(receipt) is None
