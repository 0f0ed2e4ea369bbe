"""8 GiB of messages behind a slow sink: what is held stays within its bounds (contract 5.7)."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from benchmarks.wire_broker import Frames, wire_broker
from support.driven import Run
from support.waiting import wait_until

pytestmark = pytest.mark.soak

MESSAGES = 2_000
BODY = 4 << 20
MIB = 1 << 20
# Beyond the bound: the least that is read at once, and the message that was begun.
MORE = (64 << 10) + BODY + 1_000


@pytest.mark.rule("5.7")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("memory", [64, 256], ids=["small", "default"])
def test_2000_messages_of_4_mib_behind_a_slow_sink(memory: int) -> None:
    most = 0
    over = threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.wait(0.01):
            (one,) = run.counters()
            most = max(most, one["buffered_bytes"])

    bounds = {"maxBufferedBytes": f"{memory}m", "prefetch": MESSAGES}
    begun, batches, rows = time.monotonic(), 0, 0
    with wire_broker(MESSAGES, MESSAGES, Frames(body=BODY)) as port:
        options = {"url": f"stomp://127.0.0.1:{port}", "destination": "/queue/a"}
        with Run(options, ("stable_id",), **bounds) as run:
            run.batch()
            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            while True:
                rows += len(run.read())
                batches += 1
                if rows < MESSAGES:
                    # The sink is so slow that the receiver has no room left.
                    wait_until(
                        lambda rows=rows: (
                            run.status.document["totals"]["paused"]
                            or run.status.document["totals"]["received"] == MESSAGES
                        ),
                        what="a pause",
                    )
                run.commit()
                if rows == MESSAGES:
                    break
                run.batch()
            wait_until(lambda: run.status.document["totals"]["acked"] == MESSAGES, what="the ACKs")
            over.set()
            watcher.join()
            reconnects = run.status.document["totals"]["reconnects"]
    sys.stdout.write(
        f"\n{MESSAGES} x 4 MiB, bound {memory} MiB, {batches} batches in {time.monotonic() - begun:.0f} s: "
        f"most in memory {most / MIB:.1f} MiB\n"
    )
    assert (rows, reconnects) == (MESSAGES, 0)
    assert most <= memory * MIB + MORE
