"""How a task gets its frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from spark_stomp.errors import ExchangeError
from spark_stomp.exchange.pair import NAME
from spark_stomp.exchange.wire import AUTHORIZATION, ExchangeAddress, RangeTicket, from_record
from spark_stomp.framebatch import FrameBatch


def fetch(address: ExchangeAddress, ticket: RangeTicket) -> Iterator[FrameBatch]:
    """The frames of ``ticket``, batch by batch, in order.

    Raises ExchangeError if the exchange cannot be reached, refuses, breaks off, or delivers anything but
    the whole range: a task that got less must fail, or its missing messages would be ACKed.
    """
    expected = ticket.low
    try:
        for batch in _stream(address, ticket):
            if batch.first_sequence != expected:
                break
            expected += len(batch.ends)
            yield batch
    except pa.ArrowException as error:
        raise ExchangeError(
            f"frames [{ticket.low}, {ticket.high}) of epoch {ticket.epoch} could not be fetched from "
            f"{address.host}:{address.port}: {error}"
        ) from error
    if expected != ticket.high:
        raise ExchangeError(
            f"the exchange at {address.host}:{address.port} delivered frames up to {expected} of "
            f"[{ticket.low}, {ticket.high}), epoch {ticket.epoch}"
        )


def _stream(address: ExchangeAddress, ticket: RangeTicket) -> Iterator[FrameBatch]:
    options = flight.FlightCallOptions(headers=[(AUTHORIZATION.encode(), f"Bearer {address.token}".encode())])
    with _connected(address) as client:
        for chunk in client.do_get(flight.Ticket(ticket.to_bytes()), options):
            yield from_record(chunk.data)


def _connected(address: ExchangeAddress) -> flight.FlightClient:
    tls: dict[str, Any] = {}
    if address.pair is not None:
        tls = {
            "tls_root_certs": address.pair.certificate,
            "cert_chain": address.pair.certificate,
            "private_key": address.pair.key,
            "override_hostname": NAME,
        }
    # A proxy from the environment is for the outside world; the exchange is never behind it.
    return flight.connect(address.location, generic_options=[("grpc.enable_http_proxy", 0)], **tls)
