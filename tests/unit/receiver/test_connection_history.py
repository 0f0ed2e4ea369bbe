"""What became of a receiver's connections, and the one line that each event gives."""

from __future__ import annotations

import pytest

from spark_stomp.errors import ClientIdInUse, ConnectFailed, ConnectionLost, LoginRefused
from spark_stomp.receiver.connection_history import ConnectionHistory
from spark_stomp.receiver.settings import ConnectionStatus, Counts

LOST = ConnectionLost("the broker is gone")
REFUSED = ConnectFailed("nobody listens")


def restored(*, after: float = 12.34) -> ConnectionHistory:
    history = ConnectionHistory(100.0)
    history.connected(101.0, Counts(delivered=0))
    history.failed(LOST, 200.0)
    history.failed(REFUSED, 201.0)
    history.connected(200.0 + after, Counts(delivered=50, redelivered=5))
    return history


def test_what_it_tells() -> None:
    history = ConnectionHistory(100.0)
    assert history.status == ConnectionStatus(since=100.0)
    history.connected(101.0, Counts())
    assert history.status == ConnectionStatus(since=101.0, connected=True, connections=1)
    history.failed(LOST, 200.0)
    history.failed(REFUSED, 201.0)
    history.failed(REFUSED, 203.0)
    assert history.status == ConnectionStatus(
        since=200.0, connections=1, attempts=2, last_error=str(REFUSED), last_error_at=203.0
    )
    assert history.status.reconnects == 0
    history.connected(204.0, Counts())
    # What went wrong last stays to be seen.
    assert history.status == ConnectionStatus(
        since=204.0, connected=True, connections=2, last_error=str(REFUSED), last_error_at=203.0
    )
    assert history.status.reconnects == 1


def test_a_loss_is_told_once() -> None:
    history = ConnectionHistory(100.0)
    assert history.failed(REFUSED, 101.0), "the first attempt"
    assert not history.failed(REFUSED, 102.0)
    history.connected(103.0, Counts())
    assert history.failed(LOST, 104.0)
    assert not history.failed(REFUSED, 105.0)


def test_a_refused_login_is_told_each_time_and_a_client_id_in_use_is_not() -> None:
    history = ConnectionHistory(100.0)
    history.failed(REFUSED, 101.0)
    assert history.failed(LoginRefused("no"), 102.0)
    assert history.failed(LoginRefused("no"), 103.0)
    assert not history.failed(ClientIdInUse("in use"), 104.0)


def test_a_failed_attempt_before_the_first_connection_counts() -> None:
    history = ConnectionHistory(100.0)
    history.failed(REFUSED, 101.0)
    assert history.status.since == 100.0
    assert history.status.attempts == 1


def test_a_long_error_is_shown_in_part() -> None:
    history = ConnectionHistory(100.0)
    history.failed(ConnectionLost("x" * 5_000), 101.0)
    assert history.status.last_error is not None
    assert len(history.status.last_error) < 1_100


@pytest.mark.parametrize(
    ("counts", "quiet", "now", "ending", "redelivered"),
    [
        (Counts(delivered=90, redelivered=45), 0.9, 213.0, False, None),
        (Counts(delivered=90, redelivered=45), 1.0, 214.0, False, 40),
        (Counts(delivered=10_049, redelivered=5), 0.0, 213.0, False, None),
        (Counts(delivered=10_050, redelivered=6), 0.0, 213.0, False, 1),
        (Counts(delivered=60, redelivered=5), 0.0, 222.0, False, None),
        (Counts(delivered=60, redelivered=5), 0.0, 222.4, False, 0),
        (Counts(delivered=60, redelivered=5), 0.0, 213.0, True, 0),
        # Known messages are redelivered ones even if the broker does not say so.
        (Counts(delivered=90, redelivered=5, reattached=30, dropped=10), 1.0, 214.0, False, 40),
    ],
)
def test_a_connection_is_told_of_after_silence_10000_messages_10_seconds_or_at_its_end(
    counts: Counts, quiet: float, now: float, ending: bool, redelivered: int | None
) -> None:
    history = restored()
    told = history.connected_again(counts, quiet, now, ending=ending)
    words = f"connected again after 12.3 s, {redelivered} redelivered"
    assert told == (None if redelivered is None else words)
    assert told is None or history.connected_again(counts, 5.0, 230.0) is None, "told once"


def test_the_first_connection_replaces_none() -> None:
    history = ConnectionHistory(100.0)
    history.connected(101.0, Counts())
    assert history.connected_again(Counts(), 60.0, 200.0, ending=True) is None
