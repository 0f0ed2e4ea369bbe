"""What became of a receiver's connections, and the one line that each event gives."""

from __future__ import annotations

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


class TestConnectedAgain:
    def test_is_told_with_what_came_again_after_a_second_of_silence(self) -> None:
        history = restored()
        counts = Counts(delivered=90, redelivered=45)
        assert history.connected_again(counts, quiet=0.9, now=213.0) is None
        assert history.connected_again(counts, 1.0, 214.0) == "connected again after 12.3 s, 40 redelivered"
        assert history.connected_again(counts, 5.0, 220.0) is None, "told once"

    def test_without_silence_it_is_told_after_10000_messages(self) -> None:
        history = restored()
        assert history.connected_again(Counts(delivered=10_049, redelivered=5), 0.0, 213.0) is None
        told = history.connected_again(Counts(delivered=10_050, redelivered=6), 0.0, 213.0)
        assert told == "connected again after 12.3 s, 1 redelivered"

    def test_or_after_ten_seconds(self) -> None:
        history = restored()
        assert history.connected_again(Counts(delivered=60), 0.0, 222.0) is None
        assert history.connected_again(Counts(delivered=60), 0.0, 222.4) is not None

    def test_or_when_the_connection_ends(self) -> None:
        history = restored()
        told = history.connected_again(Counts(delivered=60, redelivered=5), 0.0, 213.0, ending=True)
        assert told == "connected again after 12.3 s, 0 redelivered"

    def test_a_message_that_is_known_came_again_even_if_the_broker_does_not_say_so(self) -> None:
        counts = Counts(delivered=90, redelivered=5, reattached=30, dropped=10)
        assert (
            restored().connected_again(counts, 1.0, 214.0) == "connected again after 12.3 s, 40 redelivered"
        )

    def test_the_first_connection_is_none(self) -> None:
        history = ConnectionHistory(100.0)
        history.connected(101.0, Counts())
        assert history.connected_again(Counts(), 60.0, 200.0, ending=True) is None
