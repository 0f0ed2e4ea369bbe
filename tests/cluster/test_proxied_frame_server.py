"""What somebody on the wire between executor and receiver sees: nothing, and without TLS everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.brokers.base import free_ports
from support.drivers import START, application
from support.proxy import FaultProxy

from spark_stomp.devbroker import DevBroker

APPLICATION = Path(__file__).with_name("proxied.py")
BODIES = [b"very secret order %02d" % number for number in range(50)]

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_tls_is_the_default_of_a_network_and_hides_all(devbroker: DevBroker, tmp_path: Path) -> None:
    # An address of every interface, loopback included, where the proxy connects.
    network = {"frameServerHost": "0.0.0.0"}
    by_default, plain = (
        {**network, "frameServerPort": str(port), **more}
        for port, more in zip(free_ports(2), ({}, {"frameServerTls": "false"}), strict=True)
    )
    with (
        FaultProxy(int(by_default["frameServerPort"]), record=True) as hidden,
        FaultProxy(int(plain["frameServerPort"]), record=True) as shown,
    ):
        cases = [("hidden", hidden.port, by_default), ("shown", shown.port, plain)]
        for queue, _, _ in cases:
            devbroker.publish_many(f"/queue/{queue}", BODIES)
        seen = run(devbroker.url, tmp_path, cases)
        wires = {"hidden": hidden.recorded, "shown": shown.recorded}
    for queue, wire in wires.items():
        assert seen[queue]["bodies"] == [body.decode() for body in BODIES]
        assert len(wire) > sum(map(len, BODIES)), "the tasks fetched elsewhere: this test proves nothing"
    assert all(body in wires["shown"] for body in BODIES)
    assert seen["shown"]["token"].encode() in wires["shown"], "this test cannot see a token"
    assert not any(body in wires["hidden"] for body in BODIES)
    for word in (b"secret", b"MESSAGE", b"/queue/", b"Bearer", seen["hidden"]["token"].encode()):
        assert word not in wires["hidden"]
    # What tasks got to know is in no log, either.
    log = (tmp_path / "log").read_text()
    for queue in wires:
        assert seen[queue]["token"] not in log
    assert "PRIVATE KEY" in seen["hidden"]["key"]
    assert not any(line in log for line in seen["hidden"]["key"].splitlines()[1:-1])


def run(url: str, folder: Path, cases: list[Any]) -> dict[str, Any]:
    """What the application saw of each queue."""
    with application(APPLICATION, folder, url, str(folder), json.dumps(cases)) as process:
        assert process.wait(2 * START) == 0, (folder / "log").read_text()[-3000:]
    return {queue: json.loads((folder / f"{queue}.json").read_text()) for queue, _, _ in cases}
