"""The client of the frame server: how a task fetches its frames."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from spark_stomp.errors import FrameServerError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver.wire import AUTHORIZATION, NAME, FrameServerAddress, RangeTicket, from_record

MOST_CONNECTIONS = 4
"""How many connections a worker keeps, over all queries. A new one takes 2 ms of processor time, 10 ms on a
busy machine, and more with TLS (November 2026). Four is a judgement."""

IDLE = 60.0
"""Seconds after which an unused connection ends. The next read makes a new one. A judgement, not measured."""


def fetch(address: FrameServerAddress, ticket: RangeTicket) -> Iterator[FrameBatch]:
    """Yield the frames of ``ticket``, batch by batch, in order.

    Raises FrameServerError if the frame server cannot be reached, refuses, breaks off, or delivers anything
    but the whole range. A task that got less must fail, or messages without a row would be ACKed.
    """
    expected = ticket.low
    try:
        for batch in _stream(address, ticket):
            if batch.first_number != expected:
                break
            expected += len(batch.ends)
            yield batch
    except pa.ArrowException as error:
        _connections.forget(address)
        raise FrameServerError(
            f"frames [{ticket.low}, {ticket.high}) of log {ticket.log} could not be fetched from "
            f"{address.host_port}: {error}"
        ) from error
    if expected != ticket.high:
        raise FrameServerError(
            f"the frame server at {address.host_port} delivered frames up to {expected} of "
            f"[{ticket.low}, {ticket.high}), log {ticket.log}"
        )


def _stream(address: FrameServerAddress, ticket: RangeTicket) -> Iterator[FrameBatch]:
    options = flight.FlightCallOptions(headers=[(AUTHORIZATION.encode(), f"Bearer {address.token}".encode())])
    client = _connections.to(address)
    for chunk in client.do_get(flight.Ticket(ticket.to_bytes()), options):
        yield from_record(chunk.data)


class _Connections:
    """The connections that this process keeps from task to task. Thread-safe.

    The connection that was used least recently is forgotten first. A read keeps a reference to its client,
    and a connection ends when nothing refers to its client any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[FrameServerAddress, flight.FlightClient] = {}

    def to(self, address: FrameServerAddress) -> flight.FlightClient:
        with self._lock:
            client = self._clients.pop(address, None) or _client(address)
            self._clients[address] = client
            while len(self._clients) > MOST_CONNECTIONS:
                del self._clients[next(iter(self._clients))]
            return client

    def forget(self, address: FrameServerAddress) -> None:
        """Have the next read make a new connection. After a failure gRPC would wait before it tries again."""
        with self._lock:
            self._clients.pop(address, None)

    def leave_to_the_parent(self) -> None:
        """Forget the clients in a forked process without closing them.

        gRPC's threads exist only in the parent. So the clients cannot be used here, and a close would never
        return. Nor may Python close them when this process ends.
        """
        for client in self._clients.values():
            # This reference is never released, so the client is never closed.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        self._lock, self._clients = threading.Lock(), {}


_connections = _Connections()
# A user's code in the same worker may fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_connections.leave_to_the_parent)


def _client(address: FrameServerAddress) -> flight.FlightClient:
    tls: dict[str, Any] = {}
    if address.key_pair is not None:
        tls = {
            "tls_root_certs": address.key_pair.certificate,
            "cert_chain": address.key_pair.certificate,
            "private_key": address.key_pair.key,
            "override_hostname": NAME,
        }
    channel = [
        # Ignore a proxy that the environment names. The frame server is never behind one.
        ("grpc.enable_http_proxy", 0),
        ("grpc.client_idle_timeout_ms", int(IDLE * 1000)),
        # Without this, clients of one address share a connection and its failure.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return flight.connect(address.location, generic_options=channel, **tls)
