"""Every case of this folder: outcome, time, memory, and that nothing was ACKed that was not committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from hostile import CASES
from hostile.case import BrokerCase
from hostile.clients import ClientCase

# They wait for DISCONNECT, or send much.
TAKE_SECONDS = {
    "batch read: messages without end",
    "batch read: a MESSAGE byte by byte",
    "reads no ACK",
    "batch read: EOLs without end",
    "sink: reads nothing",
    "sink: never confirms DISCONNECT",
    "frame server: tickets of 64 MiB without a token",
}


def parameter(case: BrokerCase | ClientCase) -> ParameterSet:
    return pytest.param(case, id=case.name, marks=[pytest.mark.soak] if case.name in TAKE_SECONDS else [])


@pytest.mark.parametrize("case", [parameter(case) for case in CASES])
def test_a_hostile_peer(case: BrokerCase | ClientCase) -> None:
    assert case.run().faults == []


@pytest.mark.soak
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.may_wait])
def test_for_as_long_as_by_default(case: BrokerCase) -> None:
    """What a peer can make us hold does not grow with the time that it has."""
    options = {**case.options, "connectTimeout": "10s"}
    assert replace(case, options=options, within=10.5).run().faults == []


def test_the_table_of_hostile_peers_has_every_case() -> None:
    page = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    shown = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    assert shown == ["case", *(case.name for case in CASES)]
