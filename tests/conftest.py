"""Fixtures and settings for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from support.brokers.fixtures import broker, broker_pool
from support.release import spark_release
from support.soak import EXAMPLES

from spark_stomp.devbroker import DevBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker", "broker_pool", "devbroker", "spark"]

PROPERTY = Path(__file__).with_name("property")

# How long an example takes says more of the machine than of what is tested. Every run has the same examples;
# new ones are for soak.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=100,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("default"), max_examples=EXAMPLES, derandomize=False)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    # No JVM here lives long enough for the slower compiler to pay.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if spark_release() < (4, 2):
        # Its collect() leaves the socket that the rows came through to the garbage collector.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == PROPERTY:
            item.add_marker("property")
    if hasattr(config, "workerinput"):  # in a process of xdist's
        from support.groups import longest_first

        longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from support.groups import Groups

    return Groups(config, log)


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
