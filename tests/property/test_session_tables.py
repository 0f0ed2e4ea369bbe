"""Every state x every input of both session tables, and random walks through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from spark_stomp.protocol import (
    NEED_DATA,
    ClientConfig,
    ClientConnection,
    ClientState,
    ServerConfig,
    ServerConnection,
    ServerState,
)
from spark_stomp.protocol.states import (
    CLIENT_TABLE,
    SERVER_TABLE,
    Local,
    Machine,
    Remote,
    ServerLocal,
    ServerRemote,
)

C = ClientState
S = ServerState


# --- the client: what each input is, in calls and bytes


def _prepare(connection: ClientConnection) -> None:
    """What the inputs below refer to: a subscription, a transaction, a receipt."""
    connection.subscribe("held", "/q")
    connection.begin("open")
    connection.send("/q", b"", receipt="asked")


LOCAL: Mapping[Local, Callable[[ClientConnection], None]] = {
    Local.CONNECT: lambda c: c.connect(0.0),
    Local.SEND: lambda c: c.send("/q", b"x"),
    Local.SUBSCRIBE: lambda c: c.subscribe("new", "/q"),
    Local.UNSUBSCRIBE: lambda c: c.unsubscribe("held"),
    Local.ACK: lambda c: c.ack("held", "m"),
    Local.NACK: lambda c: c.nack("held", "m"),
    Local.BEGIN: lambda c: c.begin("new"),
    Local.COMMIT: lambda c: c.commit("open"),
    Local.ABORT: lambda c: c.abort("open"),
    Local.DISCONNECT: lambda c: c.disconnect("bye"),
}
WIRE: Mapping[Remote, bytes] = {
    Remote.CONNECTED: b"CONNECTED\nversion:1.2\n\n\0",
    Remote.MESSAGE: b"MESSAGE\nmessage-id:m\nsubscription:held\ndestination:/q\n\n\0",
    Remote.RECEIPT: b"RECEIPT\nreceipt-id:asked\n\n\0",
    Remote.DISCONNECT_RECEIPT: b"RECEIPT\nreceipt-id:bye\n\n\0",
    Remote.ERROR: b"ERROR\nmessage:no\n\n\0",
    Remote.HEARTBEAT: b"\n",
}


def client_in(state: ClientState) -> ClientConnection:
    connection = ClientConnection(ClientConfig())
    if state is C.IDLE:
        return connection
    connection.connect(0.0)
    connection.data_to_send()
    if state is C.CONNECTING:
        return connection
    feed_client(connection, WIRE[Remote.CONNECTED])
    _prepare(connection)
    if state in (C.DISCONNECTING, C.CLOSED):
        connection.disconnect("bye")
    if state is C.CLOSED:
        feed_client(connection, WIRE[Remote.DISCONNECT_RECEIPT])
    if state is C.FAILED:
        feed_client(connection, WIRE[Remote.ERROR])
    assert connection.state is state
    connection.data_to_send()
    return connection


def feed_client(connection: ClientConnection, data: bytes | None) -> int:
    """Feed bytes (None: the end of them); how many events came."""
    if data is None:
        connection.receive_eof(1.0)
    else:
        connection.receive_data(data, 1.0)
    count = 0
    while connection.next_event() is not NEED_DATA:
        count += 1
    return count


# Said once more and by hand: what a client may send where, and what it may be sent (STOMP 1.2).
CLIENT_MAY = {
    C.IDLE: {Local.CONNECT},
    C.CONNECTING: set(),
    C.CONNECTED: set(Local) - {Local.CONNECT},
    C.DISCONNECTING: set(),
    C.CLOSED: set(),
    C.FAILED: set(),
}
CLIENT_LEADS = {
    (C.CONNECTING, Remote.CONNECTED): C.CONNECTED,
    (C.CONNECTING, Remote.ERROR): C.FAILED,
    (C.CONNECTING, Remote.HEARTBEAT): C.CONNECTING,
    (C.CONNECTED, Remote.MESSAGE): C.CONNECTED,
    (C.CONNECTED, Remote.RECEIPT): C.CONNECTED,
    (C.CONNECTED, Remote.HEARTBEAT): C.CONNECTED,
    (C.CONNECTED, Remote.ERROR): C.FAILED,
    (C.DISCONNECTING, Remote.MESSAGE): C.DISCONNECTING,
    (C.DISCONNECTING, Remote.RECEIPT): C.DISCONNECTING,
    (C.DISCONNECTING, Remote.HEARTBEAT): C.DISCONNECTING,
    (C.DISCONNECTING, Remote.DISCONNECT_RECEIPT): C.CLOSED,
    (C.DISCONNECTING, Remote.ERROR): C.FAILED,
}


class TestClient:
    @pytest.mark.parametrize("step", Local)
    @pytest.mark.parametrize("state", ClientState)
    def test_local(self, state: ClientState, step: Local) -> None:
        connection = client_in(state)
        if step in CLIENT_MAY[state]:
            LOCAL[step](connection)
            assert connection.data_to_send().startswith(step.value.encode() + b"\n")
            assert connection.state is CLIENT_TABLE[state][step]
        else:
            with pytest.raises(LocalProtocolError):
                LOCAL[step](connection)
            assert connection.data_to_send() == b""
            assert connection.state is state

    @pytest.mark.parametrize("step", WIRE)
    @pytest.mark.parametrize("state", [C.IDLE, C.CONNECTING, C.CONNECTED, C.DISCONNECTING])
    def test_remote(self, state: ClientState, step: Remote) -> None:
        connection = client_in(state)
        if (state, step) in CLIENT_LEADS:
            assert feed_client(connection, WIRE[step]) == 1
            assert connection.state is CLIENT_LEADS[state, step]
        else:
            with pytest.raises(RemoteProtocolError):
                feed_client(connection, WIRE[step])
            assert connection.state is C.FAILED

    @pytest.mark.parametrize("step", WIRE)
    @pytest.mark.parametrize("state", [C.CLOSED, C.FAILED])
    def test_what_comes_after_the_end_is_not_read(self, state: ClientState, step: Remote) -> None:
        connection = client_in(state)
        assert feed_client(connection, WIRE[step]) == 0
        assert connection.state is state

    @pytest.mark.parametrize(
        ("state", "after", "told"),
        [
            (C.IDLE, C.FAILED, 1),
            (C.CONNECTING, C.FAILED, 1),
            (C.CONNECTED, C.FAILED, 1),
            (C.DISCONNECTING, C.CLOSED, 1),
            (C.CLOSED, C.CLOSED, 0),
            (C.FAILED, C.FAILED, 0),
        ],
    )
    def test_the_end_of_input(self, state: ClientState, after: ClientState, told: int) -> None:
        connection = client_in(state)
        assert feed_client(connection, None) == told
        assert connection.state is after

    @given(st.lists(st.sampled_from([*Local, *Remote]), max_size=12))
    def test_random_walks_follow_the_table(self, steps: list[Local | Remote]) -> None:
        connection = ClientConnection(ClientConfig())
        for step in steps:
            before = connection.state
            allowed = CLIENT_TABLE[before]
            try:
                if isinstance(step, Local):
                    LOCAL[step](connection)
                else:
                    feed_client(connection, WIRE.get(step))
            except ProtocolError:
                # Forbidden by the table, or by names: no subscription, no such receipt.
                assert connection.state in (before, C.FAILED)
            else:
                over = before in (C.CLOSED, C.FAILED)
                assert over or connection.state in (allowed.get(step), C.FAILED, C.CLOSED)


# --- the server


SERVER_LOCAL: Mapping[ServerLocal, Callable[[ServerConnection], None]] = {
    ServerLocal.ACCEPT: lambda s: s.accept(0.0, session="s"),
    ServerLocal.MESSAGE: lambda s: s.message((("message-id", "m"),), b""),
    ServerLocal.RECEIPT: lambda s: s.receipt("r"),
    ServerLocal.ERROR: lambda s: s.error("no"),
    ServerLocal.CLOSE: lambda s: s.close(),
}
SERVER_WIRE: Mapping[ServerRemote, bytes] = {
    ServerRemote.CONNECT: b"CONNECT\naccept-version:1.2\nhost:/\n\n\0",
    ServerRemote.STOMP: b"STOMP\naccept-version:1.2\nhost:/\n\n\0",
    ServerRemote.SEND: b"SEND\ndestination:/q\n\n\0",
    ServerRemote.SUBSCRIBE: b"SUBSCRIBE\nid:0\ndestination:/q\n\n\0",
    ServerRemote.UNSUBSCRIBE: b"UNSUBSCRIBE\nid:0\n\n\0",
    ServerRemote.ACK: b"ACK\nid:0\n\n\0",
    ServerRemote.NACK: b"NACK\nid:0\n\n\0",
    ServerRemote.BEGIN: b"BEGIN\ntransaction:t\n\n\0",
    ServerRemote.COMMIT: b"COMMIT\ntransaction:t\n\n\0",
    ServerRemote.ABORT: b"ABORT\ntransaction:t\n\n\0",
    ServerRemote.DISCONNECT: b"DISCONNECT\n\n\0",
    ServerRemote.HEARTBEAT: b"\n",
}
SERVER_MAY = {
    S.AWAITING: {ServerLocal.ERROR, ServerLocal.CLOSE},
    S.NEGOTIATING: {ServerLocal.ACCEPT, ServerLocal.ERROR, ServerLocal.CLOSE},
    S.CONNECTED: {ServerLocal.MESSAGE, ServerLocal.RECEIPT, ServerLocal.ERROR, ServerLocal.CLOSE},
    S.DISCONNECTING: {ServerLocal.RECEIPT, ServerLocal.ERROR, ServerLocal.CLOSE},
    S.CLOSED: {ServerLocal.CLOSE},
    S.FAILED: {ServerLocal.CLOSE},
}


def server_in(state: ServerState) -> ServerConnection:
    connection = ServerConnection(ServerConfig())
    if state is not S.AWAITING:
        feed_server(connection, SERVER_WIRE[ServerRemote.CONNECT])
    if state in (S.CONNECTED, S.DISCONNECTING):
        connection.accept(0.0, session="s")
    if state is S.DISCONNECTING:
        feed_server(connection, SERVER_WIRE[ServerRemote.DISCONNECT])
    if state is S.CLOSED:
        connection.close()
    if state is S.FAILED:
        connection.error("no")
    assert connection.state is state
    connection.data_to_send()
    return connection


def feed_server(connection: ServerConnection, data: bytes | None) -> int:
    if data is None:
        connection.receive_eof(1.0)
    else:
        connection.receive_data(data, 1.0)
    count = 0
    while connection.next_event() is not NEED_DATA:
        count += 1
    return count


def server_reads(state: ServerState, step: ServerRemote) -> bool:
    """Said by hand: CONNECT comes first and once, DISCONNECT last, heart-beats at any time."""
    first = step in (ServerRemote.CONNECT, ServerRemote.STOMP)
    if step is ServerRemote.HEARTBEAT:
        return True
    return first if state is S.AWAITING else state is S.CONNECTED and not first


class TestServer:
    @pytest.mark.parametrize("step", ServerLocal)
    @pytest.mark.parametrize("state", ServerState)
    def test_local(self, state: ServerState, step: ServerLocal) -> None:
        connection = server_in(state)
        if step in SERVER_MAY[state]:
            SERVER_LOCAL[step](connection)
            assert connection.state is SERVER_TABLE[state][step]
            assert bool(connection.data_to_send()) is (step is not ServerLocal.CLOSE)
        else:
            with pytest.raises(LocalProtocolError):
                SERVER_LOCAL[step](connection)
            assert connection.state is state
            assert connection.data_to_send() == b""

    @pytest.mark.parametrize("step", SERVER_WIRE)
    @pytest.mark.parametrize("state", [S.AWAITING, S.CONNECTED, S.DISCONNECTING])
    def test_remote(self, state: ServerState, step: ServerRemote) -> None:
        connection = server_in(state)
        if server_reads(state, step):
            assert feed_server(connection, SERVER_WIRE[step]) == 1
            assert connection.state is SERVER_TABLE[state][step]
        else:
            with pytest.raises(RemoteProtocolError):
                feed_server(connection, SERVER_WIRE[step])
            assert connection.state is S.FAILED
            assert connection.data_to_send().startswith(b"ERROR\n")

    @pytest.mark.parametrize("step", SERVER_WIRE)
    @pytest.mark.parametrize("state", [S.NEGOTIATING, S.CLOSED, S.FAILED])
    def test_what_is_not_read_now(self, state: ServerState, step: ServerRemote) -> None:
        connection = server_in(state)
        assert feed_server(connection, SERVER_WIRE[step]) == 0
        assert connection.state is state

    @pytest.mark.parametrize("state", ServerState)
    def test_the_end_of_input(self, state: ServerState) -> None:
        connection = server_in(state)
        over = state in (S.CLOSED, S.FAILED)
        assert feed_server(connection, None) == (not over)
        assert connection.state is (S.FAILED if state is S.FAILED else S.CLOSED)


class TestTables:
    def test_have_a_row_for_every_state_and_only_known_inputs(self) -> None:
        assert set(CLIENT_TABLE) == set(ClientState)
        assert set(SERVER_TABLE) == set(ServerState)
        assert {step for row in CLIENT_TABLE.values() for step in row} == {*Local, *Remote}
        assert {step for row in SERVER_TABLE.values() for step in row} == {*ServerLocal, *ServerRemote}

    def test_a_machine_does_what_its_table_says_and_nothing_else(self) -> None:
        for state, row in CLIENT_TABLE.items():
            for local in Local:
                machine: Machine[ClientState, Local, Remote] = Machine(CLIENT_TABLE, state, C.FAILED)
                if local in row:
                    machine.local(local)
                    assert machine.state is row[local]
                else:
                    with pytest.raises(LocalProtocolError):
                        machine.local(local)
                    assert machine.state is state
            for remote in Remote:
                machine = Machine(CLIENT_TABLE, state, C.FAILED)
                if remote in row:
                    machine.remote(remote)
                    assert machine.state is row[remote]
                else:
                    with pytest.raises(RemoteProtocolError):
                        machine.remote(remote)
                    assert machine.state is C.FAILED


@given(st.data())
def test_any_split_of_what_comes_gives_the_same_events(data: st.DataObject) -> None:
    wire = (
        WIRE[Remote.CONNECTED] + b"\n" + WIRE[Remote.MESSAGE] * 2 + WIRE[Remote.RECEIPT] + WIRE[Remote.ERROR]
    )
    cuts = sorted(data.draw(st.sets(st.integers(1, len(wire) - 1), max_size=8)))
    pieces = [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert _told(pieces) == _told([wire])


def _told(pieces: list[bytes]) -> list[object]:
    connection = ClientConnection(ClientConfig())
    connection.connect(0.0)
    events: list[object] = []
    for piece in pieces:
        connection.receive_data(piece, 0.0)
        while (event := connection.next_event()) is not NEED_DATA:
            events.append(event)
            if len(events) == 1:
                connection.send("/q", b"", receipt="asked")
    return events


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(list(WIRE.values()))), max_size=8),
    st.booleans(),
)
def test_whatever_comes_is_an_event_or_the_peers_fault(pieces: list[bytes], scan: bool) -> None:
    connection = ClientConnection(ClientConfig(scan=scan))
    connection.connect(0.0)
    try:
        for piece in pieces:
            feed_client(connection, piece)
        feed_client(connection, None)
    except RemoteProtocolError:
        assert connection.state is C.FAILED
    else:
        assert connection.state in (C.CLOSED, C.FAILED)
