from __future__ import annotations

import enum

import pytest

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.protocol.states import (
    ClientState,
    Local,
    Machine,
    Remote,
    ServerLocal,
    ServerRemote,
    ServerState,
)


class State(enum.Enum):
    ON = "on"
    OFF = "off"
    BROKEN = "broken"


class Step(enum.Enum):
    PRESS = "press"


class Shock(enum.Enum):
    FALL = "fall"


def machine() -> Machine[State, Step, Shock]:
    table = {State.OFF: {Step.PRESS: State.ON, Shock.FALL: State.OFF}, State.ON: {}, State.BROKEN: {}}
    return Machine(table, State.OFF, State.BROKEN)


def test_takes_allowed_steps() -> None:
    walker = machine()
    walker.remote(Shock.FALL)
    assert walker.state is State.OFF
    walker.local(Step.PRESS)
    assert walker.state is State.ON


def test_our_own_forbidden_step_changes_nothing() -> None:
    walker = machine()
    walker.local(Step.PRESS)
    for refused in (walker.check, walker.local):
        with pytest.raises(LocalProtocolError, match="press is not allowed in state 'on'"):
            refused(Step.PRESS)
    assert walker.state is State.ON


def test_the_peers_forbidden_step_is_fatal() -> None:
    walker = machine()
    walker.local(Step.PRESS)
    with pytest.raises(RemoteProtocolError, match="fall from the peer is not allowed in state 'on'"):
        walker.remote(Shock.FALL)
    assert walker.state is State.BROKEN


def test_fails_when_told_to() -> None:
    walker = machine()
    walker.fail()
    assert walker.state is State.BROKEN


def test_messages_call_frames_and_states_by_their_names() -> None:
    others = {
        Remote.DISCONNECT_RECEIPT: "RECEIPT of DISCONNECT",
        Remote.HEARTBEAT: "heart-beat",
        Remote.EOF: "end of input",
        ServerLocal.ACCEPT: "CONNECTED",
        ServerLocal.CLOSE: "close",
        ServerRemote.HEARTBEAT: "heart-beat",
        ServerRemote.EOF: "end of input",
    }
    for step in (*Local, *Remote, *ServerLocal, *ServerRemote):
        assert step.value == others.get(step, step.name)
    for state in (*ClientState, *ServerState):
        asked = "awaiting CONNECT" if state is ServerState.AWAITING else state.name.lower()
        assert state.value == asked
