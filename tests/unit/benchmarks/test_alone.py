"""Our receiver without Spark, as the benchmarks run it."""

from __future__ import annotations

import socket

import pytest
from benchmarks.alone import Alone, read_alone
from benchmarks.programs import program, result_of
from benchmarks.wire_broker import wire_broker

from spark_stomp.errors import StompError


@pytest.mark.parametrize(("receivers", "hold"), [(1, 0), (2, 0), (1, 1_000)])
def test_all_messages_are_read_decoded_and_acked(receivers: int, hold: int) -> None:
    with wire_broker(10_000, window=1_000) as port:
        options = {"url": f"stomp://127.0.0.1:{port}", "destination": "/queue/a", "receivers": str(receivers)}
        messages = 10_000 * receivers
        found = read_alone(Alone({**options, "prefetch": "1000"}, messages, hold, decode=True))
    assert found["rows"] == found["messages"] == messages
    assert found["seconds"] > 0 and found["processor"] > 0


def test_a_receiver_that_fails_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StompError, match="connect"):
        read_alone(Alone({"url": f"stomp://127.0.0.1:{port}", "destination": "/queue/a"}, 1))


def test_a_program_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="bare ended with status 1"):
        result_of("bare", {"action": "receive", "peer": {}})


def test_a_program_ends_with_its_block() -> None:
    with program("dev_broker", {}) as running:
        assert running.line()["port"]
    assert running._process.returncode is not None
