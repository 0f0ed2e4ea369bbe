"""Messages per second that the sink's encoder makes frames of, on one core, beside stomp.py's.

* ``stomp.py``: ``stomp.utils.convert_frame`` for each message, from headers and bodies that are ready.
* ``encoder``: RowEncoder on a record batch of 10,000 rows, as Spark hands it over, with all checks of rows.

``python -m benchmarks.encode [--rounds N]``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import pyarrow as pa
from stomp.utils import Frame, convert_frame

from benchmarks.codec import json_body
from benchmarks.results import Case, Figures, Goal, Results, add_arguments, describe_round
from spark_stomp.columns import SinkColumns
from spark_stomp.sink.encoder import RowEncoder
from spark_stomp.sink.rules import SendRules

ROWS = 10_000
DESTINATION = "/queue/orders"
HEADERS = 10
GOAL = 600_000
Row = dict[str, str]


def plain(row: int) -> Row:
    return {f"header-{n}": f"value {n} of row {row}" for n in range(HEADERS)}


def mixed(row: int) -> Row:
    """Every third name is one of fifty."""
    return {f"header-{n}-{row % 50 if n % 3 else 0}": f"value {n} of row {row}" for n in range(HEADERS)}


def escaped(row: int) -> Row:
    """Every second value has a colon, as times and ids have."""
    return {f"header-{n}": f"ID:value {n} of row {row}" if n % 2 else f"value {row}" for n in range(HEADERS)}


def stomp_py(headers: list[Row], body: bytes) -> Callable[[], int]:
    own = {"destination": DESTINATION, "persistent": "true", "content-length": str(len(body))}

    def run() -> int:
        lines = (convert_frame(Frame("SEND", {**own, **row}, body)) for row in headers)
        return sum(len(b"".join(line)) > 0 for line in lines)

    return run


def encoder(headers: list[Row], body: bytes) -> Callable[[], int]:
    columns = SinkColumns(("body", "destination", "headers"), False)
    rows = [{"body": body, "destination": DESTINATION, "headers": list(row.items())} for row in headers]
    batch = pa.RecordBatch.from_pylist(rows, schema=columns.arrow_schema)
    rules = SendRules(version="1.2", headers=(("persistent", "true"),))

    def run() -> int:
        return sum(len(part) for part in RowEncoder(columns, rules).slices(batch))

    return run


CANDIDATES = {"stomp.py": stomp_py, "encoder": encoder}


def per_second(run: Callable[[], int]) -> float:
    """Messages a second of processor time, all threads counted."""
    begun = time.process_time()
    count = run()
    spent = time.process_time() - begun
    if count != ROWS:
        raise SystemExit(f"{count} messages of {ROWS} were encoded")
    return count / spent


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.encode")
    add_arguments(parser, rounds=9)
    rounds = parser.parse_args().rounds
    results = Results("encode")
    loads = {
        "10 headers, body of 235 octets": (plain, 235),
        "the same, names differ from row to row": (mixed, 235),
        "the same, values with colons": (escaped, 235),
        "10 headers, body of 10 KiB": (plain, 10_240),
    }
    for name, (headers_of, size) in loads.items():
        rows = [headers_of(row) for row in range(ROWS)]
        runs = {candidate: make(rows, json_body(size)) for candidate, make in CANDIDATES.items()}
        goals = [Goal("encoder", "stomp.py", at_least=1.0)]
        note = f"The goal for the encoder is {GOAL:,} messages a second with 10 headers and a small body."
        case = Case("SEND frames a second on one core", name, "messages/s", "stomp.py", goals, note)
        results.forget(case.section, case.name)
        for turn in range(rounds + 1):
            figures: dict[str, Figures] = {what: {"value": per_second(run)} for what, run in runs.items()}
            if turn:  # the first round does not count
                results.add(case, figures)
        print(describe_round(case, figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
