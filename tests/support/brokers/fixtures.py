"""Fixtures that start brokers when a test first asks for one, and stop them after the last test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from spark_stomp.brokers import DIALECTS
from support.brokers import BROKERS, CLUSTERS, Broker, Unavailable
from support.brokers.rabbitmq import RabbitMQ

# Names of brokers without which the run fails, separated by commas. Any other's tests are skipped without it.
REQUIRED = "SPARK_STOMP_REQUIRED_BROKERS"
# ``rabbitmq=rabbitmq-3.10,...``: the whole run with other releases.
INSTEAD = "SPARK_STOMP_BROKERS_INSTEAD"

_MARKED = [pytest.param(name, marks=() if name == "devbroker" else pytest.mark.broker) for name in BROKERS]
# The newest release of each.
_EVERY = [param for param in _MARKED if param.values[0] in {dialect.name for dialect in DIALECTS}]
# Not over TCP, as the others are. TLS is in soak: TestACertificateForAnotherName reads and writes over it.
_OVER = [
    pytest.param(
        *param.values,
        transport,
        marks=[*param.marks] + [pytest.mark.soak] * (transport == "tls"),
        id=f"{param.values[0]}-{transport}",
    )
    for param in _EVERY[1:]
    for transport in BROKERS[str(param.values[0])].transports
    if transport != "tcp"
]
on_real_brokers = pytest.mark.parametrize("broker", _EVERY[1:], indirect=True)
# For what is the same on all of them, and takes long.
on_rabbitmq_and_others_in_soak = pytest.mark.parametrize(
    "broker",
    _EVERY[1:2] + [pytest.param(*one.values, marks=[*one.marks, pytest.mark.soak]) for one in _EVERY[2:]],
    indirect=True,
)
on_every_broker = pytest.mark.parametrize("broker", _EVERY, indirect=True)
# Older releases as well.
on_every_release = pytest.mark.parametrize("broker", _MARKED, indirect=True)
# For tests with the fixture ``rabbitmq``. The older release is for soak.
on_every_rabbitmq = pytest.mark.parametrize(
    "rabbitmq", ["rabbitmq", pytest.param("rabbitmq-3.10", marks=pytest.mark.soak)], indirect=True
)
# With a second parameter, ``transport``.
on_every_other_transport = pytest.mark.parametrize(("broker", "transport"), _OVER, indirect=["broker"])


def missing(name: str, why: Unavailable) -> NoReturn:
    """Skip the test, or fail it if this broker is required."""
    reason = f"{name} is not available: {why}"
    if name in os.environ.get(REQUIRED, "").split(","):
        pytest.fail(f"{reason} ({REQUIRED} names it)")
    pytest.skip(reason)


class BrokerPool:
    """The running brokers by name, each started at its first use."""

    def __init__(self, folder: Path, kinds: Mapping[str, type[Broker]] | None = None) -> None:
        self._folder = folder
        self._kinds = {**BROKERS, **CLUSTERS} if kinds is None else kinds
        self._instead = dict(pair.split("=") for pair in os.environ.get(INSTEAD, "").split(",") if pair)
        # By name: the broker, or why there is none.
        self._started: dict[str, Broker | Unavailable] = {}

    def get(self, name: str) -> Broker:
        """The broker; skips the test if it is not available, and fails it if it is required."""
        name = self._instead.get(name, name)
        if name not in self._started:
            self._started[name] = self._start(name)
        found = self._started[name]
        if isinstance(found, Broker):
            return found
        missing(name, found)

    def stop(self) -> None:
        for broker in self._started.values():
            if isinstance(broker, Broker):
                broker.stop()

    def _start(self, name: str) -> Broker | Unavailable:
        folder = self._folder / name
        folder.mkdir()
        broker = self._kinds[name](folder)
        try:
            broker.start()
        except Unavailable as error:
            broker.stop()
            return error
        return broker


@pytest.fixture(scope="session")
def broker_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPool]:
    pool = BrokerPool(tmp_path_factory.mktemp("brokers"))
    yield pool
    pool.stop()


@pytest.fixture
def broker(request: pytest.FixtureRequest, broker_pool: BrokerPool) -> Broker:
    """The broker that the test is parametrised with (``on_every_broker`` and so on)."""
    return broker_pool.get(request.param)


# A parameter, so that the ids of its tests name it and they share a process (conftest.GROUPS).
@pytest.fixture(params=["rabbitmq"])
def rabbitmq(request: pytest.FixtureRequest, broker_pool: BrokerPool) -> RabbitMQ:
    """RabbitMQ, for tests of what only it does; a current release unless ``on_every_rabbitmq`` says more."""
    broker = broker_pool.get(request.param)
    assert isinstance(broker, RabbitMQ)
    return broker


@pytest.fixture
def credentials(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's login and password, for commands."""
    if broker.login is not None and broker.password is not None:
        monkeypatch.setenv("SPARK_STOMP_LOGIN", broker.login)
        monkeypatch.setenv("SPARK_STOMP_PASSWORD", broker.password)
