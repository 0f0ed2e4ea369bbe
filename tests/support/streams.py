"""Hypothesis strategies for what a STOMP peer may send: well formed, odd and broken, in streams that repeat.

Streams repeat their frames with small changes, because decoder and scanner have a quick way for header
layouts that come back: what is generated must take both ways and cross between them.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from spark_stomp.protocol import VERSIONS, Frame, Limits, encode_frame
from spark_stomp.protocol.grammar import grammar_of

STRICT = ("1.0", "1.1", "1.2")
versions = st.sampled_from(VERSIONS)

header_texts = st.text(
    st.one_of(st.sampled_from("abc:\\\n\r é€"), st.characters(codec="utf-8", exclude_characters="\0")),
    max_size=12,
)
bodies = st.one_of(
    st.binary(max_size=30), st.sampled_from([b"", b"\n\n", b"MESSAGE\n\n", b"\r\n\r\n", b"{}"])
)


@st.composite
def frames_of(draw: st.DrawFn, version: str) -> Frame:
    """A frame that ``version`` can carry."""
    grammar = grammar_of(version)
    command = draw(st.sampled_from(sorted(grammar.sendable)))
    refused = set() if grammar.escapes and command not in grammar.raw else {"\n", "\r"}
    refused |= set() if "\r" in grammar.escapes else {"\r"}
    colon = {":"} if refused >= {"\n"} else set()

    def texts(without: set[str]) -> st.SearchStrategy[str]:
        return header_texts.map(lambda text: "".join(char for char in text if char not in without))

    names = texts(refused | colon).filter(lambda name: name not in ("", "content-length"))
    headers = draw(st.lists(st.tuples(names, texts(refused)), max_size=5))
    body = draw(bodies) if command in grammar.with_body else b""
    if draw(st.booleans()):
        headers.insert(draw(st.integers(0, len(headers))), ("content-length", str(len(body))))
    elif b"\0" in body:
        headers.append(("content-length", str(len(body))))
    return Frame(command, tuple(headers), body)


_NAMES = st.sampled_from(
    [
        b"destination",
        b"message-id",
        b"ack",
        b"content-length",
        b"x",
        b"x\\cy",
        b"X",
        b" pad ",
        b"",
        b"\xc3\xa9",
        b"id",
    ]
)
_VALUES = st.one_of(
    st.sampled_from(
        [
            *(
                b"",
                b"1",
                b"a:b",
                b"\\c",
                b"\\n\\\\",
                b"\\r",
                b"\\t",
                b"\\",
                b"\\\\c",
                b"\\\\\\c",
                b" padded ",
                b"v\r",
            ),
            *(
                b"a\rb",
                b"\xc3\xa9",
                b"\xff",
                b"\xc3",
                b"v\0w",
                b"0",
                b"2",
                b"3",
                b"007",
                b"-1",
                b"+1",
                b"1 ",
                b"x" * 40,
            ),
        ]
    ),
    st.binary(max_size=6),
)
_LINES = st.one_of(
    st.tuples(_NAMES, st.sampled_from([b":", b":", b":", b"", b"::"]), _VALUES).map(b"".join),
    st.tuples(st.just(b"content-length:"), st.integers(0, 12).map(lambda n: str(n).encode())).map(b"".join),
)
_COMMANDS = st.sampled_from(
    [
        *[b"MESSAGE"] * 12,
        b"SEND",
        b"ERROR",
        b"RECEIPT",
        b"CONNECTED",
        b"NACK",
        b"STOMP",
        b"message",
        b"WHAT",
        b"",
    ]
)
_ENDS = st.sampled_from([b"\n"] * 6 + [b"\r\n", b" \n", b"\r\r\n"])
_GAPS = st.sampled_from([b""] * 6 + [b"\n", b"\n\n", b"\r\n", b"\r", b"\0", b" \n", b"?"])


@st.composite
def _rough_frames(draw: st.DrawFn) -> bytes:
    """Something like a frame; mostly well formed."""
    end = draw(_ENDS)
    body = draw(bodies)
    lines = draw(st.lists(_LINES, max_size=4))
    if draw(st.booleans()):
        lines.append(b"content-length:%d" % len(body))
    head = end.join([draw(_COMMANDS), *lines, b"", b""])
    return head + body + draw(st.sampled_from([b"\0"] * 8 + [b"", b"\0\0"]))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """A stream of frames that come back, plain and with an octet changed, with gaps between them."""
    kinds = draw(st.lists(_rough_frames(), min_size=1, max_size=3))
    parts: list[bytes] = []
    for _ in range(draw(st.integers(1, 12))):
        frame = draw(st.sampled_from(kinds))
        if draw(st.integers(0, 5)) == 0 and frame:
            place = draw(st.integers(0, len(frame) - 1))
            frame = frame[:place] + draw(st.binary(max_size=2)) + frame[place + 1 :]
        parts += [frame, draw(_GAPS)]
    return b"".join(parts)


@st.composite
def clean_streams(draw: st.DrawFn, version: str) -> tuple[list[Frame], bytes]:
    """Frames that come back with other values, and their octets."""
    kinds = draw(st.lists(frames_of(version), min_size=1, max_size=3))
    frames = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12))
    return frames, b"".join(encode_frame(frame, version) for frame in frames)


_BAD_LINES = st.sampled_from(
    [b"x:a\0b", b"\0", b"x:\xff", b"no colon", b"x:" + b"y" * 70_000, b"\n".join([b"x:1"] * 1_100)]
)


@st.composite
def mixed_messages(draw: st.DrawFn) -> tuple[bytes, list[bytes | None]]:
    """A stream of MESSAGE frames with declared lengths, good and bad; per frame its octets if it is bad."""
    octets: list[bytes] = []
    messages: list[bytes | None] = []
    for number in range(draw(st.integers(1, 12))):
        body = draw(st.sampled_from([b"", b"body", b"\0", b"\n\nMESSAGE\n\n\0"]))
        bad = draw(st.none() | _BAD_LINES)
        head = b"MESSAGE\ndestination:/q\nmessage-id:%d\n" % number + (b"" if bad is None else bad + b"\n")
        frame = head + b"content-length:%d\n\n" % len(body) + body + b"\0"
        octets += [frame, draw(st.sampled_from([b"", b"\n", b"\n\n"]))]
        messages.append(None if bad is None else frame)
    return b"".join(octets), messages


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """``data`` in pieces, cut at ``places`` (each taken modulo its length)."""
    marks = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in pairwise(marks)]


cuts = st.lists(st.integers(0, 2**16), max_size=12)

limits = st.one_of(
    st.just(Limits()),
    st.builds(
        Limits,
        max_command=st.integers(1, 12),
        max_header_line=st.integers(1, 40),
        max_headers=st.integers(0, 4),
        max_body=st.integers(0, 20),
        max_frame=st.integers(1, 120),
    ),
)
