"""What an exchange holds for whom it does not know. A ticket is read whole before the token is looked at."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from spark_stomp.exchange import ExchangeAddress
from spark_stomp.exchange.wire import NAME, Pair, new_pair

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells how much memory a process held"
)

TICKET = 64 << 20
SERVER = """
import pickle, sys
from pathlib import Path
from spark_stomp.exchange import ExchangeAddress, ExchangeServer
from spark_stomp.exchange.wire import new_pair

server = ExchangeServer(ExchangeAddress("127.0.0.1", 0, "token", new_pair()), lambda ticket: iter([]))
sys.stdout.buffer.write(pickle.dumps(server.address))
sys.stdout.flush()
for _ in sys.stdin:
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), flush=True)
"""


class Served:
    """An exchange in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.address: ExchangeAddress = pickle.load(self._stdout)

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def peak(self) -> int:
        """The most memory that it held so far, in bytes."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return int(self._stdout.readline()) * 1024

    def grown(self, own: Pair | None, error: Any) -> int:
        """By how many bytes a client that presents ``own``, and no token, makes it grow at the peak."""
        assert self.address.pair is not None
        tls = {"tls_root_certs": self.address.pair.certificate, "override_hostname": NAME}
        if own is not None:
            tls |= {"cert_chain": own.certificate, "private_key": own.key}
        before = self.peak()
        with flight.connect(self.address.location, **tls) as client, pytest.raises(error):
            client.do_get(flight.Ticket(b"x" * TICKET), flight.FlightCallOptions(timeout=60)).read_all()
        return self.peak() - before


@pytest.fixture
def exchange() -> Iterator[Served]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", SERVER], env=path, **pipes) as process:  # type: ignore[call-overload]
        yield Served(process)
        process.kill()


@pytest.mark.parametrize("own", [None, new_pair()], ids=["no certificate", "foreign pair"])
def test_who_is_refused_in_the_handshake_makes_it_hold_nothing(exchange: Served, own: Pair | None) -> None:
    assert exchange.grown(own, (flight.FlightUnavailableError, pa.ArrowInvalid)) < TICKET / 8


def test_only_who_has_the_pair_can_make_it_hold_a_large_ticket(exchange: Served) -> None:
    # Not wanted, but so it is: pyarrow lets nobody bound what gRPC takes. Else the test above could not fail.
    assert exchange.grown(exchange.address.pair, flight.FlightUnauthenticatedError) > TICKET / 2
