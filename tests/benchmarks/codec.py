"""Frames per second of the codec beside stomp.py's parser, on one core, in one run.

Compares, in rounds that take turns so that a busy machine slows all of them alike:

* ``stomp.py``: ``stomp.utils.parse_frame`` on frames that are already cut apart,
* ``decoder``: FrameDecoder, fed in pieces of 1 MiB as the transport reads them,
* ``scanner``: FrameScanner, fed likewise, finding boundaries and what an ACK must name,
* ``with ids``: the same, collecting stable ids too,
* ``arrow``: decode_frames of all default columns, headers map included.

The first table holds what the goals are about: ten headers and a body of 235 octets. The others show long
bodies, bodies that leave the quickest path, layouts that make the Arrow decoder work harder, and that the
cost is linear in the size of the input.

``python -m benchmarks.codec [--rounds N]`` always exits with 0 and says of each goal whether it was
met: what a busy machine measures is no reason to fail a build.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from stomp.utils import parse_frame

from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.framebatch import FrameBatch
from spark_stomp.protocol import NEED_DATA, Frame, FrameDecoder, FrameScanner, Limits, MessageBlock
from spark_stomp.schema import Projection

VERSION = "1.2"
READ = 1 << 20
GOALS = {"decoder": 6.0, "scanner": 18.0, "arrow": 22.0}
COLUMNS = Projection.of()
RULES = RowRules(id_header="message-id", timestamp_unit="ms")
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
LARGE = Limits(max_body=2**31, max_frame=2**31)

out = sys.stdout.write


@dataclass(frozen=True)
class Load:
    """Frames to decode, in the forms that the candidates take."""

    name: str
    frames: list[bytes]
    read: int = READ

    @property
    def stream(self) -> bytes:
        return b"\n".join(self.frames) + b"\n"

    def reads(self) -> list[bytes]:
        stream = self.stream
        return [stream[place : place + self.read] for place in range(0, len(stream), self.read)]

    def block(self) -> FrameBatch:
        ends = np.cumsum([len(frame) + 1 for frame in self.frames]) - 1
        return FrameBatch(self.stream, ends, 0, 0, VERSION, receiver="benchmark")


def frame(number: int, body: bytes, *, dropped: bytes = b"", escaped: bool = False) -> bytes:
    """A MESSAGE with ten headers as a broker sends them; without one of them where ``dropped`` names it."""
    session = b"ID\\cbroker-1\\c" if escaped else b"T_orders@@session-7Hn2kq@@"
    headers = [
        b"subscription:orders",
        b"destination:/queue/orders",
        b"message-id:" + session + b"%d" % number,
        b"ack:T_%d" % number,
        b"redelivered:false",
        b"persistent:true",
        b"priority:4",
        b"timestamp:%d" % (1_700_000_000_000 + number),
        b"content-type:application/json",
        b"content-length:%d" % len(body),
    ]
    lines = [line for line in headers if not dropped or not line.startswith(dropped)]
    return b"MESSAGE\n" + b"\n".join(lines) + b"\n\n" + body + b"\0"


def json_body(size: int) -> bytes:
    return (b'{"carrier":"UA","flight":1545,"origin":"EWR","delay":2},' * (size // 50 + 1))[:size]


def stomp_py(load: Load) -> Callable[[], int]:
    frames = load.frames
    return lambda: sum(parse_frame(raw) is not None for raw in frames)


def decoder(load: Load) -> Callable[[], int]:
    reads = load.reads()

    def run() -> int:
        frames = 0
        parser = FrameDecoder(VERSION, LARGE)
        for data in reads:
            parser.receive_data(data)
            while (event := parser.next_event()) is not NEED_DATA:
                frames += isinstance(event, Frame)
        return frames

    return run


def scanner(load: Load, id_header: str | None = None) -> Callable[[], int]:
    reads = load.reads()

    def run() -> int:
        frames = 0
        parser = FrameScanner(VERSION, LARGE, id_header=id_header)
        for data in reads:
            parser.receive_data(data)
            while (event := parser.next_event()) is not NEED_DATA:
                if isinstance(event, MessageBlock):
                    frames += len(event.ends)
        return frames

    return run


def scanner_with_ids(load: Load) -> Callable[[], int]:
    return scanner(load, "message-id")


def arrow(load: Load) -> Callable[[], int]:
    block = load.block()
    return lambda: decode_frames(block, COLUMNS, RULES).num_rows


CANDIDATES: dict[str, Callable[[Load], Callable[[], int]]] = {
    "stomp.py": stomp_py,
    "decoder": decoder,
    "scanner": scanner,
    "with ids": scanner_with_ids,
    "arrow": arrow,
}


def seconds(run: Callable[[], int], expected: int) -> float:
    """Seconds of processor time of one run, all threads counted."""
    begin = time.process_time()
    frames = run()
    spent = time.process_time() - begin
    if frames != expected:
        raise SystemExit(f"{frames} frames of {expected} were decoded")
    return spent


def measure(load: Load, names: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Seconds per frame of each candidate in each round, after one round that does not count."""
    runs = {name: CANDIDATES[name](load) for name in names}
    count = len(load.frames)
    spent: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            per_frame = seconds(run, count) / count
            if turn:
                spent[name].append(per_frame)
    return spent


def ratio(spent: dict[str, list[float]], name: str) -> float:
    """How many times as fast as stomp.py: the median over the rounds."""
    pairs = zip(spent["stomp.py"], spent[name], strict=True)
    return statistics.median(reference / own for reference, own in pairs)


def report(load: Load, rounds: int, names: Sequence[str] = tuple(CANDIDATES)) -> dict[str, float]:
    """Print the table of one load; the ratios by candidate."""
    spent = measure(load, names, rounds)
    octets = len(load.stream) / len(load.frames)
    out(f"\n{load.name} ({len(load.frames):,} frames of {octets:,.0f} octets)\n")
    for name, times in spent.items():
        median = statistics.median(times)
        rate, volume = 1 / median, octets / median / 1e6
        out(f"  {name:<10}{rate:>14,.0f} frames/s {volume:>10,.1f} MB/s")
        out(f" {ratio(spent, name):>8.1f} x stomp.py\n" if "stomp.py" in spent else "\n")
    return {name: ratio(spent, name) for name in names} if "stomp.py" in spent else {}


def keep_memory() -> None:
    """Have the C library reuse memory of any size, where it is glibc.

    It returns every piece of over 32 MiB to the system, and the pages that it then gets anew cost more than
    all that a decoder does with them: a step at that size that has nothing to do with the codec.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def linearity(rounds: int) -> None:
    """Seconds while the input doubles: many frames, then one frame whose body doubles."""
    keep_memory()
    out("\ncost per octet while the input doubles (1.00 = the smallest; linear cost stays level)\n")
    small = json_body(235)
    many = [
        Load(f"{n:,} frames", [frame(i, small) for i in range(n)]) for n in (5_000, 10_000, 20_000, 40_000)
    ]
    one = [Load(f"a body of {n} MiB", [frame(0, b"x" * n * 2**20)]) for n in (32, 64, 128)]
    for loads in (many, one):
        first: dict[str, float] = {}
        for load in loads:
            size = len(load.stream)
            out(f"  {load.name:<20}")
            for name in GOALS:
                run = CANDIDATES[name](load)
                cost = min(seconds(run, len(load.frames)) for _ in range(rounds)) / size
                out(f"{name:>10} {cost / first.setdefault(name, cost):5.2f}")
            out("\n")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=9, help="measured rounds of each table (default: 9)")
    rounds = arguments.parse_args().rounds
    small, large = json_body(235), json_body(10_240)
    goals = report(Load("10 headers, body of 235 octets", [frame(i, small) for i in range(10_000)]), rounds)
    report(Load("10 headers, body of 10 KiB", [frame(i, large) for i in range(1_000)]), rounds)
    pieces = Load("235 octets in reads of 64 KiB", [frame(i, small) for i in range(10_000)], 64 << 10)
    report(pieces, rounds, ["stomp.py", "decoder", "scanner", "with ids"])
    various = [frame(i, small[: 100 + i * 37 % 135]) for i in range(10_000)]
    report(Load("10 headers, bodies of 100 to 234 octets", various), rounds)
    binary = [frame(i, b"\0" + small[1:]) for i in range(10_000)]
    report(Load("10 headers, body of 235 octets with a NUL", binary), rounds)
    report(Load("10 headers, body of 100 MB", [frame(0, json_body(100_000_000))]), max(3, rounds // 3))
    mixed = [frame(i, small, dropped=b"redelivered" if i % 2 else b"") for i in range(10_000)]
    report(Load("two layouts, body of 235 octets", mixed), rounds, ["stomp.py", "arrow"])
    escaped = [frame(i, small, escaped=True) for i in range(10_000)]
    report(Load("escaped ids, body of 235 octets", escaped), rounds, ["stomp.py", "arrow"])
    linearity(max(3, rounds // 2))
    out("\ngoals (235 octets)\n")
    for name, goal in GOALS.items():
        verdict = "met" if goals[name] >= goal else "NOT met"
        out(f"  {name:<10}{goals[name]:>6.1f} x of {goal:.0f} x: {verdict}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
