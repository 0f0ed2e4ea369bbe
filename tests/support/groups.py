"""Which tests share a process when pytest-xdist runs them side by side, and which groups come first.

Session fixtures are made once per process. So all tests of one broker are a group, all that need nothing but
the shared Spark session are another, and every other file is one of its own, for its module fixtures.

This is a scheduler of its own and not ``--dist loadgroup``, whose groups xdist 3.8 writes into a field of the
test that pytest 9.2 no longer reads.
"""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

# What is done to real brokers in soak, up to the broker's name.
_KILLED = r"(faults/test_(matrix|sigkill_loop|chaos|sink_kills)|cluster/test_sink_tasks)\.py.*"
# Name of a group -> what the ids of its tests begin with, below tests/. The longest come first: one that
# began last would run alone. And what computes (Spark) takes turns with what waits (brokers, faults).
_LONG = {
    "the Spark session": r"streaming/(?!.*sigkill)",
    # Together, since one test moves from one to the other.
    "ActiveMQ and Artemis": r"interop/.*(activemq|artemis|second_broker)|" + _KILLED + "(activemq|artemis)",
    # Only in soak, where these compute while the brokers' tests wait.
    "the fuzz target": r"fuzz/",
    "the property tests": r"property/",
    "RabbitMQ": r"interop/.*\[.*rabbitmq|" + _KILLED + "rabbitmq",
    "the fault matrix": r"faults/test_matrix\.py",
    "broken rules": r"faults/test_contract_rules\.py",
    "drivers that die": r"streaming/.*sigkill",
    "the dev broker like the others": r"interop/test_connector.*\[.*devbroker",
    "a cluster": r"cluster/",
    "hostile peers": r"hostile/",
    "faults and restarts": r"faults/test_restarts\.py",
    "the notebooks": r"test_notebooks\.py",
    "S3": r"faults/test_journal_s3\.py",
    "the demo": r"test_demo\.py",
    "the receiver": r"integration/receiver/test_receiver\.py",
    "the wheel": r"test_packaging\.py",
    "stomp.py": r"interop/test_devbroker_stomppy\.py",
}
_PATTERNS = {name: re.compile(f"(tests/)?({pattern})") for name, pattern in _LONG.items()}
_PLACES = {name: place for place, name in enumerate(_LONG)}


def group_of(test: str) -> str:
    """The group of the test with this id: one of the long ones, or its file."""
    for name, pattern in _PATTERNS.items():
        if pattern.match(test):
            return name
    return test.partition("::")[0]


def longest_first(items: list[pytest.Item]) -> None:
    """Put the long groups first, and leave the others in their order behind them."""
    items.sort(key=lambda item: _PLACES.get(group_of(item.nodeid), len(_PLACES)))


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a free process the next group."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
