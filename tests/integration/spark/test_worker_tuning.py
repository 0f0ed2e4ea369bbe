"""Garbage collection of a process that receives, and the sockets of a worker."""

from __future__ import annotations

import gc
import os
import socket

import pytest
from support.columns import projection_of
from support.options import source_options

from spark_stomp.devbroker import DevBroker
from spark_stomp.spark import worker_tuning
from spark_stomp.spark.readers import StompStreamReader


def test_the_process_that_receives_looks_at_all_objects_rarely(devbroker: DevBroker) -> None:
    given = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # another test's reader may have set it in this process
    before = gc.get_threshold()
    if before[2] != 10:
        pytest.skip("this Python has no such threshold")
    reader = StompStreamReader(source_options(devbroker.url), projection_of("body"))
    try:
        assert gc.get_threshold() == before
        reader.latestOffset()
        assert gc.get_threshold() == (*before[:2], 1_000)
    finally:
        reader.stop()
        gc.set_threshold(*given)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has TCP_QUICKACK")
def test_the_input_of_a_task_does_not_wait_for_a_late_ack() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as spark,
        server.accept()[0] as of_worker,
    ):
        for _ in range(5):  # Linux takes it for one that answers whatever comes, and puts ACKs off
            spark.sendall(b"task")
            of_worker.sendall(of_worker.recv(4))
        delayed = of_worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        worker_tuning.expect_input()
        assert (delayed, of_worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)) == (0, 1)


def test_every_socket_goes_on_blocking_if_a_default_timeout_is_set() -> None:
    """Python makes a file descriptor that it is given non-blocking then."""
    one, other = socket.socketpair()
    with one, other, socket.create_server(("127.0.0.1", 0)) as server:
        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(10)
        try:
            worker_tuning.expect_input()
        finally:
            socket.setdefaulttimeout(before)
        assert [os.get_blocking(number.fileno()) for number in (one, other, server)] == [True] * 3
