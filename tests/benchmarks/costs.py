"""Processor time of receiver, scanner and decoder while one thing doubles: linear cost stays level.

Microseconds for each message (or header), without Spark, from the broker at wire speed: receivers read, the
rows are decoded, and everything is committed and ACKed. All sizes of one thing are a round.

    python -m benchmarks.costs [--messages 50000] [--rounds 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from benchmarks.alone import Alone
from benchmarks.programs import result_of
from benchmarks.results import Case, Figures, Goal, Results, Series, add_arguments
from benchmarks.wire_broker import Frames, wire_broker

SIZES = 4
WINDOW = 20_000
GOAL = 1.3


@dataclass(frozen=True)
class Load:
    """So many messages in all, over all receivers; a receiver has ``unacked`` of them at most, and with
    ``hold`` commits when it has that many."""

    messages: int
    headers: int = 10
    receivers: int = 1
    unacked: int = WINDOW
    hold: bool = False

    def microseconds(self) -> float:
        """Processor time of the receiving process, for each message."""
        each = self.messages // self.receivers
        with wire_broker(each, self.unacked, Frames(headers=self.headers)) as port:
            options = {"url": f"stomp://127.0.0.1:{port}", "destination": "/queue/a"}
            options |= {"connections": str(self.receivers), "prefetch": str(self.unacked)}
            hold = self.unacked if self.hold else 0
            found = result_of("alone", asdict(Alone(options, each * self.receivers, hold, decode=True)))
        return float(found["processor"]) / (each * self.receivers) * 1e6


Measure = Callable[[], float]


def doubled(messages: int) -> dict[str, dict[str, Measure]]:
    """What doubles -> its sizes -> what measures the cost of each."""
    sizes = [2**number for number in range(SIZES)]
    return {
        "message, while messages double": {
            f"{messages * size:,}": Load(messages * size).microseconds for size in sizes
        },
        "header, while headers double": {
            f"{10 * size} headers": partial(_of_a_header, Load(messages, headers=10 * size)) for size in sizes
        },
        "message, while receivers double": {
            f"{size} receivers": Load(2 * messages, receivers=size).microseconds for size in sizes
        },
        "message, while un-acked messages double": {
            f"{messages // 8 * size:,} un-acked": Load(
                2 * messages, unacked=messages // 8 * size, hold=True
            ).microseconds
            for size in [1, *(2 * size for size in sizes)]
        },
    }


def _of_a_header(load: Load) -> float:
    return load.microseconds() / load.headers


def round_of(sizes: Mapping[str, Measure]) -> tuple[dict[str, Figures], Series]:
    """The cost at each size."""
    return {name: {"value": measure()} for name, measure in sizes.items()}, {}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.costs")
    parser.add_argument("--messages", type=int, default=50_000, help="the smallest number of them")
    add_arguments(parser, rounds=3)
    arguments = parser.parse_args()
    results = Results("costs")
    for what, sizes in doubled(arguments.messages).items():
        smallest, *_, largest = sizes
        goal = Goal(largest, smallest, at_most=GOAL)
        case = Case(f"Cost of a {what}", "processor time", "µs", smallest, [goal])
        results.measure(case, arguments, partial(round_of, sizes))


if __name__ == "__main__":
    main()
