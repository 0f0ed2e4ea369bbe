"""What became of a receiver's connections."""

from __future__ import annotations

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import ConnectFailed, ConnectionLost
from spark_stomp.receiver.status import ConnectionStatus

LOST = ConnectionLost("the broker is gone")
BROKER = {"dialect": dialect_named("artemis"), "peer": "b:61613"}
REFUSED = ConnectFailed("nobody listens")


def test_what_it_says() -> None:
    connected = ConnectionStatus(since=100.0).after_subscribe(101.0, **BROKER)
    assert connected == ConnectionStatus(since=101.0, connected=True, connections=1, **BROKER)
    lost = connected.after_failure(LOST, 200.0).after_failure(REFUSED, 201.0).after_failure(REFUSED, 203.0)
    last = {"last_error": str(REFUSED), "last_error_code": REFUSED.code, "last_error_at": 203.0}
    assert lost == ConnectionStatus(since=200.0, connections=1, attempts=2, **BROKER, **last)
    # What went wrong last stays to be seen.
    again = lost.after_subscribe(204.0, **BROKER)
    expected = ConnectionStatus(since=204.0, connected=True, connections=2, reconnects=1, **BROKER, **last)
    assert again == expected
    assert (lost.reconnects, again.reconnects) == (0, 1)


def test_a_connection_that_ended_with_its_turn_is_not_lost() -> None:
    connected = ConnectionStatus(since=100.0).after_subscribe(101.0, **BROKER)
    assert connected.after_failure(LOST, 102.0).is_lost
    again = connected.after_failure(LOST, 102.0).after_subscribe(103.0, **BROKER)
    ended = again.after_turn(104.0)
    assert (ended.connected, ended.since, ended.is_lost) == (False, 104.0, False)
    assert ended.after_failure(REFUSED, 105.0).is_lost
    # Each turn has a connection of its own, and nothing is wrong with that.
    assert (again.reconnects, ended.after_subscribe(105.0, **BROKER).reconnects) == (1, 1)
    assert ended.after_subscribe(105.0, **BROKER).connections == 3
    assert not ConnectionStatus(since=100.0).after_failure(REFUSED, 101.0).is_lost


def test_a_loss_is_news_once() -> None:
    first = ConnectionStatus(since=100.0).after_failure(REFUSED, 101.0)
    assert first.newly_failed, "the first attempt"
    assert not first.after_failure(REFUSED, 102.0).newly_failed
    lost = first.after_subscribe(103.0, **BROKER).after_failure(LOST, 104.0)
    assert lost.newly_failed
    assert not lost.after_failure(REFUSED, 105.0).newly_failed
