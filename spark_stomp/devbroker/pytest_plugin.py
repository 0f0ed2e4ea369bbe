"""A pytest fixture for users of this package: ``stomp_devbroker``, a fresh dev broker for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_stomp.devbroker.server import DevBroker

__all__ = ["stomp_devbroker"]


@pytest.fixture
def stomp_devbroker() -> Iterator[DevBroker]:
    """A running in-memory STOMP broker; ``stomp_devbroker.url`` is the value for the option ``url``.

    Example::

        pytest_plugins = ["spark_stomp.devbroker.pytest_plugin"]

        def test_orders(stomp_devbroker):
            stomp_devbroker.publish("/queue/orders", b'{"id": 1}')
    """
    with DevBroker() as broker:
        yield broker
