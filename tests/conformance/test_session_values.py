"""The cases of frames.json that are about values: heart-beats, version negotiation, what an ACK names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_stomp.errors import ProtocolError
from spark_stomp.protocol import Frame, ack_for, nack_for, negotiate_heartbeat, parse_heartbeat
from spark_stomp.protocol.heartbeat import interval
from spark_stomp.protocol.versions import best_version

FILE = Path(__file__).parents[1] / "data" / "conformance" / "frames.json"


def message_of(case: dict[str, Any]) -> Frame:
    return Frame("MESSAGE", tuple(case["input"].items()))


def described(frame: Frame) -> dict[str, Any]:
    headers = [list(pair) for pair in frame.headers]
    return {"command": frame.command, "headers": headers, "body_b64": frame.body.decode()}


def negotiated(case: dict[str, Any]) -> dict[str, Any]:
    send, receive = negotiate_heartbeat(tuple(case["input"]["client"]), tuple(case["input"]["server"]))
    return {"send_ms": send, "receive_ms": receive}


RESULT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "heart-beat-header": lambda case: {"pair": list(parse_heartbeat(case["input"]))},
    "heart-beat-max": lambda case: {"ms": interval(*case["input"])},
    "heart-beat-negotiate": negotiated,
    "version-negotiate": lambda case: {
        "version": best_version(case["input"]["client"], case["input"]["server"])
    },
    "ack-for": lambda case: described(ack_for(message_of(case), case["version"])),
    "nack-for": lambda case: described(nack_for(message_of(case), case["version"])),
}
CASES = [case for case in json.loads(FILE.read_text(encoding="utf-8")) if case["kind"] in RESULT]


def test_there_are_cases_of_each_kind() -> None:
    assert {case["kind"] for case in CASES} == set(RESULT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    compute = RESULT[case["kind"]]
    if "error" in case["expect"]:
        with pytest.raises(ProtocolError):
            compute(case)
    else:
        assert compute(case) == case["expect"]
