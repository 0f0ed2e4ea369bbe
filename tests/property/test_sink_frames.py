"""Rows to frames: a whole slice at once and row by row they come out the same, whatever the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.brokers.destinations import Naming
from spark_stomp.brokers.outgoing import Outgoing
from spark_stomp.columns import SinkColumns
from spark_stomp.errors import SinkRowError
from spark_stomp.protocol import Limits
from spark_stomp.protocol.encoder import HeaderNames, ValueRule
from spark_stomp.sink.columnar import SliceFrames
from spark_stomp.sink.encoder import RowEncoder
from spark_stomp.sink.rows import RowFrames, rows_of
from spark_stomp.sink.rules import SendRules, TimeToLive
from spark_stomp.sink.window import receipt_id

NOW = 1_700_000_000.25
LIMITS = Limits(max_header_line=60, max_headers=12, max_body=40, max_frame=400)

# What headers are made of: escapes, what some version cannot carry, letters of one octet and of more.
octets = st.lists(
    st.sampled_from([b"a", b"b", b" ", b":", b"\\", b"\n", b"\r", b"\0", "ü".encode(), b"\xff", b"x" * 30]),
    max_size=4,
).map(b"".join)
plain = st.sampled_from([b"a", b"b", b"k:1", b"v"])
texts = plain | plain | octets
NAMES = b"a|own|reply-to|priority|kind|left|Receipt|transaction|persistent|expires|id|longer than 12".split(
    b"|"
)
names = st.sampled_from(NAMES) | texts
CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "body": (pa.binary(), st.one_of(st.binary(max_size=50), plain, st.none())),
    "destination": (pa.string(), st.one_of(st.sampled_from([b"/queue/a", b"/topic/a"]), texts, st.none())),
    "content_type": (pa.string(), st.none() | texts),
    "headers": (
        pa.map_(pa.string(), pa.string()),
        st.none() | st.lists(st.tuples(names, st.none() | texts), max_size=5, unique_by=lambda pair: pair[0]),
    ),
    "persistent": (pa.bool_(), st.none() | st.booleans()),
    "priority": (pa.int32(), st.none() | st.integers(-1, 11)),
    "ttl": (pa.int64(), st.none() | st.integers(-1, 10_000)),
    "own": (pa.int64(), st.none() | st.integers(-9, 9)),
}
COLUMNS = (("content_type", "content-type"), *((name, name) for name in ("persistent", "priority", "own")))
VALUES = (
    ValueRule("priority", "0*[0-9]", "be a digit"),
    ValueRule("a", "(?s:.*[x:].*)", "be without these", allowed=False),
)


@st.composite
def rules(draw: st.DrawFn) -> SendRules:
    ttl = st.builds(TimeToLive, st.just("expires"), st.booleans(), st.none() | st.just(500))
    return SendRules(
        version=(version := draw(st.sampled_from(["1.0", "1.1", "1.2", "lenient"]))),
        destination=draw(st.none() | st.sampled_from(["/queue/o", "/topic/o"])),
        headers=draw(
            st.sampled_from(
                [
                    *((), (), (("persistent", "true"), ("a\\", "\\:")), (("kind", "option"),)),
                    *((("path", "C:\\new"),), (("b\\", "c"),)),
                ]
            )
        ),
        naming=Naming(otherwise=draw(st.sampled_from(["queue", "topic", "unknown"]))),
        queue_headers=draw(st.sampled_from([(), (("kind", "q"),)])),
        columns=COLUMNS,
        ttl=draw(ttl),
        dedup_key=draw(st.sampled_from([(), ("own",), ("content_type", "own")])),
        dedup_header="id",
        outgoing=Outgoing(
            HeaderNames(
                frozenset({"left", draw(st.sampled_from(["kind", "persistent", "x"]))}),
                ("k",),
                frozenset({"kind"}),
            ),
            draw(st.sampled_from([(), VALUES])),
            reply_name=draw(st.sampled_from(["", "a(.*)", "(v)"])),
            body_claim=draw(st.sampled_from([None, ("own", "v", b"a")])),
            max_header_name=draw(st.sampled_from([12, 99])),
        ),
        unescaped=version in ("1.0", "lenient") and draw(st.booleans()),
        on_error="drop",
        text=draw(st.booleans()),
        limits=draw(st.sampled_from([Limits(), LIMITS])),
        most_messages=draw(st.integers(1, 6)),
        most_bytes=draw(st.sampled_from([1, 300, 1 << 20])),
    )


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """A column that may hold strings which are not UTF-8, as Spark's may."""
    if pa.types.is_string(kind):
        octets = pa.array(values, pa.binary())
        return pa.Array.from_buffers(kind, len(values), octets.buffers())
    if not pa.types.is_map(kind):
        return pa.array(values, kind)
    ends = np.cumsum([0, *(len(value or ()) for value in values)]).astype(np.int32)
    pairs = [pair for value in values for pair in value or ()]
    parts = [column(pa.string(), [pair[n] for pair in pairs]) for n in (0, 1)]
    entries = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
    valid = pa.array([value is not None for value in values]).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(ends)], children=[entries])


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = {name: column(kind, [row[name] for row in rows]) for name, (kind, _) in CELLS.items()}
    return pa.record_batch(arrays)


rows_of_cells = st.lists(
    st.fixed_dictionaries({name: cell for name, (_, cell) in CELLS.items()}), min_size=1, max_size=7
)


def one_by_one(cells: dict[str, pa.Array], rules: SendRules) -> list[bytes] | None:
    """The frames of the rows; None if one of them cannot be sent."""
    single = RowFrames(rules)
    try:
        return [single.frame(row, receipt_id(n), NOW) for n, row in enumerate(rows_of(cells, rules))]
    except SinkRowError:
        return None


@given(rows_of_cells, rules())
def test_a_slice_has_the_frames_of_its_rows_or_none_if_one_is_refused(
    rows: list[dict[str, Any]], rules: SendRules
) -> None:
    """The first and the last row of the batch are cut off, so that no column begins at 0."""
    batch = batch_of([rows[0], *rows, rows[0]]).slice(1, len(rows))
    cells = dict(zip(batch.schema.names, batch.columns, strict=True))
    whole = SliceFrames(rules).frames(cells, 0, NOW)
    assert (None if whole is None else whole.to_pylist()) == one_by_one(cells, rules)


@given(rows_of_cells, rules())
def test_every_other_row_of_a_slice_is_sent(rows: list[dict[str, Any]], rules: SendRules) -> None:
    batch = batch_of(rows)
    cells = dict(zip(batch.schema.names, batch.columns, strict=True))
    single = ({name: column.slice(at, 1) for name, column in cells.items()} for at in range(len(rows)))
    alone = [one_by_one(one, rules) for one in single]
    encoder = RowEncoder(SinkColumns(tuple(CELLS), False), rules, lambda: NOW)
    parts = list(encoder.slices(batch))
    assert sum(map(len, parts)) == len(rows) - alone.count(None)
    assert sum(part.dropped for part in parts) == alone.count(None)
