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

``python -m benchmarks.codec [--rounds N]``
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from stomp.utils import parse_frame
from support.columns import projection_of

from benchmarks.results import Case, Figures, Goal, Results, add_arguments, describe_round
from spark_stomp.arrow import RowRules, decode_frames
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import NEED_DATA, Frame, FrameDecoder, FrameScanner, Limits, MessageBlock

VERSION = "1.2"
READ = 1 << 20
GOALS = {"decoder": 1.0, "scanner": 18.0, "arrow": 22.0}
COLUMNS = projection_of()
RULES = RowRules(id_header="message-id", timestamp_unit="ms")
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
LARGE = Limits(max_body=2**31, max_frame=2**31)

REFERENCE = "stomp.py"


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
        parser = FrameScanner(VERSION, LARGE)
        parser.collect(id_header=id_header)
        for data in reads:
            parser.receive_data(data)
            while (event := parser.next_event()) is not NEED_DATA:
                if isinstance(event, MessageBlock):
                    frames += len(event.ends)
        return frames

    return run


def arrow(load: Load) -> Callable[[], int]:
    block = load.block()
    return lambda: decode_frames(block, COLUMNS, RULES).num_rows


CANDIDATES: dict[str, Callable[[Load], Callable[[], int]]] = {
    "stomp.py": stomp_py,
    "decoder": decoder,
    "scanner": scanner,
    "with ids": partial(scanner, id_header="message-id"),
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


def report(
    results: Results,
    load: Load,
    rounds: int,
    names: Sequence[str] = tuple(CANDIDATES),
    goals: Sequence[Goal] = (),
) -> None:
    """Keep and print the figures of one load, of which there are none from earlier."""
    spent = measure(load, names, rounds)
    octets = len(load.stream) / len(load.frames)
    case = Case("Frames a second on one core", load.name, "frames/s", REFERENCE, list(goals))
    results.forget(case.section, case.name)
    for times in zip(*spent.values(), strict=True):
        figures: dict[str, Figures] = {
            name: {"value": 1 / per_frame, "MB/s": octets / per_frame / 1e6}
            for name, per_frame in zip(spent, times, strict=True)
        }
        results.add(case, figures)
    print(describe_round(case, figures), flush=True)


def keep_memory() -> None:
    """Have the C library reuse memory of any size, where it is glibc.

    It returns every piece of over 32 MiB to the system, and the pages that it then gets anew cost more than
    all that a decoder does with them: a step at that size that has nothing to do with the codec.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def linearity(results: Results, rounds: int) -> None:
    """Cost of an octet while the input doubles: many frames, then one frame whose body doubles. The least of
    the rounds."""
    keep_memory()
    small = json_body(235)
    many = [
        Load(f"{n:,} frames", [frame(i, small) for i in range(n)]) for n in (5_000, 10_000, 20_000, 40_000)
    ]
    one = [Load(f"a body of {n} MiB", [frame(0, b"x" * n * 2**20)]) for n in (32, 64, 128)]
    for what, loads in (("frames", many), ("one body", one)):
        for name in GOALS:
            costs: dict[str, Figures] = {}
            for load in loads:
                run = CANDIDATES[name](load)
                cost = min(seconds(run, len(load.frames)) for _ in range(rounds))
                costs[load.name] = {"value": cost / len(load.stream) * 1e9}
            case = Case(f"Cost of an octet while its input doubles: {what}", name, "ns", loads[0].name)
            results.forget(case.section, case.name)
            results.add(case, costs)
            print(describe_round(case, costs), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.codec")
    add_arguments(parser, rounds=9)
    rounds = parser.parse_args().rounds
    results = Results("codec")
    goals = [Goal(name, REFERENCE, at_least=ratio) for name, ratio in GOALS.items()]
    small, large = json_body(235), json_body(10_240)
    usual = Load("10 headers, body of 235 octets", [frame(i, small) for i in range(10_000)])
    report(results, usual, rounds, goals=goals)
    report(results, Load("10 headers, body of 10 KiB", [frame(i, large) for i in range(1_000)]), rounds)
    pieces = Load("235 octets in reads of 64 KiB", [frame(i, small) for i in range(10_000)], 64 << 10)
    report(results, pieces, rounds, ["stomp.py", "decoder", "scanner", "with ids"])
    various = [frame(i, small[: 100 + i * 37 % 135]) for i in range(10_000)]
    report(results, Load("10 headers, bodies of 100 to 234 octets", various), rounds)
    binary = [frame(i, b"\0" + small[1:]) for i in range(10_000)]
    report(results, Load("10 headers, body of 235 octets with a NUL", binary), rounds)
    huge = Load("10 headers, body of 100 MB", [frame(0, json_body(100_000_000))])
    report(results, huge, max(3, rounds // 3))
    mixed = [frame(i, small, dropped=b"redelivered" if i % 2 else b"") for i in range(10_000)]
    report(results, Load("two layouts, body of 235 octets", mixed), rounds, ["stomp.py", "arrow"])
    escaped = [frame(i, small, escaped=True) for i in range(10_000)]
    report(results, Load("escaped ids, body of 235 octets", escaped), rounds, ["stomp.py", "arrow"])
    linearity(results, max(3, rounds // 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
