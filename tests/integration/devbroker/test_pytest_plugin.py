from __future__ import annotations

import pytest

from spark_stomp.devbroker import DevBroker, pytest_plugin


def test_the_fixture_is_a_running_broker_that_is_stopped_afterwards() -> None:
    steps = pytest_plugin.stomp_devbroker.__wrapped__()  # type: ignore[attr-defined]
    broker = next(steps)
    assert isinstance(broker, DevBroker)
    broker.publish("/queue/a", b"1")
    assert broker.queue("/queue/a").depth == 1
    with pytest.raises(StopIteration):
        next(steps)
    assert broker._stopping
