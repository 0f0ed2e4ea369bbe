"""The frame server, beside the receivers: a thread for each task that is connected, and where it listens.

It listens on loopback if the master is local, else on an address of the network. Spark does not tell a source
its master. But the reader process is a child of the JVM, and the JVM's command line names the master that
``spark-submit``, ``pyspark`` or a Python program asked for.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from spark_stomp.deadline import Deadline
from spark_stomp.errors import OptionError, StompError
from spark_stomp.frame_batch import FrameBatch, grouped
from spark_stomp.frameserver.wire import (
    IDLE,
    REPORT,
    FrameServerAddress,
    KeyPair,
    RangeTicket,
    end_of_answer,
    new_key_pair,
    new_token,
    prepare,
    tls_context,
    to_wire,
)
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.options.endpoint import is_loopback
from spark_stomp.threads import Worker
from spark_stomp.transport.addresses import look_up

log = get_log(__name__)

# Seconds between two bytes of a handshake or a first request.
_HANDSHAKE = 10.0
# Bytes of the largest request: a report of many destinations.
_MOST_OCTETS = 1 << 20
# Seconds to wait for a port that is in use: the last run of the query may be about to close.
_LAST_RUN = 10.0
# Seconds for which a name of this machine is looked up: a name server that is away may take 5 before the next
# one is asked.
_LOOK_UP = 15.0
# Seconds between two attempts to listen.
_LISTEN_POLL = 0.1

ReadRange = Callable[[RangeTicket], Iterator[FrameBatch]]
TakeReport = Callable[[str, str, str, str, int], None]


def _ignore(kind: str, destination: str, dialect: str, reason: str, count: int) -> None:
    """Take no reports."""


def open_frame_server(
    options: SourceOptions, read_range: ReadRange, take_report: TakeReport = _ignore
) -> FrameServer:
    """The frame server of one run, with a new token. Raises OptionError if it cannot listen."""
    host, port = frame_server_host(options.frame_server_host), options.frame_server_port or 0
    address = FrameServerAddress(host, port, new_token(), _key_pair(options, host))
    try:
        return FrameServer(address, read_range, take_report, _LAST_RUN)
    except OSError as error:
        raise OptionError(_problem(host, port, error)) from error


def _key_pair(options: SourceOptions, host: str) -> KeyPair | None:
    if options.frame_server_tls == "true" or (options.frame_server_tls == "auto" and not is_loopback(host)):
        return new_key_pair()
    if not is_loopback(host):
        log.warning(
            "frameServerTls = false: messages go over the network from %s to the tasks as plain text", host
        )
    return None


def _problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"frameServerPort = {port} is in use on {host}, by another program or query. Sources that are "
            "read at the same time need different ports. Without frameServerPort each takes a free one"
        )
    return (
        f"the frame server cannot listen on {host}, {f'port {port}' if port else 'any port'}: {error}. Set "
        "frameServerHost to an address of the driver's machine that the executors can reach"
    )


class FrameServer:
    """Sends the frames of a range to every client that presents the token.

    It listens on ``address``. Port 0 means any free port; :attr:`address` has the port that was taken. If
    ``address`` has a key pair, a client must present the same one. ``read_range`` returns the frames of a
    ticket, or raises an error, whose text reaches the task. ``take_report`` is given what tasks report, in
    any thread: kind, destination, dialect and how many messages. ``patience`` is for how many seconds a port
    that is in use is waited for. Raises OSError if it cannot listen.
    """

    def __init__(
        self,
        address: FrameServerAddress,
        read_range: ReadRange,
        take_report: TakeReport = _ignore,
        patience: float = 0.0,
    ) -> None:
        self._lock = threading.Lock()
        self._unread: set[RangeTicket] = set()
        self._read_at: float | None = None
        self._read_range = read_range
        self._take_report = take_report
        pair = address.key_pair
        self._tls = None if pair is None else tls_context(pair, ssl.PROTOCOL_TLS_SERVER)
        self._token = f"{address.token} ".encode()
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self._listener = listening(address.host, address.port, patience)
        self.address = replace(address, port=self._listener.getsockname()[1])
        # Nobody waits for an answer that cannot come.
        Worker("stomp-frame-server", self._accept, ended=self.close).start()

    def expect(self, tickets: Iterable[RangeTicket]) -> None:
        """Expect ``tickets`` from now on: :attr:`read_at` becomes None until all of them have been read."""
        with self._lock:
            self._unread, self._read_at = set(tickets), None

    @property
    def read_at(self) -> float | None:
        """The monotonic time at which all expected tickets had been read to their ends; None before that."""
        return self._read_at

    def _served(self, ticket: RangeTicket) -> None:
        with self._lock:
            self._unread.discard(ticket)
            if not self._unread and self._read_at is None:
                self._read_at = time.monotonic()

    def close(self) -> None:
        """Stop serving, at once. A task that is being served fails."""
        with self._lock:
            self._closed = True
            ends = [self._listener, *self._sockets]
        for end in ends:
            with suppress(OSError):
                # Not that of SSLSocket: a thread that sends would go on in plain text.
                socket.socket.shutdown(end, socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while self._listener.fileno() >= 0:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                time.sleep(_LISTEN_POLL)  # closed; or no descriptor is left
                continue
            try:
                Worker("stomp-frames", partial(self._serve, accepted)).start()
            except RuntimeError:
                accepted.close()  # no thread is left

    def _serve(self, accepted: socket.socket) -> None:
        """Answer the requests of a connection."""
        end = accepted
        try:
            prepare(end)
            end.settimeout(_HANDSHAKE)
            if self._tls is not None:
                end = self._tls.wrap_socket(end, server_side=True, do_handshake_on_connect=False)
            with self._lock:
                if self._closed:
                    return
                self._sockets.add(end)
            if isinstance(end, ssl.SSLSocket):
                end.do_handshake()
            with end.makefile("rb") as requests:
                while token := requests.read(len(self._token)):
                    # Compared in constant time, so that nobody can guess the token character by character.
                    if not hmac.compare_digest(token, self._token):
                        end.sendall(end_of_answer("the frame server token is missing or wrong"))
                        break
                    request = requests.readline(_MOST_OCTETS)
                    end.settimeout(None)  # a task may be slow
                    for piece in self._answer(request.removesuffix(b"\n")):
                        end.sendall(piece)
                    end.settimeout(IDLE)
        except OSError as error:
            log.debug("a connection to the frame server ended: %s", error)
        finally:
            with self._lock:
                self._sockets.discard(end)
            end.close()

    def _answer(self, request: bytes) -> Iterator[bytes | memoryview]:
        """The pieces of the answer. Its end says what is wrong, so that a task fails with that text."""
        problem = ""
        try:
            word, _, rest = request.partition(b" ")
            if word == REPORT:
                for kind, destination, dialect, reason, count in json.loads(rest):
                    self._take_report(kind, destination, dialect, reason, count)
            else:
                ticket = RangeTicket.from_bytes(request)
                for batches in grouped(self._read_range(ticket)):
                    yield from to_wire(batches)
                self._served(ticket)
        except StompError as error:
            problem = str(error)
        except Exception as error:
            log.exception("a task cannot be served")
            problem = repr(error)
        yield end_of_answer(problem)


# --- the address

_LOOPBACK = "127.0.0.1"
# Addresses for documentation only (RFC 5737, RFC 3849): outside this machine, and no host has them. IPv4
# comes first, as Spark prefers it.
_ELSEWHERE = {socket.AF_INET: ("192.0.2.1", 9), socket.AF_INET6: ("2001:db8::1", 9)}
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
# The options of spark-submit that take no value.
_FLAGS = frozenset({"--help", "-h", "--supervise", "--usage-error", "--verbose", "-v", "--version"})
# Not "local-cluster[...]", which is for Spark's own tests and runs tasks in other processes.
_LOCAL = re.compile(r"local(\[.*\])?")


def frame_server_host(option: str | None) -> str:
    """The address on which the frame server listens.

    It is the first of these that exists: the option ``frameServerHost``, ``SPARK_LOCAL_IP``, loopback if the
    master is local, the machine's own address, loopback. Spark chooses the addresses of its own services like
    this. So tasks that reach the driver's block manager also reach the frame server. An IPv6 address may be
    in brackets, as in a URL.
    """
    chosen = option or os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen.strip("[]")
    if master_is_local():
        return _LOOPBACK
    found = filter(_reachable, (*_named_addresses(), *_outward_addresses()))
    return min(found, key=lambda one: ip_address(one).version, default=_LOOPBACK)


def _named_addresses() -> Iterator[str]:
    """The addresses of the machine's own name, IPv4 first. Debian gives it 127.0.1.1."""
    name = socket.gethostname()
    try:
        found = look_up(name, None, Deadline.after(_LOOK_UP))
    except OSError as error:
        if isinstance(error, TimeoutError):
            log.warning("%s: %s. If tasks cannot reach the driver, set frameServerHost", name, error)
        return
    for wanted in _ELSEWHERE:
        yield from (str(address[0]) for family, *_, address in found if family == wanted)


def _outward_addresses() -> Iterator[str]:
    """The source addresses of packets that leave this machine, IPv4 first."""
    for family, elsewhere in _ELSEWHERE.items():
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                # Connecting a datagram socket chooses its source address and sends nothing.
                probe.connect(elsewhere)
                yield str(probe.getsockname()[0])
        except OSError:
            continue


def _reachable(address: str) -> bool:
    """Whether other machines may reach this address: neither loopback nor link-local."""
    parsed = ip_address(address)
    return not (parsed.is_loopback or parsed.is_link_local)


def listening(host: str, port: int, patience: float) -> socket.socket:
    """A socket that listens on ``host`` and ``port``. Port 0 means any free port.

    Raises OSError if there is none within ``patience`` seconds.
    """
    family, _, _, _, at = look_up(host, port, Deadline.after(_LOOK_UP))[0]
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    deadline = Deadline.after(patience)
    while True:
        try:
            return socket.create_server(at, family=family, dualstack_ipv6=both)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or deadline.passed:
                raise
        time.sleep(_LISTEN_POLL)


def master_is_local() -> bool:
    """Whether the process that started this one names a local master and no other. Always False off Linux."""
    try:
        raw = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    except OSError:
        return False
    masters = list(_masters(os.fsdecode(raw).split("\0")))
    return bool(masters) and all(_LOCAL.fullmatch(master) for master in masters)


def _masters(command: Sequence[str]) -> Iterator[str]:
    """The masters that a spark-submit command line names. The program's own arguments are ignored."""
    words = iter(command[command.index(_SUBMIT) + 1 :] if _SUBMIT in command else ())
    for word in words:
        if not word.startswith("-"):
            return
        option, given, value = word.partition("=")
        if option in _FLAGS:
            continue
        value = value if given else next(words, "")
        if option == "--master":
            yield value
        elif option in ("--conf", "-c") and value.startswith("spark.master="):
            yield value.partition("=")[2]
