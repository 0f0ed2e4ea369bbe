"""Every state x every input of both session tables, and that whatever comes has an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.session import ack, events, send, subscribe

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.protocol import ClientConfig, ClientConnection, ServerConfig, ServerConnection, SessionState
from spark_stomp.protocol.session import (
    BEAT,
    CLIENT_TABLE,
    DISCONNECT_RECEIPT,
    EOF,
    SERVER_TABLE,
    Machine,
)

S = SessionState


@dataclass(frozen=True)
class Side:
    """One end of a session: its table, its inputs as calls and as bytes, and once more by hand (STOMP 1.2)
    which of them are legal where, and where the end of input leads (``ends``; from other states nowhere)."""

    table: Mapping[S, Mapping[str, S]]
    made: Callable[[S], Any]
    local: Mapping[str, Callable[[Any], object]]
    wire: Mapping[str, bytes]
    legal: Mapping[S, set[str]]
    unread: set[S]
    refusal: bytes
    ends: Mapping[S, S]


# By hand, too: the inputs that change the state. All others leave it as it is.
LEADS = {
    **dict.fromkeys(("CONNECT", "STOMP"), S.CONNECTING),
    "CONNECTED": S.CONNECTED,
    "DISCONNECT": S.DISCONNECTING,
    "ERROR": S.FAILED,
    DISCONNECT_RECEIPT: S.CLOSED,
}


def after(state: S, step: str) -> S:
    return state if state is S.FAILED else LEADS.get(step, state)


def feed(connection: ClientConnection | ServerConnection, data: bytes | None) -> int:
    """Feed bytes (None: the end of them); how many events came."""
    if data is None:
        connection.receive_eof(1.0)
    else:
        connection.receive_data(data, 1.0)
    return len(events(connection))


def client_in(state: S) -> ClientConnection:
    """From CONNECTED on with what the inputs refer to: a subscription, a receipt."""
    connection = ClientConnection(ClientConfig())
    if state is not S.IDLE:
        connection.connect(0.0)
    if state not in (S.IDLE, S.CONNECTING):
        feed(connection, CLIENT.wire["CONNECTED"])
        subscribe(connection, "held", "/q")
        send(connection, "/q", b"", receipt="asked")
    if state in (S.DISCONNECTING, S.CLOSED):
        connection.request("DISCONNECT", receipt="bye")
    if state is S.CLOSED:
        feed(connection, CLIENT.wire[DISCONNECT_RECEIPT])
    if state is S.FAILED:
        feed(connection, CLIENT.wire["ERROR"])
    return connection


def server_in(state: S) -> ServerConnection:
    connection = ServerConnection(ServerConfig())
    if state is not S.IDLE:
        feed(connection, SERVER.wire["CONNECT"])
    if state in (S.CONNECTED, S.DISCONNECTING):
        connection.accept(0.0, session="s")
    if state is S.DISCONNECTING:
        feed(connection, SERVER.wire["DISCONNECT"])
    if state is S.CLOSED:
        feed(connection, None)
    if state is S.FAILED:
        connection.error("no")
    return connection


IN_SESSION = ("SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "DISCONNECT")
REQUESTS = {
    "SEND": b"SEND\ndestination:/q\n\n\0",
    "SUBSCRIBE": b"SUBSCRIBE\nid:0\ndestination:/q\n\n\0",
    **{name: b"%b\nid:0\n\n\0" % name.encode() for name in ("UNSUBSCRIBE", "ACK", "NACK")},
    **{name: b"%b\ntransaction:t\n\n\0" % name.encode() for name in ("BEGIN", "COMMIT", "ABORT")},
}
CLIENT = Side(
    CLIENT_TABLE,
    client_in,
    local={
        "CONNECT": lambda c: c.connect(0.0),
        "SEND": lambda c: send(c, "/q", b"x"),
        "SUBSCRIBE": lambda c: subscribe(c, "new", "/q"),
        "UNSUBSCRIBE": lambda c: c.request("UNSUBSCRIBE", [("id", "held")]),
        "ACK": lambda c: ack(c, "held", "m"),
        "DISCONNECT": lambda c: c.request("DISCONNECT", receipt="bye"),
    },
    wire={
        "CONNECTED": b"CONNECTED\nversion:1.2\n\n\0",
        "MESSAGE": b"MESSAGE\nmessage-id:m\nsubscription:held\ndestination:/q\n\n\0",
        "RECEIPT": b"RECEIPT\nreceipt-id:asked\n\n\0",
        DISCONNECT_RECEIPT: b"RECEIPT\nreceipt-id:bye\n\n\0",
        "ERROR": b"ERROR\nmessage:no\n\n\0",
        BEAT: b"\n",
    },
    legal={
        S.IDLE: {"CONNECT"},
        S.CONNECTING: {"CONNECTED", "ERROR", BEAT},
        S.CONNECTED: {*IN_SESSION, "MESSAGE", "RECEIPT", "ERROR", BEAT},
        S.DISCONNECTING: {"MESSAGE", "RECEIPT", DISCONNECT_RECEIPT, "ERROR", BEAT},
        S.CLOSED: set(),
        S.FAILED: set(),
    },
    unread={S.CLOSED, S.FAILED},
    refusal=b"",
    ends={S.IDLE: S.FAILED, S.CONNECTING: S.FAILED, S.CONNECTED: S.FAILED, S.DISCONNECTING: S.CLOSED},
)
SERVER = Side(
    SERVER_TABLE,
    server_in,
    local={
        "CONNECTED": lambda s: s.accept(0.0, session="s"),
        "MESSAGE": lambda s: s.message_raw(b"MESSAGE\nmessage-id:m\n\n\0"),
        "RECEIPT": lambda s: s.receipt("r"),
        "ERROR": lambda s: s.error("no"),
    },
    wire={
        "CONNECT": b"CONNECT\naccept-version:1.2\nhost:/\n\n\0",
        "STOMP": b"STOMP\naccept-version:1.2\nhost:/\n\n\0",
        **REQUESTS,
        "DISCONNECT": b"DISCONNECT\n\n\0",
        BEAT: b"\n",
    },
    legal={
        S.IDLE: {"CONNECT", "STOMP", "ERROR", BEAT},
        S.CONNECTING: {"CONNECTED", "ERROR"},
        S.CONNECTED: {*REQUESTS, "DISCONNECT", "MESSAGE", "RECEIPT", "ERROR", BEAT},
        S.DISCONNECTING: {"RECEIPT", "ERROR", BEAT},
        S.CLOSED: set(),
        S.FAILED: set(),
    },
    unread={S.CONNECTING, S.CLOSED, S.FAILED},
    refusal=b"ERROR\n",
    ends=dict.fromkeys((S.IDLE, S.CONNECTING, S.CONNECTED, S.DISCONNECTING), S.CLOSED),
)


@pytest.mark.parametrize("state", SessionState)
@pytest.mark.parametrize("side", [CLIENT, SERVER], ids=["client", "server"])
class TestEveryState:
    @staticmethod
    def made(side: Side, state: S) -> Any:
        connection = side.made(state)
        assert connection.state is state
        connection.data_to_send()
        return connection

    def test_local(self, side: Side, state: S) -> None:
        for step, act in side.local.items():
            connection = self.made(side, state)
            if step in side.legal[state]:
                act(connection)
                assert connection.data_to_send().partition(b"\n")[0] == step.encode()
                assert connection.state is after(state, step)
            else:
                with pytest.raises(LocalProtocolError):
                    act(connection)
                assert (connection.data_to_send(), connection.state) == (b"", state)

    def test_remote(self, side: Side, state: S) -> None:
        for step, data in side.wire.items():
            connection = self.made(side, state)
            if state in side.unread:
                assert (feed(connection, data), connection.state) == (0, state)
            elif step in side.legal[state]:
                assert (feed(connection, data), connection.state) == (1, after(state, step))
            else:
                with pytest.raises(RemoteProtocolError):
                    feed(connection, data)
                assert connection.state is S.FAILED
                assert connection.data_to_send().startswith(side.refusal)

    def test_the_end_of_input(self, side: Side, state: S) -> None:
        connection = self.made(side, state)
        assert feed(connection, None) == (state in side.ends)
        assert connection.state is side.ends.get(state, state)

    def test_a_machine_does_what_its_table_says_and_nothing_else(self, side: Side, state: S) -> None:
        for step in (*CLIENT.local, *CLIENT.wire, *SERVER.local, EOF):
            ours, peers = Machine(side.table), Machine(side.table)
            ours._enter(state)
            peers._enter(state)
            if step in side.table[state]:
                ours.local(step)
                peers.remote(step)
                assert ours.state is peers.state is side.table[state][step]
            else:
                with pytest.raises(LocalProtocolError, match=f"{step} is not allowed in state"):
                    ours.local(step)
                with pytest.raises(RemoteProtocolError, match=f"{step} from the peer is not allowed"):
                    peers.remote(step)


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_table_has_a_row_for_every_state_and_only_known_inputs(side: Side) -> None:
    assert set(side.table) == set(SessionState)
    assert {step for row in side.table.values() for step in row} == {*side.local, *side.wire, EOF}


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([*CLIENT.wire.values()])), max_size=8),
    st.booleans(),
)
def test_whatever_comes_is_an_event_or_the_peers_fault(pieces: list[bytes], scan: bool) -> None:
    connection = ClientConnection(ClientConfig(scan=scan))
    connection.connect(0.0)
    try:
        for piece in pieces:
            feed(connection, piece)
        feed(connection, None)
    except RemoteProtocolError:
        assert connection.state is S.FAILED
    else:
        assert connection.state in (S.CLOSED, S.FAILED)
