"""The receivers of one query, what they hold, and the exchange in front (``receiverPlacement=driver``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from spark_stomp.errors import OptionError
from spark_stomp.exchange import ExchangeAddress, ExchangeServer, RangeTicket, exchange_host, new_token
from spark_stomp.framebatch import FrameBatch
from spark_stomp.journal import JournalSettings, open_journal
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import DedupIndex, Receiver, ReceiverSettings, ReceiverStatus
from spark_stomp.receiver.dedup import MAX_REMEMBERED
from spark_stomp.source.holdings import Backlog, JournalBacklog, MemoryBacklog
from spark_stomp.source.journal_recovery import recover
from spark_stomp.source.offsets import Offset

__all__ = ["ReceiverGroup", "receiver_settings"]


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
            journaled=options.journal is not None,
        )
        for destination in options.destinations
        for number in range(options.receivers)
    ]


class ReceiverGroup:
    """All receivers of one query in this process. Methods may be called from any thread.

    ``on_served`` is told each range that a task read to its end. With the ``journal`` option the constructor
    opens the journal, and raises a JournalError where that cannot be done.
    """

    def __init__(self, options: SourceOptions, on_served: Callable[[RangeTicket], None]) -> None:
        self.changed = threading.Condition()
        self._book = DedupIndex(journaled=options.journal is not None)
        self._receivers: dict[str, Receiver] = {}
        self.holdings: Backlog = self._windows(options) if options.journal is None else self._journal(options)
        with ExitStack() as undo:
            undo.callback(self.holdings.stop, 0.0)
            self._exchange = _exchange(options.exchange_host, self.holdings.read, self._counters, on_served)
            undo.pop_all()

    def _windows(self, options: SourceOptions) -> MemoryBacklog:
        for settings in receiver_settings(options):
            self._receivers[settings.name] = Receiver(settings, self.changed, self._book)
        return MemoryBacklog(self._receivers, self._book, tolerant=not options.fail_on_data_loss)

    def _journal(self, options: SourceOptions) -> JournalBacklog:
        assert options.journal is not None
        wanted = JournalSettings(
            options.journal,
            options.journal_max_bytes,
            max_remembered=MAX_REMEMBERED,
            tolerant=not options.fail_on_data_loss,
        )
        with ExitStack() as undo:
            journal = open_journal(wanted)
            undo.callback(journal.close)
            holdings = JournalBacklog(
                journal,
                recover(journal, self._book, options.id_header, most=wanted.max_remembered),
                self._book,
                self._receivers,
                settings=wanted,
                ack_when_durable=options.ack_after == "journal",
                changed=self._notify,
            )
            undo.pop_all()
        for settings in receiver_settings(options):
            self._receivers[settings.name] = Receiver(
                settings, self.changed, self._book, journal.batches, holdings.wake
            )
        return holdings

    @property
    def address(self) -> ExchangeAddress:
        """Where tasks fetch ranges."""
        return self._exchange.address

    @property
    def epochs(self) -> frozenset[str]:
        """The epochs whose frames are held here."""
        return self.holdings.epochs

    def start(self) -> None:
        self.holdings.start()
        for receiver in self._receivers.values():
            receiver.start()

    def statuses(self) -> list[ReceiverStatus]:
        return [receiver.status() for receiver in self._receivers.values()]

    def raise_failure(self) -> None:
        """Raise what ended a receiver or the journal, if anything did."""
        failures = [self.holdings.failure, *(status.failure for status in self.statuses())]
        for failure in failures:
            if failure is not None:
                raise failure

    def acknowledge(self, committed: Offset) -> None:
        """ACK and free everything up to ``committed``."""
        if self.holdings.acknowledge(committed):
            # A message may have been delivered once more to another receiver than the one that holds it.
            for receiver in self._receivers.values():
                receiver.wake()

    def acks_confirmed(self) -> bool:
        """Whether the broker confirmed every ACK of what was committed."""
        return not any(status.acks_pending for status in self.statuses())

    def wait_changed(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for news of any receiver."""
        with self.changed:
            self.changed.wait(timeout)

    def _notify(self) -> None:
        for receiver in self._receivers.values():
            receiver.wake()
        with self.changed:
            self.changed.notify_all()

    def stop(self, timeout: float) -> None:
        """Orderly end of all receivers at once, within ``timeout`` seconds, then of the exchange."""
        deadline = time.monotonic() + timeout
        self.holdings.stop(timeout / 2)
        stops = [
            threading.Thread(target=receiver.stop, args=(max(0.0, deadline - time.monotonic()),), daemon=True)
            for receiver in self._receivers.values()
        ]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join(max(0.0, deadline + 1.0 - time.monotonic()))
        self._exchange.close()

    def _counters(self) -> dict[str, Any]:
        figures = {name: _figures(receiver.status()) for name, receiver in self._receivers.items()}
        return figures | self.holdings.figures()


def _figures(status: ReceiverStatus) -> dict[str, int]:
    """The counters of one receiver, as the exchange tells them."""
    return {
        "received": status.received,
        "committed": status.committed,
        "acked": status.acked,
        "reconnects": status.reconnects,
        **asdict(status.counts),
    }


def _exchange(
    host_option: str | None,
    read: Callable[[RangeTicket], Iterator[FrameBatch]],
    counters: Callable[[], dict[str, Any]],
    on_served: Callable[[RangeTicket], None],
) -> ExchangeServer:
    host = exchange_host(host_option)
    try:
        return ExchangeServer(host, new_token(), read, counters, on_served)
    except (OSError, pa.ArrowException) as error:
        raise OptionError(
            f"the exchange cannot listen on {host}: {error}; set exchangeHost to an address of the driver's "
            "machine that the executors can reach"
        ) from error
