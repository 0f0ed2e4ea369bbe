"""What the demonstration says while it goes on: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from spark_stomp.demo.report import progress_line
from spark_stomp.demo.watch import Sample
from spark_stomp.terminal import Line, Rate, Terminal, bar, duration

_TICK: Final = 0.5
_BAR: Final = 20
_FIRST_BATCH: Final = "Waiting for the first batch; Spark starts its workers"


class Progress:
    """Shows what is waited for, and then samples of a demonstration with so many ``rows``."""

    def __init__(self, rows: int, stream: TextIO | None = None) -> None:
        self._rows = rows
        self._terminal = Terminal(stream or sys.stdout)
        self._last: Sample | None = None
        self._begun: float | None = None
        self._rate = Rate()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say what is waited for; in a terminal also for how long."""
        if not self._terminal.interactive:
            self._terminal.write([[(f"{what} ...", "")]])
            yield
            return
        done, begun = threading.Event(), time.monotonic()

        def tick() -> None:
            while True:
                self._terminal.draw_line(_waited(what, time.monotonic() - begun))
                if done.wait(_TICK):
                    return

        thread = threading.Thread(target=tick, name="demo-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self._terminal.end_line(keep=True)

    def show(self, sample: Sample) -> None:
        """How far it is; elsewhere than in a terminal only if something has moved."""
        if self._terminal.interactive:
            self._terminal.draw_line(self._bar(sample))
        elif self._last is None or not sample.same_state(self._last):
            self._terminal.write([[(progress_line(sample, self._last, self._rows), "")]])
        else:
            return
        self._last = sample

    def end(self) -> None:
        """What follows begins on a new line."""
        self._terminal.end_line(keep=True)

    def _bar(self, sample: Sample) -> Line:
        if self._begun is None:
            self._begun = sample.seconds
        elapsed = sample.seconds - self._begun
        rate = self._rate.of(sample.rows, sample.seconds) or 0.0
        if not sample.rows:
            sent = f"   {sample.flights_queue.enqueued:,} flights sent"
            return [*_waited(_FIRST_BATCH, elapsed), (sent, "dim")]
        facts = (
            f"{sample.rows:,} of {self._rows:,}",
            f"{rate:,.0f}/s",
            f"batch {sample.batches}",
            f"un-acked {sample.flights_queue.unacked:,}",
            f"alerts {sample.archived:,}",
        )
        share = sample.rows / self._rows
        return [(bar(share, _BAR), "good"), (f" {share:4.0%}  ", "strong"), ("  ".join(facts), "")]


def _waited(what: str, seconds: float) -> Line:
    return [(f"{what} ... ", ""), (duration(seconds), "dim")]
