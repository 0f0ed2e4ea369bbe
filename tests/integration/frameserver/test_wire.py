"""What somebody on the wire between a task and the frame server sees: nothing, and without TLS everything."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from support.driven import Run
from support.proxy import FaultProxy
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

BODIES = [b"very secret order %02d" % number for number in range(50)]


@pytest.mark.parametrize("tls", ["auto", "false"])
def test_tls_is_the_default_of_a_network_and_hides_all(
    devbroker: DevBroker, tls: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "spark_stomp")
    devbroker.publish_many("/queue/a", BODIES)
    # An address of every interface, loopback included, where the proxy connects.
    network = {"frameServerHost": "0.0.0.0", "frameServerTls": tls}
    with Run({"url": devbroker.url, "destination": "/queue/a", **network}) as query:
        query.begin()
        wait_until(lambda: query.waiting == len(BODIES), what="the messages")
        end = query.reader.latestOffset(query.start, None)
        (planned,) = query.reader.partitions(query.start, end)
        address = planned.value.address
        with FaultProxy(address.port, record=True) as proxy:
            planned.value = replace(
                planned.value, address=replace(address, host="127.0.0.1", port=proxy.port)
            )
            rows = [row for part in query.reader.read(planned) for row in part.to_pylist()]
        wire = proxy.recorded
    assert [row["body"] for row in rows] == BODIES
    assert len(wire) > sum(map(len, BODIES)), "the task fetched elsewhere: this test proves nothing"
    secrets = [address.token.encode(), b"MESSAGE", b"/queue/", *BODIES]
    assert [secret in wire for secret in secrets] == [tls == "false"] * len(secrets)
    # What the task got to know is in no log, either.
    key = address.key_pair.key.decode().splitlines()[1:-1] if address.key_pair else []
    assert not any(word in caplog.text for word in (address.token, *key))
