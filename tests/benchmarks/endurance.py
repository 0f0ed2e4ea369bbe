"""One query for hours: two brokers, messages of mixed sizes, restarts, cuts and pauses; what grows meanwhile.

    python -m benchmarks.endurance --minutes 360 [--rate 2000] [--folder DIR]

Every ten seconds it notes the memory, the open files and the connections of each process, and how long
messages took. At the end it counts what is missing, and compares the last tenth of the time with the second.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from support.brokers import Artemis, Broker, RabbitMQ
from support.driven import send_messages
from support.drivers import START, application
from support.processes import descendants, stream_readers, task_workers
from support.proxy import FaultProxy, Way
from support.waiting import wait_until

from benchmarks.plots import draw_endurance
from benchmarks.results import describe_machine
from spark_stomp.errors import StompError

APPLICATION = Path(__file__).with_name("enduring.py")
PLOT = Path(__file__).with_name("plots") / "endurance.png"
# Of ten messages, as many have this many bytes.
SIZES = [235] * 7 + [2_048] * 2 + [20_480]
_CHUNK = 0.5  # seconds between two sends
_LOOK = 10.0
# Mean seconds between two faults of a kind.
FAULTS = {"a cut": 150.0, "a pause of 15 s": 400.0, "a restart": 900.0}
_PAUSE = 15.0


class Flood:
    """Sends numbered messages at a steady rate to one queue. The numbers of a flood begin at ``first``."""

    def __init__(self, broker: Broker, queue: str, rate: float, first: int) -> None:
        self._options = broker.options(sendHeaders=json.dumps(broker.crash_safe), reconnectTimeout="1ms")
        self._queue, self._count, self._next = queue, int(rate * _CHUNK), first
        self.confirmed: list[range] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(START)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due = max(due + _CHUNK, time.monotonic() - 10 * _CHUNK)
            numbers = range(self._next, self._next + self._count)
            self._next += self._count
            # What was under way when the broker went away may be in the queue: it is not counted.
            with suppress(StompError):
                send_messages(self._options, ((self._queue, self._body(one), ()) for one in numbers))
                self.confirmed.append(numbers)

    def _body(self, number: int) -> bytes:
        return b"%d %.6f ".ljust(40) % (number, time.time()) + b"x" * SIZES[number % len(SIZES)]


class Faults:
    """Strikes the brokers at random moments."""

    def __init__(self, sides: list[tuple[Broker, FaultProxy]], seed: str) -> None:
        self._sides, self._chance = sides, random.Random(seed)
        self.struck: list[tuple[float, str]] = []
        self._due = {
            name: time.monotonic() + self._chance.expovariate(1 / mean) for name, mean in FAULTS.items()
        }
        self._heal: tuple[float, FaultProxy] | None = None

    def strike(self) -> None:
        """Do what is due now."""
        now = time.monotonic()
        if self._heal is not None and now >= self._heal[0]:
            self._heal[1].heal()
            self._heal = None
        for name, due in self._due.items():
            if now < due or self._heal is not None:
                continue
            self._due[name] = now + self._chance.expovariate(1 / FAULTS[name])
            broker, proxy = self._chance.choice(self._sides)
            self.struck.append((time.time(), f"{name} ({broker.name})"))
            if name == "a cut":
                proxy.cut()
            elif name == "a restart":
                broker.restart()
            else:
                proxy.hold(*Way)
                self._heal = now + _PAUSE, proxy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=360.0)
    parser.add_argument(
        "--rate", type=float, default=2_000.0, help="messages a second of both brokers together"
    )
    parser.add_argument("--folder", type=Path, default=None, help="for all files; a temporary one by default")
    parser.add_argument("--seed", default="1")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        brokers: list[Broker] = [RabbitMQ(folder / "rabbitmq"), Artemis(folder / "artemis")]
        for broker in brokers:
            broker.start()
            stack.callback(broker.stop)
        sides = [(broker, stack.enter_context(FaultProxy(broker.port))) for broker in brokers]
        queues = [broker.new_queue() for broker in brokers]
        checkpoint = str(folder / "checkpoint")
        sources = [
            broker.options(
                url=proxy.url,
                destination=queue,
                checkpointLocation=checkpoint,
                subscribeHeaders=json.dumps(broker.crash_safe),
            )
            for (broker, proxy), queue in zip(sides, queues, strict=True)
        ]
        process = stack.enter_context(application(APPLICATION, folder, str(folder), json.dumps(sources)))
        wait_until(lambda: (folder / "batches.jsonl").exists() or process.poll(), START, "the first batch")
        faults, samples = Faults(sides, given.seed), [sample(process.pid)]
        floods = [
            Flood(broker, queue, given.rate / len(brokers), place << 40)
            for place, (broker, queue) in enumerate(zip(brokers, queues, strict=True))
        ]
        end = time.monotonic() + 60 * given.minutes
        with floods[0], floods[1]:
            while time.monotonic() < end and process.poll() is None:
                faults.strike()
                if time.time() - samples[-1]["at"] >= _LOOK:
                    samples.append(sample(process.pid))
                    _write(folder, samples, faults)
                time.sleep(0.2)
        for _, proxy in sides:
            proxy.heal()
        lived = process.poll() is None
        confirmed = np.concatenate([np.array(part) for flood in floods for part in flood.confirmed])
        with suppress(AssertionError):
            wait_until(lambda: not _missing(folder, confirmed), START, "all messages", every=1.0)
        samples.append(sample(process.pid) if lived else samples[-1])
        _write(folder, samples, faults)
        if lived:
            process.communicate(b"\n", timeout=START)
        print(report(folder, confirmed, lived=lived))
        recorded = json.loads((folder / "samples.json").read_text())
        draw_endurance(recorded, batches_of(folder), describe_machine(), PLOT)


def sample(pid: int) -> dict[str, Any]:
    """Memory (MiB of their own), files, connections and threads of the processes from ``pid`` on, by kind."""
    kinds: defaultdict[str, list[psutil.Process]] = defaultdict(list)
    readers, workers = ({one.pid for one in below(pid)} for below in (stream_readers, task_workers))
    for one in [psutil.Process(pid), *descendants(pid)] if psutil.pid_exists(pid) else []:
        with suppress(psutil.Error):
            name = "readers" if one.pid in readers else "workers" if one.pid in workers else None
            if name is None:
                name = "JVM" if one.name() == "java" else "program" if one.pid == pid else "others"
            kinds[
                name or ("JVM" if one.name() == "java" else "program" if one.pid == pid else "others")
            ].append(one)
    found: dict[str, Any] = {"at": time.time()}
    for kind, processes in kinds.items():
        with suppress(psutil.Error):
            found[kind] = {
                "processes": len(processes),
                "memory": sum(one.memory_full_info().uss for one in processes) / 2**20,
                "files": sum(one.num_fds() for one in processes),
                "connections": sum(len(one.net_connections()) for one in processes),
                "threads": sum(one.num_threads() for one in processes),
            }
    return found


def _write(folder: Path, samples: list[dict[str, Any]], faults: Faults) -> None:
    (folder / "samples.json").write_text(json.dumps({"samples": samples, "faults": faults.struck}))


def batches_of(folder: Path) -> list[dict[str, Any]]:
    """What the query noted of each batch."""
    return [json.loads(line) for line in (folder / "batches.jsonl").read_text().splitlines()]


def _missing(folder: Path, confirmed: np.ndarray) -> int:
    return len(np.setdiff1d(confirmed, np.fromfile(folder / "numbers", np.int64)))


def report(folder: Path, confirmed: np.ndarray, *, lived: bool) -> str:
    """The second tenth of the time beside the last one, and what is missing."""
    return "\n".join(_lines(folder, confirmed, lived=lived))


def _lines(folder: Path, confirmed: np.ndarray, *, lived: bool) -> Iterator[str]:
    recorded = json.loads((folder / "samples.json").read_text())
    samples, batches = recorded["samples"], batches_of(folder)
    read = np.fromfile(folder / "numbers", np.int64)
    hours = (samples[-1]["at"] - samples[0]["at"]) / 3600
    end = "ran to the end" if lived else "ended before"
    yield f"{hours:.2f} hours, {len(recorded['faults'])} faults; the query {end}"
    again = len(read) - len(np.unique(read))
    yield (
        f"{len(confirmed):,} messages confirmed to producers, {_missing(folder, confirmed)} missing, "
        f"{len(read):,} rows, {again:,} of them a second time"
    )
    for kind in sorted({kind for one in samples for kind in one} - {"at"}):
        for key in ("memory", "files", "connections", "threads"):
            early, late = (
                statistics.median(one[kind][key] for one in part if kind in one) for part in _parts(samples)
            )
            yield f"{kind:>8} {key:>11}: {early:8,.0f} -> {late:8,.0f}"
    for key in ("p50", "most", "rows"):
        early, late = (statistics.median(one[key] for one in part if one["rows"]) for part in _parts(batches))
        yield f"a batch's {key}: {early:.3f} -> {late:.3f}"


def _parts(series: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The second tenth of the time, and the last."""
    begin, end = series[0]["at"], series[-1]["at"]
    tenth = (end - begin) / 10
    early = [one for one in series if begin + tenth <= one["at"] < begin + 2 * tenth]
    return early, [one for one in series if one["at"] >= end - tenth]


if __name__ == "__main__":
    with suppress(subprocess.TimeoutExpired):
        main()
