"""Fixtures and settings for all tests."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from support.archive import quick_start
from support.brokers.fixtures import broker, broker_pool, credentials, rabbitmq
from support.release import spark_release
from support.soak import EXAMPLES

from spark_stomp.devbroker import DevBroker
from spark_stomp.receiver import stream_offsets
from spark_stomp.transport import logins, retry
from spark_stomp.transport.addresses import _LOOK_UPS, ADDRESSES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.connect import ConnectServer

__all__ = [
    "broker",
    "broker_pool",
    "connect_server",
    "credentials",
    "devbroker",
    "quick_ends",
    "quick_logins",
    "rabbitmq",
    "spark",
]

# What a shell starts in the background ignores Ctrl-C; processes that tests start and end with it must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

PROPERTY = Path(__file__).with_name("property")

# How long an example takes says more of the machine than of what is tested. Every run has the same examples;
# new ones are for soak.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("default"), max_examples=EXAMPLES, derandomize=False)
# On a broken copy of the package it is enough to know that a test fails, which ends it.
settings.register_profile(
    "broken",
    settings.get_profile("default"),
    max_examples=1_000,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("default")


# Which tests share a process when `make test` runs them side by side. Session fixtures are made once in each
# process, so most tests of one broker are a group, all that need the shared Spark session are
# another, and every other file is one, for its module fixtures.
# Name of a group -> what the ids of its tests begin with, below tests/. The longest come first: one that
# began last would run alone. And what computes (Spark) takes turns with what waits (brokers, faults).
GROUPS = {
    "the Spark session": r"streaming/(?!.*(sigkill|over_connect))|"
    r"interop/.*(::TestSpark::|payloads_page\.py::.*(prints|delayed|schema|json))|"
    r"test_kubernetes\.py::test_spark_knows",
    # Together, since one test moves from one to the other.
    "ActiveMQ and Artemis": r"interop/.*(activemq|artemis|second_broker)",
    "the property tests": r"property/",
    "RabbitMQ": r"interop/.*\[.*rabbitmq",
    "brokers of several nodes": r"failover/",
    "the fault matrix": r"faults/test_matrix\.py",
    "drivers that die": r"streaming/.*sigkill",
    "the dev broker like the others": r"interop/test_connector.*\[.*devbroker",
    "a cluster": r"cluster/",
    "hostile peers": r"hostile/",
    "faults and restarts": r"faults/test_restarts\.py",
    # All that use the one server.
    "Spark Connect": r"test_(notebooks|quickstart)\.py|streaming/.*over_connect",
    "S3": r"faults/test_journal_s3\.py",
    "the demo": r"test_demo\.py",
    "the manifest": r"test_kubernetes\.py",
    "the receiver": r"integration/receiver/test_receiver\.py",
    "the wheel": r"test_packaging\.py",
    "stomp.py": r"interop/test_devbroker_stomppy\.py",
}


def group_of(test: str) -> tuple[int, str]:
    """The place and the name of the group of the test with this id: one of :data:`GROUPS`, or its file."""
    for place, (name, pattern) in enumerate(GROUPS.items()):
        if re.match(f"(tests/)?({pattern})", test):
            return place, name
    return len(GROUPS), test.partition("::")[0]


def pytest_configure(config: pytest.Config) -> None:
    quick_start()
    if (0, 0) < spark_release() < (4, 2):
        # Its collect() leaves the socket that the rows came through to the garbage collector.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == PROPERTY:
            item.add_marker("property")
    if hasattr(config, "workerinput"):  # in a process of xdist's
        # The long groups first, and the others in their order behind them.
        items.sort(key=lambda item: group_of(item.nodeid)[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives a free process the next group.

    Not ``--dist loadgroup``: xdist 3.8 writes its groups into a field of tests that pytest 9.2 does not read.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)[1]

    return Groups(config, log)


@pytest.fixture
def quick_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process tries refused logins, and client ids that are in use, again after 0.1 s."""
    monkeypatch.setattr(retry, "FIRST_LOGIN_DELAY", 0.1)
    monkeypatch.setattr(retry, "FIRST_ID_DELAY", 0.1)
    # Half of a delay is jitter, and the pause must have ended by then.
    monkeypatch.setattr(logins, "REFUSED_PAUSE", 0.05)


@pytest.fixture
def quick_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 0.3 s of silence a stream has ended here, and after 0.6 s an empty one is empty."""
    monkeypatch.setattr(stream_offsets, "_QUIET", 0.3)
    monkeypatch.setattr(stream_offsets.ask_stream_ends, "__defaults__", ("", 0.6))


@pytest.fixture(autouse=True)
def no_failed_addresses() -> None:
    """Another test may have had the same port, or a look-up of the same name that still hangs."""
    ADDRESSES.forget(list(ADDRESSES._failed))
    _LOOK_UPS.clear()


@pytest.fixture
def devbroker() -> Iterator[DevBroker]:
    """A dev broker that lets everyone in."""
    with DevBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local session for all tests that need Spark, since starting a JVM takes seconds."""
    from support.spark import spark_session

    from spark_stomp import register

    session = spark_session()
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """One Spark Connect server with two executors, for all tests that are its clients."""
    from support.connect import ConnectServer

    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server
