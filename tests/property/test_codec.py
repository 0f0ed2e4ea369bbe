"""What must hold of the codec on every input: round trips, splits, and one opinion in decoder and scanner.

Streams repeat their frames with small changes, because decoder and scanner have a quick way for header
layouts that are repeated: what is generated must take both ways and cross between them.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codec import decode, message_of, owners, scan, scanned_frames

from spark_stomp.errors import FrameEncodeError, ProtocolError
from spark_stomp.protocol import VERSIONS, Frame, Limits, encode_frame, escape, unescape
from spark_stomp.protocol.frames import grammar_of

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


NAMES = st.sampled_from(b"destination|message-id|ack|content-length|x|x\\cy|X| pad ||\xc3\xa9|id".split(b"|"))
VALUES = st.one_of(
    st.sampled_from(b"|1|a:b|\\c|\\n\\\\|\\r|\\t|\\|\\\\c|\\\\\\c| padded |v\r".split(b"|")),
    st.sampled_from([*b"a\rb|\xc3\xa9|\xff|\xc3|v\0w|0|2|3|007|-1|+1|1 ".split(b"|"), b"x" * 40]),
    st.binary(max_size=6),
)
LINES = st.one_of(
    st.tuples(NAMES, st.sampled_from([b":", b":", b":", b"", b"::"]), VALUES).map(b"".join),
    st.tuples(st.just(b"content-length:"), st.integers(0, 12).map(lambda n: str(n).encode())).map(b"".join),
)
COMMANDS = st.sampled_from(
    [b"MESSAGE"] * 12 + b"SEND|ERROR|RECEIPT|CONNECTED|NACK|STOMP|message|WHAT|".split(b"|")
)
ENDS = st.sampled_from([b"\n"] * 6 + [b"\r\n", b" \n", b"\r\r\n"])
GAPS = st.sampled_from([b""] * 6 + [b"\n", b"\n\n", b"\r\n", b"\r", b"\0", b" \n", b"?"])


@st.composite
def rough_frames(draw: st.DrawFn) -> bytes:
    """Something like a frame; mostly well formed."""
    end = draw(ENDS)
    body = draw(bodies)
    lines = draw(st.lists(LINES, max_size=4))
    if draw(st.booleans()):
        lines.append(b"content-length:%d" % len(body))
    head = end.join([draw(COMMANDS), *lines, b"", b""])
    return head + body + draw(st.sampled_from([b"\0"] * 8 + [b"", b"\0\0"]))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """A stream of frames that come back, plain and with an octet changed, with gaps between them."""
    kinds = draw(st.lists(rough_frames(), min_size=1, max_size=3))
    parts: list[bytes] = []
    for _ in range(draw(st.integers(1, 12))):
        frame = draw(st.sampled_from(kinds))
        if draw(st.integers(0, 5)) == 0 and frame:
            place = draw(st.integers(0, len(frame) - 1))
            frame = frame[:place] + draw(st.binary(max_size=2)) + frame[place + 1 :]
        parts += [frame, draw(GAPS)]
    return b"".join(parts)


@st.composite
def clean_streams(draw: st.DrawFn, version: str) -> tuple[list[Frame], bytes]:
    """Frames that come back with other values, and their octets."""
    kinds = draw(st.lists(frames_of(version), min_size=1, max_size=3))
    frames = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12))
    return frames, b"".join(encode_frame(frame, version) for frame in frames)


BAD_LINES = st.sampled_from(
    [b"x\0:b", b"\0", b"\xff:x", b"no colon", b"x:" + b"y" * 70_000, b"\n".join([b"x:1"] * 1_100)]
)


@st.composite
def mixed_messages(draw: st.DrawFn) -> tuple[bytes, list[bytes | None]]:
    """A stream of MESSAGE frames with declared lengths, good and bad; per frame its octets if it is bad."""
    octets: list[bytes] = []
    messages: list[bytes | None] = []
    for number in range(draw(st.integers(1, 12))):
        body = draw(st.sampled_from([b"", b"body", b"\0", b"\n\nMESSAGE\n\n\0"]))
        bad = draw(st.none() | BAD_LINES)
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


@pytest.mark.parametrize("version", STRICT)
class TestRoundTrip:
    @given(st.data())
    def test_decoding_gives_back_what_was_encoded(self, version: str, data: st.DataObject) -> None:
        frames, octets = data.draw(clean_streams(version))
        outcome = decode(version, cut(octets, data.draw(cuts)))
        assert outcome == (frames, 0, None)

    @given(st.data())
    def test_encoding_gives_back_what_was_decoded(self, version: str, data: st.DataObject) -> None:
        """Where it can be encoded at all: that is what a relay does."""
        for frame in decode(version, [data.draw(streams())]).frames:
            try:
                octets = encode_frame(frame, version)
            except FrameEncodeError:
                continue
            assert decode(version, [octets]).frames == [frame] or b"\0" in frame.body

    @given(name=st.text(), value=st.text(), body=st.binary())
    def test_nothing_encoded_is_read_as_something_else(
        self, version: str, name: str, value: str, body: bytes
    ) -> None:
        """Header injection: whatever the texts hold, one frame with this header comes out, or none."""
        for command in ("CONNECT", "SEND", "ACK"):
            try:
                octets = encode_frame(Frame(command, ((name, value),), body), version)
            except FrameEncodeError:
                continue
            outcome = decode(version, [octets])
            assert outcome.error is None and len(outcome.frames) == 1
            assert outcome.frames[0].headers[0] == (name, value)
            assert outcome.frames[0].body == body

    @given(text=st.text())
    def test_escaping_is_undone(self, version: str, text: str) -> None:
        assert unescape(escape(text, version).encode(), version) == text


@given(version=versions, data=streams(), limits=limits, cuts=cuts)
def test_no_split_changes_the_events(version: str, data: bytes, limits: Limits, cuts: list[int]) -> None:
    whole = decode(version, [data], limits)
    assert decode(version, cut(data, cuts), limits) == whole
    assert decode(version, cut(data, list(range(len(data)))), limits) == whole


@given(version=versions, data=streams(), limits=limits, cuts=cuts)
def test_the_scanner_is_of_one_opinion_with_the_decoder(
    version: str, data: bytes, limits: Limits, cuts: list[int]
) -> None:
    outcome = decode(version, [data], limits)
    for pieces in ([data], cut(data, cuts), cut(data, list(range(len(data))))):
        scanned = scan(version, pieces, limits)
        # A raw frame may be led by EOLs, which count to no limit when it stands in its stream.
        frames = scanned_frames(version, scanned, limits)
        assert (frames.frames, frames.error) == (outcome.frames, outcome.error)


@given(version=versions, data=streams(), id_header=st.sampled_from(["id", "x:y", "x", "é"]))
def test_handles_and_ids_are_the_headers_as_sent(version: str, data: bytes, id_header: str) -> None:
    scanned = scan(version, [data], id_header=id_header)
    for event in scanned.events:
        if isinstance(event, Frame):
            continue
        octets, ack, stable = event
        frame = decode(version, [octets]).frames[0]
        handle = frame.get("ack") if version == "1.2" else None
        assert unescape(ack, version) == (frame.get("message-id", "") if handle is None else handle)
        assert (None if stable is None else unescape(stable, version)) == frame.get(id_header)


@given(version=versions, data=st.binary(max_size=300))
def test_noise_gives_events_or_a_declared_error(version: str, data: bytes) -> None:
    outcome = decode(version, [data])
    assert outcome.error is None or issubclass(outcome.error, ProtocolError)
    scanned = scan(version, [data])
    assert scanned.error == outcome.error


@given(version=versions, data=streams(), limits=limits, cuts=cuts)
def test_no_split_changes_what_is_read_over(
    version: str, data: bytes, limits: Limits, cuts: list[int]
) -> None:
    """What a tolerant scanner reads begins with what a strict one reads."""
    whole = scanned_frames(version, scan(version, [data], limits, tolerant=True), limits)
    for pieces in (cut(data, cuts), cut(data, list(range(len(data))))):
        scanned = scan(version, pieces, limits, tolerant=True)
        assert scanned_frames(version, scanned, limits) == whole
    good = decode(version, [data], limits).frames
    assert whole.frames[: len(good)] == good


@given(
    version=st.sampled_from(STRICT),
    kinds=st.lists(
        st.tuples(
            st.sampled_from([b"a", b"b", b"d", None]),
            st.sampled_from([b"", b"body", b"\0", b"x" * 1_500]),
            st.sampled_from([b"x:y", b"x:y", b"z:y", b"\xc3\xa9:y", b"no colon"]),
            st.integers(1, 20),
        ),
        max_size=8,
    ),
    cuts=cuts,
)
def test_no_split_changes_whose_a_message_is(
    version: str, kinds: list[tuple[bytes | None, bytes, bytes, int]], cuts: list[int]
) -> None:
    """Of several subscriptions on one connection."""
    octets = b"".join(message_of(name, body, line) * count for name, body, line, count in kinds)
    expected: list[object] = []
    for name, _, line, count in kinds:
        ours = "d" if name == b"d" else (name,) if line == b"no colon" else name
        expected += [ours] * count
    assert owners(version, [octets], "a", "b") == expected
    assert owners(version, cut(octets, cuts), "a", "b") == expected


@given(version=versions, data=mixed_messages(), cuts=cuts)
def test_good_and_bad_messages_come_in_order(
    version: str, data: tuple[bytes, list[bytes | None]], cuts: list[int]
) -> None:
    """Each bad one by itself, and every good one, wherever the bad ones stand."""
    octets, messages = data
    scanned = scan(version, cut(octets, cuts), tolerant=True)
    found = scanned_frames(version, scanned)
    assert found.error is None
    assert [event if isinstance(event, bytes) else None for event in found.frames] == messages
