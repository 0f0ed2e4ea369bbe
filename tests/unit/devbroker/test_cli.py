from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from spark_stomp.devbroker import DevBroker
from spark_stomp.devbroker.cli import run


def test_prints_its_url_and_what_it_is_for() -> None:
    stop, output = threading.Event(), io.StringIO()
    stop.set()
    run("127.0.0.1", 0, None, stop=stop, output=output)
    assert "stomp://127.0.0.1:" in output.getvalue()
    assert "for development only" in output.getvalue()


def test_leaves_the_signal_handler_as_it_was() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop = threading.Event()
    stop.set()
    run("127.0.0.1", 0, None, stop=stop, output=io.StringIO())
    assert signal.getsignal(signal.SIGTERM) is before


def test_runs_in_any_thread() -> None:
    stop, output = threading.Event(), io.StringIO()
    thread = threading.Thread(
        target=run, args=("127.0.0.1", 0, {"a": "b"}), kwargs={"stop": stop, "output": output}
    )
    thread.start()
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert "stomp://" in output.getvalue()


def test_a_port_that_is_taken_is_an_error() -> None:
    with DevBroker() as broker, pytest.raises(OSError):
        run("127.0.0.1", broker.port, None, output=io.StringIO())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    code = "from spark_stomp.devbroker.cli import run; run('127.0.0.1', 0, None)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        process.send_signal(number)
        assert process.wait(10) == 0
