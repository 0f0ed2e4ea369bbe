"""How much memory a task takes for its messages, beyond what its process takes for Python and Arrow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.waiting import PATIENCE

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import FrameServer, FrameServerAddress, RangeTicket
from spark_stomp.frameserver.wire import new_token

HEAD = b"MESSAGE\ndestination:/queue/a\nmessage-id:%08d\ntimestamp:1700000000000\ncontent-length:%d\n\n"
MIB = 1 << 20
MOST = 64
"""MiB. In November 2026 it took up to 25."""

# As Spark's worker does it: a batch is still there while the next one is made. The bound of the address space
# is that of spark.executor.pyspark.memory.
TASK = """
import json, os, resource, sys
import pyarrow as pa
from spark_stomp.columns import SOURCE_COLUMNS
from spark_stomp.frameserver import FrameServerAddress, RangeTicket
from spark_stomp.options import parse_source_options
from spark_stomp.source.reads import FrameRanges, RowSettings, read_ranges
from support.columns import projection_of

def memory(name):
    (line,) = [line for line in open("/proc/self/status") if line.startswith(name)]
    return int(line.split()[1]) >> 10

port, token, tasks, most = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
options = parse_source_options({"url": "stomp://a", "destination": "/queue/a"})
settings = RowSettings.of(options, projection_of(*(column.name for column in SOURCE_COLUMNS)))
written, rows = open(os.devnull, "wb"), 0
def run(low, high):
    global rows
    ranges = FrameRanges(FrameServerAddress("127.0.0.1", port, token), (RangeTicket("e", low, high),))
    for batch in read_ranges(ranges, settings):
        with pa.RecordBatchStreamWriter(written, batch.schema) as writer:
            writer.write_batch(batch)
        rows += batch.num_rows
run(0, 1)
before, size = memory("VmRSS"), memory("VmSize")
resource.setrlimit(resource.RLIMIT_AS, ((size + most) << 20,) * 2)
for low, high in tasks:
    run(low, high)
print(json.dumps({"rows": rows - 1, "peak": memory("VmHWM") - before, "rest": memory("VmRSS") - before}))
"""


def read(ticket: RangeTicket, octets: int) -> Iterator[FrameBatch]:
    """Frames as they come from the socket, about a MiB at a time."""
    frame = HEAD % (1, octets) + bytes(octets) + b"\0"
    count = max(1, MIB // len(frame))
    whole = FrameBatch(
        frame * count, [len(frame) * n for n in range(1, count + 1)], 0, 0, "1.2", "artemis", "a#0"
    )
    for low in range(ticket.low, ticket.high, count):
        yield replace(whole, first_number=low).part(low, min(low + count, ticket.high))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows it so")
@pytest.mark.parametrize(
    ("octets", "messages"), [(235, 60_000), (10_000, 10_000), (1_000_000, 100), (4 * MIB, 30)]
)
def test_a_task_takes_little_for_its_messages(octets: int, messages: int) -> None:
    address = FrameServerAddress("127.0.0.1", 0, new_token())
    server = FrameServer(address, lambda ticket: read(ticket, octets))
    tasks = [[n * messages // 4, (n + 1) * messages // 4] for n in range(4)]
    arguments = [str(server.address.port), address.token, json.dumps(tasks), str(2 * MOST)]
    try:
        ended = subprocess.run(
            [sys.executable, "-c", TASK, *arguments], stdout=subprocess.PIPE, timeout=PATIENCE, check=True
        )
    finally:
        server.close()
    found = json.loads(ended.stdout)
    assert found["rows"] == messages
    assert found["rest"] <= found["peak"] <= MOST, found
