"""What a user's code does in the worker that keeps a connection may fork."""

from __future__ import annotations

import subprocess
import sys

from support.waiting import PATIENCE

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import FrameServer, FrameServerAddress
from spark_stomp.frameserver.wire import new_token

BATCH = FrameBatch(b"MESSAGE\n\n\0", [10], 0, 1, "1.2", "", "q#0")
WORKER = """
import os, sys
from spark_stomp.frameserver import FrameServerAddress, RangeTicket, fetch
address, ticket = FrameServerAddress("127.0.0.1", int(sys.argv[1]), sys.argv[2]), RangeTicket("e", 0, 1)
assert len(list(fetch(address, ticket))) == 1
child = os.fork()
if not child:
    sys.exit(0)
assert os.waitpid(child, 0) == (child, 0)
assert len(list(fetch(address, ticket))) == 1
"""


def test_a_fork_ends_and_its_parent_reads_on() -> None:
    """The connections are those of the parent, and the fork must not use them."""
    server = FrameServer(FrameServerAddress("127.0.0.1", 0, new_token()), lambda ticket: iter([BATCH]))
    arguments = [sys.executable, "-c", WORKER, str(server.address.port), server.address.token]
    try:
        subprocess.run(arguments, check=True, timeout=PATIENCE)
    finally:
        server.close()
