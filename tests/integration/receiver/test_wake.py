"""Names of several queues on ActiveMQ, which another consumer has to wake. interop has the broker itself."""

from __future__ import annotations

import pytest
from support.driven import Run
from support.scripted import CLOSE, ScriptedBroker, header_of
from support.tcp import stomp_server
from support.waiting import wait_until


@pytest.mark.parametrize("closes", [False, True])
def test_the_other_consumer_takes_nothing_and_goes(closes: bool) -> None:
    """Also if the first connection ends with the receipt of SUBSCRIBE."""
    asked: list[tuple[int, bytes, bytes]] = []

    def answer(number: int, frame: bytes) -> bytes:
        command = frame.split(b"\n")[0]
        if command in (b"SUBSCRIBE", b"UNSUBSCRIBE"):
            asked.append((number, command, header_of(frame, b"selector")))
        return CLOSE if closes and number == 1 and command == b"SUBSCRIBE" else b""

    last = 2 if closes else 1
    wanted = [(last, b"SUBSCRIBE", b""), (last, b"SUBSCRIBE", b"FALSE"), (last, b"UNSUBSCRIBE", b"")]
    with (
        stomp_server(ScriptedBroker(b"ActiveMQ/6.3.1", answer).serve) as url,
        Run({"url": url, "destination": "/queue/a.>"}) as run,
    ):
        run.begin()
        wait_until(lambda: asked[-3:] == wanted, what="the other consumer")
        assert run.status.failure is None
