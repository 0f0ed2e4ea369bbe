"""What must hold of the codec on every input: round trips, splits, and one opinion in decoder and scanner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import streams
from support.codec import decode, scan, scan_tolerantly, scanned_frames

from spark_stomp.errors import FrameEncodeError, ProtocolError
from spark_stomp.protocol import Frame, Limits, encode_frame, escape, unescape


@pytest.mark.parametrize("version", streams.STRICT)
class TestRoundTrip:
    @given(st.data())
    def test_decoding_gives_back_what_was_encoded(self, version: str, data: st.DataObject) -> None:
        frames, octets = data.draw(streams.clean_streams(version))
        outcome = decode(version, streams.cut(octets, data.draw(streams.cuts)))
        assert outcome == (frames, 0, None)

    @given(st.data())
    def test_encoding_gives_back_what_was_decoded(self, version: str, data: st.DataObject) -> None:
        """Where it can be encoded at all: that is what a relay does."""
        for frame in decode(version, [data.draw(streams.streams())]).frames:
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


@given(version=streams.versions, data=streams.streams(), limits=streams.limits, cuts=streams.cuts)
def test_no_split_changes_the_events(version: str, data: bytes, limits: Limits, cuts: list[int]) -> None:
    whole = decode(version, [data], limits)
    assert decode(version, streams.cut(data, cuts), limits) == whole
    assert decode(version, streams.cut(data, list(range(len(data)))), limits) == whole


@given(version=streams.versions, data=streams.streams(), limits=streams.limits, cuts=streams.cuts)
def test_the_scanner_is_of_one_opinion_with_the_decoder(
    version: str, data: bytes, limits: Limits, cuts: list[int]
) -> None:
    outcome = decode(version, [data], limits)
    for pieces in ([data], streams.cut(data, cuts), streams.cut(data, list(range(len(data))))):
        scanned = scan(version, pieces, limits)
        # A raw frame may be led by EOLs, which count to no limit when it stands in its stream.
        frames = scanned_frames(version, scanned, limits)
        assert (frames.frames, frames.error) == (outcome.frames, outcome.error)


@given(version=streams.versions, data=streams.streams(), id_header=st.sampled_from(["id", "x:y", "x", "é"]))
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


@given(version=streams.versions, data=st.binary(max_size=300))
def test_noise_gives_events_or_a_declared_error(version: str, data: bytes) -> None:
    outcome = decode(version, [data])
    assert outcome.error is None or issubclass(outcome.error, ProtocolError)
    scanned = scan(version, [data])
    assert scanned.error == outcome.error


@given(version=streams.versions, data=streams.streams(), limits=streams.limits, cuts=streams.cuts)
def test_no_split_changes_what_is_read_over(
    version: str, data: bytes, limits: Limits, cuts: list[int]
) -> None:
    """What a tolerant scanner reads begins with what a strict one reads."""
    whole = scan_tolerantly(version, [data], limits)
    for pieces in (streams.cut(data, cuts), streams.cut(data, list(range(len(data))))):
        assert scan_tolerantly(version, pieces, limits) == whole
    good = decode(version, [data], limits).frames
    assert whole.events[: len(good)] == good


@given(version=streams.versions, data=streams.mixed_messages(), cuts=streams.cuts)
def test_good_and_bad_messages_come_in_order(
    version: str, data: tuple[bytes, list[bytes | None]], cuts: list[int]
) -> None:
    """Each bad one by itself, and every good one, wherever the bad ones stand."""
    octets, messages = data
    found = scan_tolerantly(version, streams.cut(octets, cuts))
    assert found.error is None
    assert [event if isinstance(event, bytes) else None for event in found.events] == messages
