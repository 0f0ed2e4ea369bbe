"""The Arrow decoder gives the frames of FrameDecoder, whatever FrameScanner lets through."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.codec import decode
from support.columns import projection_of

from spark_stomp.arrow.columns import charset_of
from spark_stomp.arrow.decode import RowRules, decode_frames
from spark_stomp.columns import SOURCE_COLUMNS
from spark_stomp.errors import ProtocolError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import NEED_DATA, VERSIONS, Frame, FrameScanner, MessageBlock, escape

EVERYTHING = projection_of(*(column.name for column in SOURCE_COLUMNS))
AS_TEXT = projection_of("body", body_as_string=True)
RULES = RowRules(id_header="message-id", timestamp_unit="ms", body_decode_errors="null")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)

NAMES = st.one_of(
    st.sampled_from(["destination", "message-id", "content-type", "redelivered", "timestamp", "ack"]),
    st.sampled_from(["", "a", "A", "Destination", "x:y", "x\\", "é", "x y", "x\r", " x", "x ", "x\ny"]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=4),
)
VALUES = st.one_of(
    st.sampled_from(["", "true", "FALSE", "text/plain; charset=latin-1", "text/plain;charset=utf-16"]),
    st.sampled_from(["12", "0", "007", "0x10", "-5", "+5", "٣", "1" * 18, "9" * 20]),
    st.sampled_from(["253402300799999", "253402300800000"]),
    st.sampled_from(["a:b", " padded ", ":\\\n", "\\:", "\\", "\\\\", "x\r", "\r", "a\rb"]),
    st.sampled_from(["ü€\U0001f600", "\u00a0x\u00a0"]),
    st.text(st.characters(codec="utf-8"), max_size=6),
)
BODIES = st.one_of(
    st.sampled_from(
        [b"", b"\n", b"\n\n", b"a:b\nc:d\n\nrest", b"\r\n\r\n", b"\\c", b"\xc3\xa4", b"\xff\xfe"]
    ),
    st.binary(max_size=12).map(lambda body: body.replace(b"\0", b"")),
)
LEADS = {
    "lenient": [b"", b"\n", b"\r\n", b"\0", b" \n", b" \r \n\0\n", b"\n" * 40],
    "1.2": [b"", b"\n", b"\r\n", b"\r\n\n" * 20],
}

LINE_ENDS = {
    "1.2": [[b"\n"], [b"\n"], [b"\r\n"], [b"\n", b"\r\n"]],
    "lenient": [[b"\n"], [b"\n"], [b"\r\n", b" \n"], [b"\n", b"\r\n"]],
}


def on_the_wire(text: str, version: str, *, name: bool = False) -> bytes:
    """A header's name or value as a peer of that version would write it."""
    if version in ("1.1", "1.2"):
        plain = text.replace("\0", "") if version == "1.2" else text.replace("\0", "").replace("\r", "")
        return escape(plain, version).encode()
    text = text.replace("\n", "").replace("\0", "")
    return (text.replace(":", "") if name else text).encode()


@dataclass(frozen=True)
class Style:
    """What the frames of one producer have in common."""

    version: str
    names: list[str]
    ends: list[bytes]
    counted: bool
    padding: bytes


@st.composite
def styles(draw: st.DrawFn, version: str) -> Style:
    names = draw(st.lists(NAMES, max_size=5))
    if version in ("1.1", "1.2"):
        names = [name for name in names if on_the_wire(name, version)]
    ends = draw(st.sampled_from(LINE_ENDS.get(version, [[b"\n"]])))
    # Long bodies are read in another way than short ones.
    padding = st.sampled_from([b"", b"", b"\n\nxyz:" * 800])
    return Style(version, names, ends, draw(st.booleans()), draw(padding))


@st.composite
def messages(draw: st.DrawFn, style: Style) -> bytes:
    """One MESSAGE frame of a producer."""
    eol = draw(st.sampled_from(style.ends))
    lines = [b"MESSAGE" if style.version != "lenient" else draw(st.sampled_from([b"MESSAGE", b"message"]))]
    for name in style.names:
        value = on_the_wire(draw(VALUES), style.version)
        value = draw(st.sampled_from([value] * 9 + [value + b"\xff", b"\xc3" + value]))
        lines.append(on_the_wire(name, style.version, name=True) + b":" + value)
    body = draw(BODIES) + style.padding
    if style.counted:
        body += draw(st.sampled_from([b"", b"\0", b"\0\n"]))
        lines.append(b"content-length:%d" % len(body))
    lead = draw(st.sampled_from(LEADS.get(style.version, [b"", b"\n", b"\n\n\n"])))
    return lead + eol.join(lines) + eol + draw(st.sampled_from(style.ends)) + body + b"\0"


@st.composite
def streams(draw: st.DrawFn, version: str) -> bytes:
    """Frames of one producer or of a few; one in ten streams is damaged somewhere."""
    producers = draw(st.lists(styles(version), min_size=1, max_size=3))
    frames = st.one_of([messages(style) for style in producers])
    stream = b"".join(draw(st.lists(frames, min_size=1, max_size=8)))
    if draw(st.integers(0, 9)):
        return stream
    place = draw(st.integers(0, len(stream)))
    damage = draw(st.sampled_from([b"", b"\\", b"\r", b"\n", b":", b"\xff", b"\0"]))
    return stream[:place] + damage + stream[place + 1 :]


def blocks_of(stream: bytes, version: str) -> list[MessageBlock]:
    """What the scanner lets through before it refuses something, if it does."""
    scanner = FrameScanner(version)
    scanner.receive_data(stream)
    blocks = []
    try:
        while (event := scanner.next_event()) is not NEED_DATA:
            if isinstance(event, MessageBlock):
                blocks.append(event)
    except ProtocolError:
        pass
    return blocks


def expected_row(frame: Frame) -> dict[str, Any]:
    """The columns of one message by the rules as they are written, without a thought for speed."""
    flag = (frame.get("redelivered") or "").lower()
    time = frame.get("timestamp") or ""
    sound = time.isascii() and time.isdigit() and len(time) <= 18 and 0 < int(time) < 253402300800000
    return {
        "destination": frame.get("destination"),
        "message_id": frame.get("message-id"),
        "stable_id": frame.get("message-id"),
        "content_type": frame.get("content-type"),
        "redelivered": {"true": True, "false": False}.get(flag),
        "timestamp": EPOCH + dt.timedelta(milliseconds=int(time)) if sound else None,
        "headers": list(dict(reversed(frame.headers)).items()),
        "body": frame.body,
        "header_history": [{"name": name, "value": value} for name, value in frame.headers],
        "stream_offset": None,
    }


def expected_text(frame: Frame) -> str | None:
    """The body as its content type says; None where it is not that, or where nobody knows the charset."""
    charset = charset_of(frame.get("content-type"))
    try:
        return frame.body.decode(charset)
    except (LookupError, ValueError):
        return None


def check(stream: bytes, version: str) -> None:
    rows: list[dict[str, Any]] = []
    texts: list[str | None] = []
    raws: list[bytes] = []
    for block in blocks_of(stream, version):
        raw = FrameBatch(block.data, np.array(block.ends), len(rows), 7, version, receiver="epoch")
        batch = decode_frames(raw, EVERYTHING, RULES)
        batch.validate(full=True)
        assert batch.schema.equals(EVERYTHING.arrow_schema)
        rows += batch.to_pylist()
        texts += decode_frames(raw, AS_TEXT, RULES).column("body").to_pylist()
        raws += [block.data[begin:end] for begin, end in pairwise([0, *block.ends])]
    frames = decode(version, [stream]).frames
    assert len(rows) == len(frames)
    for place, (row, frame) in enumerate(zip(rows, frames, strict=True)):
        assert row.pop("received_at") == EPOCH + dt.timedelta(microseconds=7)
        assert (row.pop("receiver"), row.pop("sequence")) == ("epoch", place)
        head = raws[place].removesuffix(frame.body + b"\0")
        is_text = head.decode(errors="replace").encode() == head
        assert (row.pop("malformed") is None) == is_text
        assert row.pop("rescued") == (None if is_text else frame.body)
        expected = expected_row(frame)
        assert dict(row.pop("headers")) == dict(expected.pop("headers"))
        assert row == expected
        assert texts[place] == expected_text(frame)


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(data=st.data())
def test_arrow_decode_equals_the_frame_decoder(version: str, data: st.DataObject) -> None:
    check(data.draw(streams(version)), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(b"MESSAGE\n\n\0", id="nothing"),
        pytest.param(b"MESSAGE\n\nbody\n\n\0MESSAGE\na:b\n\n\0", id="no headers, then some"),
        pytest.param(b"MESSAGE\na:b\n\n\0MESSAGE\r\na:b\r\n\r\nx\n\ny\0", id="CR LF in the second"),
        pytest.param(b"MESSAGE\na:b\r\n\r\nx\n\ny\0", id="CR LF from the header on"),
        pytest.param(b" \n\nMESSAGE\na:b\n\n\0", id="a blank line with a blank leads"),
        pytest.param(
            b"MESSAGE\na:\\\\\nb:\\c\n\n\0MESSAGE\na:\\\\\\\\\\n\nb:\\c\\c\n\n\0", id="runs of escapes"
        ),
        pytest.param(b"MESSAGE\ncontent-type:text/plain; charset=atin-1\n\n\0" * 2, id="an unknown charset"),
        pytest.param(b"MESSAGE\na:1\nb:2\na:3\n\n\0" * 3, id="repeats in one layout"),
        pytest.param(b"MESSAGE\nb:2\n\n\0MESSAGE\na:1\nb:2\na:3\n\n\0", id="repeats in a mixture"),
        pytest.param(b"MESSAGE\n\n\0MESSAGE\nack:a\\cb\n\n\0" * 2, id="absent, or escaped"),
        pytest.param(b"MESSAGE\n\n\0MESSAGE\ndestination:a\\cb\n\n\0" * 2, id="a null column, or escaped"),
        pytest.param(b"MESSAGE\nx\\cy:2\n\n\0MESSAGE\nx:1\n\n\0", id="an escaped name in a mixture"),
        pytest.param(b"MESSAGE\nab:1\n\n\0MESSAGE\na:b1\n\n\0", id="names that begin alike"),
        pytest.param(
            b"MESSAGE\nabc:\n\n\0MESSAGE\na:\n\nabc:\n\0", id="a shorter line, and a body like headers"
        ),
    ],
)
def test_arrow_decode_equals_the_frame_decoder_on_chosen_cases(version: str, stream: bytes) -> None:
    check(stream, version)
