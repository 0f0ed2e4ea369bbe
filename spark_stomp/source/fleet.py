"""The receivers of one query and the exchange in front of them (``receiverPlacement=driver``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from spark_stomp.errors import OptionError, RangeUnavailable
from spark_stomp.exchange import ExchangeAddress, ExchangeServer, RangeTicket, exchange_host, new_token
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import FrameRun, KeyBook, Receiver, ReceiverSettings, ReceiverStatus
from spark_stomp.source.offsets import Offset, Position
from spark_stomp.source.planner import Available

__all__ = ["Fleet", "receiver_settings"]


def receiver_settings(options: SourceOptions) -> list[ReceiverSettings]:
    """One entry for each receiver; names say the destination and the number."""
    connections = options.receivers * len(options.destinations)
    return [
        ReceiverSettings(
            name=f"{destination}#{number}",
            connection=options.connection,
            destination=destination,
            prefetch=options.prefetch,
            max_buffered_bytes=options.max_buffered_bytes // connections,
            ack_receipt_timeout=options.ack_receipt_timeout,
            reconnect_timeout=options.reconnect_timeout,
            id_header=options.id_header,
            selector=options.selector,
            subscribe_headers=options.subscribe_headers,
            durable_name=options.durable_name,
            receivers=options.receivers,
            connections=connections,
            allow_loss=options.allow_loss,
        )
        for destination in options.destinations
        for number in range(options.receivers)
    ]


class Fleet:
    """All receivers of one query in this process. Methods may be called from any thread.

    ``on_served`` is told each range that a task read to its end.
    """

    def __init__(self, options: SourceOptions, on_served: Callable[[RangeTicket], None]) -> None:
        self.changed = threading.Condition()
        self._book = KeyBook()
        self._receivers = {
            settings.name: Receiver(settings, self.changed, self._book)
            for settings in receiver_settings(options)
        }
        self._by_epoch = {receiver.epoch: receiver for receiver in self._receivers.values()}
        self._exchange = _exchange(options.exchange_host, self._read, self._counters, on_served)

    @property
    def address(self) -> ExchangeAddress:
        """Where tasks fetch ranges."""
        return self._exchange.address

    @property
    def epochs(self) -> frozenset[str]:
        """The epochs whose frames are held here."""
        return frozenset(self._by_epoch)

    def start(self) -> None:
        for receiver in self._receivers.values():
            receiver.start()

    def statuses(self) -> list[ReceiverStatus]:
        return [receiver.status() for receiver in self._receivers.values()]

    def raise_failure(self) -> None:
        """Raise what ended a receiver, if one ended."""
        for status in self.statuses():
            if status.failure is not None:
                raise status.failure

    def available(self, start: Offset) -> list[Available]:
        """What each receiver holds beyond ``start``."""
        return [_available(name, receiver.status(), start) for name, receiver in self._receivers.items()]

    def offer(self, end: Offset, seen: Sequence[Available]) -> bool:
        """Mark everything up to ``end``, which was chosen from ``seen``, as offered: it is kept from now on.

        False, and nothing is marked, where frames were discarded since ``seen`` was: choose again.
        """
        with self._book.lock:
            if any(self._receivers[one.name].deliveries.discards != one.discards for one in seen):
                return False
            for _, position in end:
                receiver = self._by_epoch.get(position.epoch)
                if receiver is not None:
                    receiver.deliveries.offer(position.sequence)
            return True

    def received(self) -> Offset:
        """The end of everything received so far."""
        statuses = {name: receiver.status() for name, receiver in self._receivers.items()}
        return Offset({n: Position(s.epoch, s.received) for n, s in statuses.items() if s.received})

    def acknowledge(self, committed: Offset) -> None:
        """ACK and free everything up to ``committed``; positions of other epochs concern nobody here."""
        held = [(self._by_epoch.get(position.epoch), position.sequence) for _, position in committed]
        news = [receiver.acknowledge(upto) for receiver, upto in held if receiver is not None]
        if any(news):
            # A message may have been delivered once more to another receiver than the one that holds it.
            for receiver in self._receivers.values():
                receiver.wake()

    def acks_confirmed(self) -> bool:
        """Whether the broker confirmed every ACK of what was committed."""
        return not any(status.acks_pending for status in self.statuses())

    def require_held(self, epoch: str, low: int) -> None:
        """Raise RangeUnavailable where frames from ``low`` on were committed and freed."""
        released = self._by_epoch[epoch].window.released
        if low < released:
            raise RangeUnavailable(
                f"Spark asks again for frames from {low} of epoch {epoch}, but those below {released} were "
                "committed, ACKed and freed"
            )

    def bytes_between(self, name: str, low: int, high: int) -> int:
        return self._receivers[name].window.bytes_between(low, high)

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int:
        return self._receivers[name].window.end_within(low, high, max_bytes)

    def wait_changed(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for news of any receiver."""
        with self.changed:
            self.changed.wait(timeout)

    def stop(self, timeout: float) -> None:
        """Orderly end of all receivers at once, within ``timeout`` seconds, then of the exchange."""
        deadline = time.monotonic() + timeout
        stops = [
            threading.Thread(target=receiver.stop, args=(timeout,), daemon=True)
            for receiver in self._receivers.values()
        ]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join(max(0.0, deadline + 1.0 - time.monotonic()))
        self._exchange.close()

    def _read(self, ticket: RangeTicket) -> Iterator[FrameRun]:
        receiver = self._by_epoch.get(ticket.epoch)
        if receiver is None:
            raise RangeUnavailable(f"no receiver here has the epoch {ticket.epoch}")
        return receiver.runs(ticket.low, ticket.high)

    def _counters(self) -> dict[str, Any]:
        return {name: _figures(receiver.status()) for name, receiver in self._receivers.items()}


def _figures(status: ReceiverStatus) -> dict[str, int]:
    """The counters of one receiver, as the exchange tells them."""
    return {
        "received": status.received,
        "committed": status.committed,
        "acked": status.acked,
        "reconnects": status.reconnects,
        **asdict(status.counts),
    }


def _available(name: str, status: ReceiverStatus, start: Offset) -> Available:
    position = start.get(name)
    offered = position.sequence if position is not None and position.epoch == status.epoch else 0
    return Available(name, status.epoch, offered, status.received, status.window_full, status.discards)


def _exchange(
    host_option: str | None,
    read: Callable[[RangeTicket], Iterator[FrameRun]],
    counters: Callable[[], dict[str, Any]],
    on_served: Callable[[RangeTicket], None],
) -> ExchangeServer:
    host = exchange_host(host_option)
    try:
        return ExchangeServer(host, new_token(), read, counters, on_served)
    except OSError as error:
        raise OptionError(
            f"the exchange cannot listen on {host}: {error}; set exchangeHost to an address of the driver's "
            "machine that the executors can reach"
        ) from error
