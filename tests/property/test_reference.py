"""The quick ways against a reader that has none (``support.reference``)."""

from __future__ import annotations

from hypothesis import given
from support import reference, streams
from support.codec import decode, scan, scan_tolerantly, scanned_frames

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


@given(version=streams.versions, data=streams.streams(), limits=streams.limits, cuts=streams.cuts)
def test_the_tolerant_scanner_reads_over_what_a_plain_reader_reads_over(
    version: str, data: bytes, limits: Limits, cuts: list[int]
) -> None:
    expected = reference.read_tolerantly(version, data, limits)
    for pieces in ([data], streams.cut(data, cuts), streams.cut(data, list(range(len(data))))):
        assert scan_tolerantly(version, pieces, limits) == expected


@given(version=streams.versions, data=streams.mixed_messages(), cuts=streams.cuts)
def test_good_and_bad_messages_come_in_order(
    version: str, data: tuple[bytes, list[bytes | None]], cuts: list[int]
) -> None:
    """Each bad one by itself, and every good one, wherever the bad ones stand."""
    octets, messages = data
    found = scan_tolerantly(version, streams.cut(octets, cuts))
    assert found.error is None
    assert [event if isinstance(event, bytes) else None for event in found.events] == messages
