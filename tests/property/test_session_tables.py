"""Every state x every input of both session tables, and random walks through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.session import ack, send, subscribe

from spark_stomp.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from spark_stomp.protocol import (
    NEED_DATA,
    ClientConfig,
    ClientConnection,
    ServerConfig,
    ServerConnection,
    SessionState,
)
from spark_stomp.protocol.session import (
    BEAT,
    CLIENT_TABLE,
    CLOSE,
    DISCONNECT_RECEIPT,
    EOF,
    SERVER_TABLE,
    Machine,
)

S = SessionState


# --- the client: what each input is, in calls and bytes


def _prepare(connection: ClientConnection) -> None:
    """What the inputs below refer to: a subscription, a receipt."""
    subscribe(connection, "held", "/q")
    send(connection, "/q", b"", receipt="asked")


LOCAL: Mapping[str, Callable[[ClientConnection], None]] = {
    "CONNECT": lambda c: c.connect(0.0),
    "SEND": lambda c: send(c, "/q", b"x"),
    "SUBSCRIBE": lambda c: subscribe(c, "new", "/q"),
    "UNSUBSCRIBE": lambda c: c.request("UNSUBSCRIBE", [("id", "held")]),
    "ACK": lambda c: ack(c, "held", "m"),
    "DISCONNECT": lambda c: c.request("DISCONNECT", receipt="bye"),
}
WIRE: Mapping[str, bytes] = {
    "CONNECTED": b"CONNECTED\nversion:1.2\n\n\0",
    "MESSAGE": b"MESSAGE\nmessage-id:m\nsubscription:held\ndestination:/q\n\n\0",
    "RECEIPT": b"RECEIPT\nreceipt-id:asked\n\n\0",
    DISCONNECT_RECEIPT: b"RECEIPT\nreceipt-id:bye\n\n\0",
    "ERROR": b"ERROR\nmessage:no\n\n\0",
    BEAT: b"\n",
}


def client_in(state: SessionState) -> ClientConnection:
    connection = ClientConnection(ClientConfig())
    if state is S.IDLE:
        return connection
    connection.connect(0.0)
    connection.data_to_send()
    if state is S.CONNECTING:
        return connection
    feed_client(connection, WIRE["CONNECTED"])
    _prepare(connection)
    if state in (S.DISCONNECTING, S.CLOSED):
        connection.request("DISCONNECT", receipt="bye")
    if state is S.CLOSED:
        feed_client(connection, WIRE[DISCONNECT_RECEIPT])
    if state is S.FAILED:
        feed_client(connection, WIRE["ERROR"])
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
    S.IDLE: {"CONNECT"},
    S.CONNECTING: set(),
    S.CONNECTED: set(LOCAL) - {"CONNECT"},
    S.DISCONNECTING: set(),
    S.CLOSED: set(),
    S.FAILED: set(),
}
CLIENT_LEADS = {
    (S.CONNECTING, "CONNECTED"): S.CONNECTED,
    (S.CONNECTING, "ERROR"): S.FAILED,
    (S.CONNECTING, BEAT): S.CONNECTING,
    (S.CONNECTED, "MESSAGE"): S.CONNECTED,
    (S.CONNECTED, "RECEIPT"): S.CONNECTED,
    (S.CONNECTED, BEAT): S.CONNECTED,
    (S.CONNECTED, "ERROR"): S.FAILED,
    (S.DISCONNECTING, "MESSAGE"): S.DISCONNECTING,
    (S.DISCONNECTING, "RECEIPT"): S.DISCONNECTING,
    (S.DISCONNECTING, BEAT): S.DISCONNECTING,
    (S.DISCONNECTING, DISCONNECT_RECEIPT): S.CLOSED,
    (S.DISCONNECTING, "ERROR"): S.FAILED,
}


class TestClient:
    @pytest.mark.parametrize("step", LOCAL)
    @pytest.mark.parametrize("state", SessionState)
    def test_local(self, state: SessionState, step: str) -> None:
        connection = client_in(state)
        if step in CLIENT_MAY[state]:
            LOCAL[step](connection)
            assert connection.data_to_send().startswith(step.encode() + b"\n")
            assert connection.state is CLIENT_TABLE[state][step]
        else:
            with pytest.raises(LocalProtocolError):
                LOCAL[step](connection)
            assert connection.data_to_send() == b""
            assert connection.state is state

    @pytest.mark.parametrize("step", WIRE)
    @pytest.mark.parametrize("state", [S.IDLE, S.CONNECTING, S.CONNECTED, S.DISCONNECTING])
    def test_remote(self, state: SessionState, step: str) -> None:
        connection = client_in(state)
        if (state, step) in CLIENT_LEADS:
            assert feed_client(connection, WIRE[step]) == 1
            assert connection.state is CLIENT_LEADS[state, step]
        else:
            with pytest.raises(RemoteProtocolError):
                feed_client(connection, WIRE[step])
            assert connection.state is S.FAILED

    @pytest.mark.parametrize("step", WIRE)
    @pytest.mark.parametrize("state", [S.CLOSED, S.FAILED])
    def test_what_comes_after_the_end_is_not_read(self, state: SessionState, step: str) -> None:
        connection = client_in(state)
        assert feed_client(connection, WIRE[step]) == 0
        assert connection.state is state

    @pytest.mark.parametrize(
        ("state", "after", "told"),
        [
            (S.IDLE, S.FAILED, 1),
            (S.CONNECTING, S.FAILED, 1),
            (S.CONNECTED, S.FAILED, 1),
            (S.DISCONNECTING, S.CLOSED, 1),
            (S.CLOSED, S.CLOSED, 0),
            (S.FAILED, S.FAILED, 0),
        ],
    )
    def test_the_end_of_input(self, state: SessionState, after: SessionState, told: int) -> None:
        connection = client_in(state)
        assert feed_client(connection, None) == told
        assert connection.state is after

    @given(st.lists(st.sampled_from([*LOCAL, *WIRE, EOF]), max_size=12))
    def test_random_walks_follow_the_table(self, steps: list[str]) -> None:
        connection = ClientConnection(ClientConfig())
        for step in steps:
            before = connection.state
            allowed = CLIENT_TABLE[before]
            try:
                if step in LOCAL:
                    LOCAL[step](connection)
                else:
                    feed_client(connection, WIRE.get(step))
            except ProtocolError:
                # Forbidden by the table, or by names: no subscription, no such receipt.
                assert connection.state in (before, S.FAILED)
            else:
                over = before in (S.CLOSED, S.FAILED)
                assert over or connection.state in (allowed.get(step), S.FAILED, S.CLOSED)


# --- the server


SERVER_LOCAL: Mapping[str, Callable[[ServerConnection], None]] = {
    "CONNECTED": lambda s: s.accept(0.0, session="s"),
    "MESSAGE": lambda s: s.message((("message-id", "m"),), b""),
    "RECEIPT": lambda s: s.receipt("r"),
    "ERROR": lambda s: s.error("no"),
    CLOSE: lambda s: s.close(),
}
SERVER_WIRE: Mapping[str, bytes] = {
    "CONNECT": b"CONNECT\naccept-version:1.2\nhost:/\n\n\0",
    "STOMP": b"STOMP\naccept-version:1.2\nhost:/\n\n\0",
    "SEND": b"SEND\ndestination:/q\n\n\0",
    "SUBSCRIBE": b"SUBSCRIBE\nid:0\ndestination:/q\n\n\0",
    "UNSUBSCRIBE": b"UNSUBSCRIBE\nid:0\n\n\0",
    "ACK": b"ACK\nid:0\n\n\0",
    "NACK": b"NACK\nid:0\n\n\0",
    "BEGIN": b"BEGIN\ntransaction:t\n\n\0",
    "COMMIT": b"COMMIT\ntransaction:t\n\n\0",
    "ABORT": b"ABORT\ntransaction:t\n\n\0",
    "DISCONNECT": b"DISCONNECT\n\n\0",
    BEAT: b"\n",
}
SERVER_MAY = {
    S.IDLE: {"ERROR", CLOSE},
    S.CONNECTING: {"CONNECTED", "ERROR", CLOSE},
    S.CONNECTED: {"MESSAGE", "RECEIPT", "ERROR", CLOSE},
    S.DISCONNECTING: {"RECEIPT", "ERROR", CLOSE},
    S.CLOSED: {CLOSE},
    S.FAILED: {CLOSE},
}


def server_in(state: SessionState) -> ServerConnection:
    connection = ServerConnection(ServerConfig())
    if state is not S.IDLE:
        feed_server(connection, SERVER_WIRE["CONNECT"])
    if state in (S.CONNECTED, S.DISCONNECTING):
        connection.accept(0.0, session="s")
    if state is S.DISCONNECTING:
        feed_server(connection, SERVER_WIRE["DISCONNECT"])
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


def server_reads(state: SessionState, step: str) -> bool:
    """Said by hand: CONNECT comes first and once, DISCONNECT last, heart-beats at any time."""
    first = step in ("CONNECT", "STOMP")
    if step == BEAT:
        return True
    return first if state is S.IDLE else state is S.CONNECTED and not first


class TestServer:
    @pytest.mark.parametrize("step", SERVER_LOCAL)
    @pytest.mark.parametrize("state", SessionState)
    def test_local(self, state: SessionState, step: str) -> None:
        connection = server_in(state)
        if step in SERVER_MAY[state]:
            SERVER_LOCAL[step](connection)
            assert connection.state is SERVER_TABLE[state][step]
            assert bool(connection.data_to_send()) is (step != CLOSE)
        else:
            with pytest.raises(LocalProtocolError):
                SERVER_LOCAL[step](connection)
            assert connection.state is state
            assert connection.data_to_send() == b""

    @pytest.mark.parametrize("step", SERVER_WIRE)
    @pytest.mark.parametrize("state", [S.IDLE, S.CONNECTED, S.DISCONNECTING])
    def test_remote(self, state: SessionState, step: str) -> None:
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
    @pytest.mark.parametrize("state", [S.CONNECTING, S.CLOSED, S.FAILED])
    def test_what_is_not_read_now(self, state: SessionState, step: str) -> None:
        connection = server_in(state)
        assert feed_server(connection, SERVER_WIRE[step]) == 0
        assert connection.state is state

    @pytest.mark.parametrize("state", SessionState)
    def test_the_end_of_input(self, state: SessionState) -> None:
        connection = server_in(state)
        over = state in (S.CLOSED, S.FAILED)
        assert feed_server(connection, None) == (not over)
        assert connection.state is (S.FAILED if state is S.FAILED else S.CLOSED)


class TestTables:
    def test_have_a_row_for_every_state_and_only_known_inputs(self) -> None:
        assert set(CLIENT_TABLE) == set(SessionState)
        assert set(SERVER_TABLE) == set(SessionState)
        assert {step for row in CLIENT_TABLE.values() for step in row} == {*LOCAL, *WIRE, EOF}
        assert {step for row in SERVER_TABLE.values() for step in row} == {*SERVER_LOCAL, *SERVER_WIRE, EOF}

    @pytest.mark.parametrize("table", [CLIENT_TABLE, SERVER_TABLE])
    def test_a_machine_does_what_its_table_says_and_nothing_else(
        self, table: Mapping[SessionState, Mapping[str, SessionState]]
    ) -> None:
        for state, row in table.items():
            for step in (*LOCAL, *WIRE, *SERVER_LOCAL, EOF):
                ours, peers = Machine(table), Machine(table)
                ours._enter(state)
                peers._enter(state)
                if step in row:
                    ours.local(step)
                    peers.remote(step)
                    assert ours.state is peers.state is row[step]
                else:
                    with pytest.raises(LocalProtocolError, match=f"{step} is not allowed in state"):
                        ours.local(step)
                    with pytest.raises(RemoteProtocolError, match=f"{step} from the peer is not allowed"):
                        peers.remote(step)
                    assert (ours.state, peers.state) == (state, S.FAILED)


@given(st.data())
def test_any_split_of_what_comes_gives_the_same_events(data: st.DataObject) -> None:
    wire = WIRE["CONNECTED"] + b"\n" + WIRE["MESSAGE"] * 2 + WIRE["RECEIPT"] + WIRE["ERROR"]
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
                send(connection, "/q", b"", receipt="asked")
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
        assert connection.state is S.FAILED
    else:
        assert connection.state in (S.CLOSED, S.FAILED)
