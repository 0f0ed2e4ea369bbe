"""Who gets what from the frame server: bare Flight clients with all, some and none of what it wants."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import FrameServer, FrameServerAddress, RangeTicket, fetch, report
from spark_stomp.frameserver import client as frame_client
from spark_stomp.frameserver.client import NAME, KeyPair, new_key_pair, new_token

FRAME = b"MESSAGE\nmessage-id:1\n\nvery secret\0"
TICKET = RangeTicket("e", 0, 1)
PATIENCE = 20.0

Call = Callable[[flight.FlightClient, flight.FlightCallOptions], Any]


class Serving:
    """Serves one frame, and notes what was asked of it."""

    def __init__(self, key_pair: KeyPair | None) -> None:
        self.asked: list[RangeTicket] = []
        self.told: list[tuple[str, str, str, int]] = []
        self.server = FrameServer(
            FrameServerAddress("127.0.0.1", 0, new_token(), key_pair),
            self.read,
            lambda *report: self.told.append(report),
        )

    @property
    def address(self) -> FrameServerAddress:
        return self.server.address

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        self.asked.append(ticket)
        yield FrameBatch(FRAME, [len(FRAME)], 0, 0, "1.2", "generic")


@pytest.fixture(scope="module")
def ended() -> FrameServerAddress:
    """What an earlier run of the query gave its tasks."""
    earlier = Serving(new_key_pair())
    assert list(fetch(earlier.address, TICKET))
    earlier.server.close()
    return earlier.address


@pytest.fixture
def serving() -> Iterator[Serving]:
    made = Serving(new_key_pair())
    yield made
    made.server.close()


@pytest.fixture
def plain() -> Iterator[Serving]:
    made = Serving(None)
    yield made
    made.server.close()


CALLS: dict[str, Call] = {
    "do_get": lambda client, options: client.do_get(flight.Ticket(TICKET.to_bytes()), options).read_all(),
    "do_action": lambda client, options: list(client.do_action(flight.Action("status", b""), options)),
    "list_actions": lambda client, options: client.list_actions(options),
    "list_flights": lambda client, options: list(client.list_flights(options=options)),
    "do_put": lambda client, options: put(client, options),
    "do_exchange": lambda client, options: exchanged(client, options),
}


def put(client: flight.FlightClient, options: flight.FlightCallOptions) -> None:
    writer, _ = client.do_put(flight.FlightDescriptor.for_path("x"), pa.schema([("x", pa.int64())]), options)
    writer.close()


def exchanged(client: flight.FlightClient, options: flight.FlightCallOptions) -> Any:
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_path("x"), options)
    writer.done_writing()
    return reader.read_chunk()


def bare(
    address: FrameServerAddress, *, root: KeyPair | None, own: KeyPair | None, name: str = NAME
) -> flight.FlightClient:
    """A client that trusts ``root`` and presents ``own``; without both it speaks plain text."""
    tls: dict[str, Any] = {}
    if root is not None:
        tls = {"tls_root_certs": root.certificate, "override_hostname": name}
    if own is not None:
        tls |= {"cert_chain": own.certificate, "private_key": own.key}
    scheme = "grpc+tls" if tls else "grpc+tcp"
    return flight.connect(f"{scheme}://{address.host}:{address.port}", **tls)


def with_token(token: str | None) -> flight.FlightCallOptions:
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return flight.FlightCallOptions(timeout=PATIENCE, headers=headers)


def test_who_has_the_pair_and_the_token_gets_the_frame(serving: Serving) -> None:
    with bare(serving.address, root=serving.address.key_pair, own=serving.address.key_pair) as client:
        options = with_token(serving.address.token)
        assert CALLS["do_get"](client, options).column("data")[0].as_py() == FRAME


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "client", ["plain text", "no certificate", "foreign key pair", "stolen certificate", "ended run"]
)
def test_whoever_has_not_the_pair_gets_nothing_whatever_token_it_has(
    serving: Serving, ended: FrameServerAddress, client: str, call: Call
) -> None:
    key_pair, foreign = serving.address.key_pair, new_key_pair()
    assert key_pair is not None and ended.key_pair is not None
    trusted, presented = {
        "plain text": (None, None),
        "no certificate": (key_pair, None),
        "foreign key pair": (key_pair, foreign),
        # As anybody sees it who shakes hands with TLS 1.2: without its key.
        "stolen certificate": (key_pair, KeyPair(key_pair.certificate, foreign.key)),
        "ended run": (key_pair, ended.key_pair),
    }[client]
    for token in (serving.address.token, ended.token, None):
        with pytest.raises((flight.FlightUnavailableError, pa.ArrowInvalid)):  # noqa: SIM117 - it is the test
            with bare(serving.address, root=trusted, own=presented) as connected:
                call(connected, with_token(token))
    assert serving.asked == []


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
@pytest.mark.parametrize("token", ["", "ended", "foreign", "basic"])
def test_whoever_has_not_the_token_gets_nothing(
    serving: Serving, plain: Serving, ended: FrameServerAddress, token: str, tls: bool, call: Call
) -> None:
    asked = serving if tls else plain
    presented = {"": None, "ended": ended.token, "foreign": new_token(), "basic": f" {asked.address.token}"}[
        token
    ]
    with (
        bare(asked.address, root=asked.address.key_pair, own=asked.address.key_pair) as client,
        pytest.raises(flight.FlightUnauthenticatedError, match="token is missing or wrong"),
    ):
        call(client, with_token(presented))
    assert asked.asked == []


@pytest.mark.parametrize("call", ["list_actions", "list_flights", "do_put", "do_exchange"])
def test_what_it_does_not_offer_it_does_not_do(serving: Serving, call: str) -> None:
    key_pair = serving.address.key_pair
    with (
        bare(serving.address, root=key_pair, own=key_pair) as client,
        pytest.raises(pa.ArrowNotImplementedError),
    ):
        CALLS[call](client, with_token(serving.address.token))


def test_what_a_task_has_noticed_comes_whole(serving: Serving) -> None:
    reports = [("bodies_lost", "/queue/ä", "artemis", 3), ("bodies_hollow", "", "activemq", 1)]
    report(serving.address, reports)
    assert serving.told == reports


def test_a_report_that_cannot_be_made_fails_no_task(ended: FrameServerAddress) -> None:
    report(ended, [("bodies_lost", "/queue/a", "artemis", 3)])


def test_a_report_that_nobody_answers_holds_no_task_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_client, "_REPORT_TIMEOUT", 0.2)
    released, waited = threading.Event(), list[bool]()
    address = FrameServerAddress("127.0.0.1", 0, new_token(), None)
    server = FrameServer(address, lambda _: iter(()), lambda *_: waited.append(released.wait(PATIENCE)))
    try:
        report(server.address, [("bodies_lost", "/queue/a", "artemis", 3)])
        assert not waited
    finally:
        released.set()
        server.close()


def test_a_report_needs_the_token_and_other_actions_are_none(serving: Serving) -> None:
    key_pair, action = serving.address.key_pair, flight.Action("report", b'[["k", "d", "", 1]]')
    with bare(serving.address, root=key_pair, own=key_pair) as client:
        with pytest.raises(flight.FlightUnauthenticatedError):
            list(client.do_action(action, with_token(new_token())))
        with pytest.raises(pa.ArrowException, match="no action status"):
            CALLS["do_action"](client, with_token(serving.address.token))
    assert serving.told == []


def test_a_task_talks_to_nobody_without_the_key_pair(serving: Serving) -> None:
    # Who takes the port of a frame server that has ended gets neither a token nor a task that trusts it.
    for impostor in (Serving(new_key_pair()), Serving(None)):
        task = replace(impostor.address, key_pair=serving.address.key_pair)
        with pytest.raises(Exception, match="STOMP_FRAME_SERVER_FAILED"):
            list(fetch(task, TICKET))
        assert impostor.asked == []
        impostor.server.close()


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_junk_on_the_port_harms_nobody_else(serving: Serving, plain: Serving, tls: bool) -> None:
    asked = serving if tls else plain
    with socket.create_connection(("127.0.0.1", asked.address.port), PATIENCE) as connection:
        connection.sendall(b"STOMP\naccept-version:1.2\n\n\0" * 100)
        assert FRAME[:7] not in connection.recv(1 << 16)
    assert len(list(fetch(asked.address, TICKET))) == 1


MALFORMED = {
    "nothing": b"",
    "JSON of an earlier release": b'["e", 0, 1]',
    "deep JSON": b"[" * 100_000,
    "Infinity in JSON": b'["e", 0, Infinity]',
    "more than a float": b'["e", 0, 1e400]',
    "wrong types": b'[["e"], "0", true]',
    "infinity": b"e 0 Infinity",
    "negative": b"e -1 1",
    "huge": b"e 0 " + b"9" * 100_000,
    "beyond 64 bits": b"e 0 9999999999999999999",
    "a long id": b"e" * 100_000 + b" 0 1",
    "another encoding": "e 0 1".encode("utf-16"),
    "other digits": "e 0 \u0661".encode(),
    "a line end": b"e 0 1\n",
    "too much": b"e 0 1 2",
    "NUL": b"e\0 0 1",
    "a MiB": b" " * (1 << 20),
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_ticket_is_refused_in_plain_words(
    plain: Serving, raw: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    client = bare(plain.address, root=None, own=None)
    with client, pytest.raises(flight.FlightServerError, match="not a range of frames") as caught:
        client.do_get(flight.Ticket(raw), with_token(plain.address.token)).read_all()
    assert "Traceback" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err
    assert plain.asked == []
