"""The cases of tests/data/conformance/frames.json, through the decoder, the scanner and the encoder."""

from __future__ import annotations

import base64
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from support.codec import Outcome, decode, scan, scanned_frames, splits
from support.session import ack, subscribe

from spark_stomp.errors import FrameEncodeError, ProtocolError, RemoteProtocolError
from spark_stomp.protocol import (
    ClientConfig,
    ClientConnection,
    Frame,
    Limits,
    MessageBlock,
    encode_frame,
    unescape,
)
from spark_stomp.protocol.encoder import ack_headers
from spark_stomp.protocol.handshake import best_version, interval, negotiate_heartbeat, parse_heartbeat

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "conformance" / "frames.json").read_text(encoding="utf-8")
)
STRICT = ("1.0", "1.1", "1.2")

DECIDED_OTHERWISE = {
    "go-multi-lenient": "peers of the lenient dialect write no escapes, so C:\\new must stay what it is",
    "php-nul-noise": "the same: the lenient dialect has no escapes",
}
"""Cases with ``normative`` false that this codec decides differently, each with the reason."""


def versions_of(case: dict[str, Any]) -> tuple[str, ...]:
    return STRICT if case["version"] == "any" else (case["version"],)


def of_kind(kind: str) -> list[Any]:
    cases = [case for case in CASES if case["kind"] == kind and case["id"] not in DECIDED_OTHERWISE]
    return [
        pytest.param(case, version, id=f"{case['id']}-{version}")
        for case in cases
        for version in versions_of(case)
    ]


def frame_of(described: dict[str, Any]) -> Frame:
    headers = tuple((name, value) for name, value in described["headers"])
    return Frame(described["command"], headers, base64.b64decode(described["body_b64"]))


def pieces_of(case: dict[str, Any]) -> list[list[bytes]]:
    """Every way in which the case's input is to be fed."""
    ways = [[base64.b64decode(chunk) for chunk in case["chunks_b64"]]] if case.get("chunks_b64") else []
    data = base64.b64decode(case["input_b64"]) if case["input_b64"] else b"".join(ways[0])
    if case.get("every_split") or len(data) < 200:
        return ways + splits(data)
    return [*ways, [data], [data[place : place + 1] for place in range(len(data))]]


def limits_of(case: dict[str, Any]) -> Limits:
    return Limits(**case.get("limits", {}))


def check_outcome(case: dict[str, Any], outcome: Outcome, *, beats: bool) -> None:
    expected = case["expect"] if isinstance(case["expect"], list) else [case["expect"]]
    assert outcome.frames == [frame_of(item) for item in expected if "command" in item]
    assert (outcome.error is not None) == any("error" in item for item in expected)
    if beats and any("heartbeat" in item for item in expected):
        # EOLs that follow each other are one heart-beat.
        assert outcome.beats == sum(beat for beat, _ in groupby("heartbeat" in item for item in expected))


@pytest.mark.parametrize(("case", "version"), of_kind("decode"))
def test_decoder(case: dict[str, Any], version: str) -> None:
    for pieces in pieces_of(case):
        check_outcome(case, decode(version, pieces, limits_of(case)), beats=True)


@pytest.mark.parametrize(("case", "version"), of_kind("decode"))
def test_scanner(case: dict[str, Any], version: str) -> None:
    for pieces in pieces_of(case):
        scanned = scan(version, pieces, limits_of(case))
        check_outcome(case, scanned_frames(version, scanned, limits_of(case)), beats=False)


@pytest.mark.parametrize(("case", "version"), of_kind("encode"))
def test_encoder(case: dict[str, Any], version: str) -> None:
    frame = frame_of(case["frame"])
    if "error" in case["expect"]:
        with pytest.raises(FrameEncodeError):
            encode_frame(frame, version)
    else:
        assert encode_frame(frame, version) == base64.b64decode(case["expect"]["output_b64"])


@pytest.mark.parametrize(("case", "version"), of_kind("heart-beat-header"))
def test_heartbeat_header(case: dict[str, Any], version: str) -> None:
    if "error" in case["expect"]:
        with pytest.raises(RemoteProtocolError):
            parse_heartbeat(case["input"])
    else:
        assert parse_heartbeat(case["input"]) == tuple(case["expect"]["pair"])


@pytest.mark.parametrize(("case", "version"), of_kind("heart-beat-negotiate"))
def test_heartbeat_negotiation(case: dict[str, Any], version: str) -> None:
    client, server = tuple(case["input"]["client"]), tuple(case["input"]["server"])
    assert negotiate_heartbeat(client, server) == (case["expect"]["send_ms"], case["expect"]["receive_ms"])


@pytest.mark.parametrize(("case", "version"), of_kind("heart-beat-max"))
def test_heartbeat_interval(case: dict[str, Any], version: str) -> None:
    assert interval(*case["input"]) == case["expect"]["ms"]


@pytest.mark.parametrize(("case", "version"), of_kind("version-negotiate"))
def test_version_negotiation(case: dict[str, Any], version: str) -> None:
    assert best_version(case["input"]["client"], case["input"]["server"]) == case["expect"]["version"]


def acknowledgement(command: str, message: Frame, version: str) -> Frame:
    """The ACK or NACK that a client sends for ``message``, which came to a subscription of that name."""
    subscription = message.get("subscription") or "0"
    connection = ClientConnection(ClientConfig(accept_versions=(version,), scan=True))
    connection.connect(0.0)
    connection.receive_data(encode_frame(Frame("CONNECTED", (("version", version),)), version), 0.0)
    connection.receive_data(encode_frame(message, version), 0.0)
    connection.next_event()
    subscribe(connection, subscription, "/q", ack="client")
    event = connection.next_event()
    assert isinstance(event, MessageBlock)
    handle = unescape(event.acks[0], version)
    connection.data_to_send()
    if command == "NACK":  # which the client never sends
        data = encode_frame(Frame(command, ack_headers(subscription, handle, version)), version)
    else:
        ack(connection, subscription, handle)
        data = bytes(connection.data_to_send())
    (frame,) = decode(version, [data]).frames
    return frame


@pytest.mark.parametrize(("case", "version"), [*of_kind("ack-for"), *of_kind("nack-for")])
def test_acknowledgement(case: dict[str, Any], version: str) -> None:
    message = Frame("MESSAGE", tuple(case["input"].items()))
    command = case["kind"].removesuffix("-for").upper()
    if "error" in case["expect"]:
        with pytest.raises(ProtocolError):
            acknowledgement(command, message, version)
    else:
        assert acknowledgement(command, message, version) == frame_of(case["expect"])


def test_every_case_runs_or_is_listed() -> None:
    heart_beat = {"heart-beat-header", "heart-beat-negotiate", "heart-beat-max"}
    kinds = {"decode", "encode", "version-negotiate", "ack-for", "nack-for"} | heart_beat
    assert {case["kind"] for case in CASES} == kinds
    optional = {case["id"] for case in CASES if not case["normative"]}
    assert DECIDED_OTHERWISE.keys() <= optional


@pytest.mark.parametrize("identity", DECIDED_OTHERWISE)
def test_what_is_decided_otherwise_is_so(identity: str) -> None:
    """The list must not hide a case that passes, nor one that fails for another reason than the one given."""
    case = next(case for case in CASES if case["id"] == identity)
    outcome = decode("lenient", [base64.b64decode(case["input_b64"])])
    assert outcome.error is None
    expected = [frame_of(item) for item in case["expect"] if "command" in item]
    assert [(frame.command, frame.body) for frame in outcome.frames] == [
        (frame.command, frame.body) for frame in expected
    ]
    assert any("\\c" in text for frame in outcome.frames for header in frame.headers for text in header)
