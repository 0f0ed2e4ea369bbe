"""Fixtures that start brokers when a test first asks for one, and stop them after the last test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.brokers import BROKERS, Broker, Unavailable

__all__ = ["REQUIRED", "BrokerPool", "broker", "broker_pool", "on_every_broker", "on_real_brokers"]

# Names of brokers without which the run fails, separated by commas. Any other's tests are skipped without it.
REQUIRED = "SPARK_STOMP_REQUIRED_BROKERS"

_REAL = [pytest.param(name, marks=pytest.mark.broker) for name in BROKERS if name != "devbroker"]
on_real_brokers = pytest.mark.parametrize("broker", _REAL, indirect=True)
on_every_broker = pytest.mark.parametrize("broker", ["devbroker", *_REAL], indirect=True)


class BrokerPool:
    """The running brokers by name, each started at its first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Broker] = {}
        self._unavailable: dict[str, str] = {}

    def get(self, name: str) -> Broker:
        """The broker; skips the test where it cannot be had, and fails it where it is required."""
        if name not in self._running and name not in self._unavailable:
            self._start(name)
        if name in self._unavailable:
            reason = f"{name} cannot be had: {self._unavailable[name]}"
            if name in os.environ.get(REQUIRED, "").split(","):
                pytest.fail(f"{reason} ({REQUIRED} names it)")
            pytest.skip(reason)
        return self._running[name]

    def stop(self) -> None:
        for broker in self._running.values():
            broker.stop()

    def _start(self, name: str) -> None:
        folder = self._folder / name
        folder.mkdir()
        broker = BROKERS[name](folder)
        try:
            broker.start()
        except Unavailable as error:
            broker.stop()
            self._unavailable[name] = str(error)
        else:
            self._running[name] = broker


@pytest.fixture(scope="session")
def broker_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPool]:
    pool = BrokerPool(tmp_path_factory.mktemp("brokers"))
    yield pool
    pool.stop()


@pytest.fixture
def broker(request: pytest.FixtureRequest, broker_pool: BrokerPool) -> Broker:
    """The broker that the test is parametrised with (``on_every_broker``, ``on_real_brokers``)."""
    return broker_pool.get(request.param)
