"""The quick ways against a reader that has none (``support.reference``)."""

from __future__ import annotations

from hypothesis import given
from support import reference, streams
from support.codec import decode, scan, scanned_frames

from spark_stomp.protocol import Limits


@given(version=streams.versions, data=streams.streams(), limits=streams.limits, cuts=streams.cuts)
def test_the_decoder_reads_what_a_plain_reader_reads(
    version: str, data: bytes, limits: Limits, cuts: list[int]
) -> None:
    assert decode(version, streams.cut(data, cuts), limits) == reference.read(version, data, limits)


@given(version=streams.versions, data=streams.streams(), limits=streams.limits, cuts=streams.cuts)
def test_the_scanner_lets_through_what_a_plain_reader_reads(
    version: str, data: bytes, limits: Limits, cuts: list[int]
) -> None:
    expected = reference.read(version, data, limits)
    found = scanned_frames(version, scan(version, streams.cut(data, cuts), limits), limits)
    assert (found.frames, found.error) == (expected.frames, expected.error)
