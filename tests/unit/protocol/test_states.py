from __future__ import annotations

import pytest

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.protocol.states import BEAT, CLIENT_TABLE, EOF, SERVER_TABLE, Machine, State


def test_takes_steps_of_both_sides() -> None:
    machine = Machine(SERVER_TABLE)
    machine.remote("CONNECT")
    machine.local("CONNECTED")
    assert machine.state is State.CONNECTED


def test_our_own_forbidden_step_changes_nothing() -> None:
    machine = Machine(CLIENT_TABLE)
    for refused in (machine.check, machine.local):
        with pytest.raises(LocalProtocolError, match="SEND is not allowed in state 'idle'"):
            refused("SEND")
    assert machine.state is State.IDLE


@pytest.mark.parametrize(("step", "name"), [("SEND", "SEND"), (BEAT, "heart-beat"), (EOF, "end of input")])
def test_the_peers_forbidden_step_is_fatal(step: str, name: str) -> None:
    machine = Machine(SERVER_TABLE, State.FAILED)
    with pytest.raises(RemoteProtocolError, match=f"{name} from the peer is not allowed in state 'failed'"):
        machine.remote(step)
    assert machine.state is State.FAILED
