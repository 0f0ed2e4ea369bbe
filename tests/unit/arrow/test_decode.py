"""Frame batches to record batches: columns, order, which path a frame takes, and that no more is done."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.columns import projection_of

from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.arrow import decode as module
from spark_stomp.arrow.decode import read_rows
from spark_stomp.columns import SOURCE_COLUMNS
from spark_stomp.frame_batch import Ends, FrameBatch

RULES = RowRules(id_header="JMSMessageID", timestamp_unit="s")
ALL = projection_of(*(column.name for column in SOURCE_COLUMNS))
RECEIVED = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.timezone.utc)
FRAME = (
    b"MESSAGE\ndestination:/queue/x\nmessage-id:m-%d\nJMSMessageID:j-%d\ncontent-type:text/plain\n"
    b"redelivered:true\ntimestamp:1700000000\n\nbody %d\0"
)


def frame_batch(*frames: bytes, version: str = "1.2") -> FrameBatch:
    ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
    received_at = int(RECEIVED.timestamp()) * 1_000_000 + RECEIVED.microsecond
    return FrameBatch(b"".join(frames), ends, 41, received_at, version, receiver="epoch-1")


def test_every_column() -> None:
    row = decode_frames(frame_batch(FRAME % (1, 2, 3)), ALL, RULES).to_pylist()[0]
    # As they are in the frame.
    lines = (FRAME % (1, 2, 3)).decode().split("\n")[1:7]
    headers = [(name, value) for name, _, value in (line.partition(":") for line in lines)]
    assert row == {
        "destination": "/queue/x",
        "message_id": "m-1",
        "stable_id": "j-2",
        "content_type": "text/plain",
        "redelivered": True,
        "timestamp": dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.timezone.utc),
        "received_at": RECEIVED,
        "headers": headers,
        "body": b"body 3",
        "malformed": None,
        "rescued": None,
        "header_history": [{"name": name, "value": value} for name, value in headers],
        "receiver": "epoch-1",
        "sequence": 41,
        "stream_offset": None,
    }


def test_an_empty_frame_batch_has_the_schema() -> None:
    batch = decode_frames(frame_batch(), ALL, RULES)
    assert batch.num_rows == 0
    assert batch.schema.equals(ALL.arrow_schema)


@pytest.mark.parametrize("kind", [list, tuple, np.array], ids=["list", "tuple", "array"])
def test_ends_of_any_kind_and_a_time_for_each_frame(kind: Callable[[list[int]], Ends]) -> None:
    first, second = FRAME % (1, 1, 1), FRAME % (2, 2, 2)
    ends = kind([len(first), len(first + second)])
    batch = FrameBatch(first + second, ends, 0, np.array([5, 7]), "1.2", receiver="epoch-1")
    rows = decode_frames(batch, projection_of("message_id", "received_at"), RULES)
    assert rows.column("message_id").to_pylist() == ["m-1", "m-2"]
    assert rows.column("received_at").cast(pa.int64()).to_pylist() == [5, 7]


def test_the_projection_says_which_columns_and_in_what_order() -> None:
    chosen = projection_of("sequence", "body", "message_id", body_as_string=True)
    batch = decode_frames(frame_batch(*(FRAME % (i, i, i) for i in range(3))), chosen, RULES)
    assert batch.schema.equals(chosen.arrow_schema)
    assert batch.to_pylist()[2] == {"sequence": 43, "body": "body 2", "message_id": "m-2"}


class TestStreams:
    """The offset is a column, and the stable id is the stream's name with it; by either path."""

    rules = RowRules("message-id", "s", stream="a", offset_header="x-stream-offset")
    columns = projection_of("stream_offset", "stable_id")

    # One of another layout, a repeat, and an escape need the exact path.
    @pytest.mark.parametrize("exact", [b"", b"x:y\n", b"x-stream-offset:9\n", b"x:\\c\n"])
    def test_a_message_has_its_offset(self, exact: bytes) -> None:
        frames = [b"MESSAGE\nmessage-id:m\nx-stream-offset:%d\n\nb\0" % number for number in (7, 8, 12)]
        frames[1] = frames[1].replace(b"\n\n", b"\n%b\n" % exact)
        rows = decode_frames(frame_batch(*frames), self.columns, self.rules).to_pylist()
        assert rows == [{"stream_offset": one, "stable_id": f"a@{one}"} for one in (7, 8, 12)]

    def test_a_malformed_one_too_unless_it_has_none(self) -> None:
        projection = projection_of("stream_offset", "stable_id", "malformed")
        for lines, row in (
            (b"bad\nx-stream-offset:7\n", {"stream_offset": 7, "stable_id": "a@7"}),
            (b"bad\n", {"stream_offset": None, "stable_id": None}),
        ):
            batch = replace(frame_batch(b"MESSAGE\n%b\n\0" % lines), malformed="why")
            assert decode_frames(batch, projection, self.rules).to_pylist() == [{**row, "malformed": "why"}]

    def test_a_message_of_a_queue_has_none_whatever_its_producer_says(self) -> None:
        batch = frame_batch(b"MESSAGE\nmessage-id:m\nx-stream-offset:7\n\nb\0")
        rules = replace(self.rules, stream=None)
        rows = decode_frames(batch, self.columns, rules).to_pylist()
        assert rows == [{"stream_offset": None, "stable_id": "m"}]


def test_no_stable_id_without_a_header_for_it() -> None:
    batch = decode_frames(frame_batch(FRAME % (1, 2, 3)), projection_of("stable_id"), RowRules(None, "ms"))
    assert batch.to_pylist() == [{"stable_id": None}]


def test_plain_frames_never_take_the_exact_path(decoded: list[int]) -> None:
    one_layout = [FRAME % (i, i, i) for i in range(40)]
    two_layouts = list(one_layout)
    two_layouts[::2] = [frame.replace(b"redelivered:true\n", b"") for frame in one_layout[::2]]
    escaped = [frame.replace(b"m-", b"ID\\chost\\c") for frame in two_layouts]
    for frames in (one_layout, two_layouts, escaped):
        assert decode_frames(frame_batch(*frames), ALL, RULES).num_rows == 40
    assert decoded == []


def test_a_large_body_is_not_copied() -> None:
    raw = frame_batch(b"MESSAGE\na:b\n\n" + b"x" * 100_000 + b"\0")
    body = decode_frames(raw, projection_of("body"), RULES).column("body")
    address = np.frombuffer(raw.data, np.uint8).ctypes.data
    assert address <= body.buffers()[2].address < address + len(raw.data)


@pytest.mark.parametrize(("quoted", "name"), [(True, "/queue/café"), (False, "/queue/caf%C3%A9")])
def test_the_destination_is_named_as_a_send_names_it(quoted: bool, name: str) -> None:
    frames = frame_batch(b"MESSAGE\ndestination:/queue/caf%C3%A9\n\n\0")
    rules = replace(RULES, quoted_names=quoted)
    (row,) = decode_frames(frames, projection_of("destination", "headers"), rules).to_pylist()
    assert row == {"destination": name, "headers": [("destination", "/queue/caf%C3%A9")]}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames took the exact path, each time."""
    found: list[int] = []
    original = module.exact_frames
    monkeypatch.setattr(
        module, "exact_frames", lambda area, own: found.append(len(area)) or original(area, own)
    )
    return found


def plain(number: int, layout: int) -> bytes:
    extra = b"".join(b"x%d-%d:y\n" % (layout, k) for k in range(layout % 7))
    return b"MESSAGE\nn:%d\nlayout:%d\n%s\n%d\0" % (number, layout, extra, number)


@pytest.mark.parametrize("layouts", [1, 2, 3, 12])
def test_several_layouts_are_read_without_it(decoded: list[int], layouts: int) -> None:
    read_rows(frame_batch(*(plain(number, number % layouts) for number in range(200))))
    assert decoded == []


def test_layouts_of_few_frames_take_the_exact_path(decoded: list[int]) -> None:
    read_rows(frame_batch(*(b"MESSAGE\nx%d:1\n\n\0" % number for number in range(160))))
    assert decoded == [160 - 11]


def test_only_frames_that_need_it_take_the_exact_path(decoded: list[int]) -> None:
    frames = [plain(number, 1) for number in range(20)]
    frames[5] = b"\nMESSAGE\r\nn:5\nlayout:1\r\n\r\nexact\n\n\0"
    rows = read_rows(frame_batch(*frames))
    assert decoded == [1]
    assert rows.column("n").to_pylist() == [str(number) for number in range(20)]
    assert rows.bodies().to_pylist()[4:7] == [b"4", b"exact\n\n", b"6"]
