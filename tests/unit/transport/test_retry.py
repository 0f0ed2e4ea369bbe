"""Which errors are worth another attempt, and when it comes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spark_stomp import errors
from spark_stomp.options import ReconnectOptions
from spark_stomp.transport import retry as module
from spark_stomp.transport.retry import (
    FIRST_ID_DELAY,
    FIRST_LOGIN_DELAY,
    is_login_error,
    may_recover,
    next_attempt,
)

AWAY = errors.ConnectFailed("...")
REFUSED = errors.LoginRefused("b:1 refused CONNECT: no")
IN_USE = errors.ClientIdInUse("b:1 refused CONNECT: clientId c is in use")


def Retry(timeout: float, now: float, chance: Any = random.random, **given: float) -> module.Retry:  # noqa: N802
    first, longest = given.get("first", 0.25), given.get("longest", 30.0)
    return module.Retry(
        ReconnectOptions(timeout=timeout, first_delay=first, longest_delay=longest), now, chance
    )


def delays(retry: module.Retry, now: float = 0.0, error: errors.StompError = AWAY) -> list[float]:
    """All delays of a broker that stays away."""
    found = []
    while (delay := retry.next_delay(error, now)) is not None:
        found.append(delay)
        now += delay
    return found


class TestDelays:
    def test_double_up_to_half_a_minute_and_end_at_the_timeout(self) -> None:
        found = delays(Retry(100.0, 0.0, chance=lambda: 1.0))
        assert found[:9] == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
        assert sum(found) == 100.0

    def test_are_spread_so_that_not_all_come_at_once(self) -> None:
        assert delays(Retry(10.0, 0.0, chance=lambda: 0.0))[:3] == [0.125, 0.25, 0.5]
        found = {Retry(10.0, 0.0).next_delay(AWAY, 0.0) for _ in range(50)}
        assert len(found) > 40

    def test_end_later_by_the_time_of_connections_between_them(self) -> None:
        retry = Retry(10.0, 0.0, chance=lambda: 1.0)
        retry.leave_out(600.0)
        assert sum(delays(retry, 605.0)) == 5.0

    @pytest.mark.parametrize(("achieved", "now"), [(True, 100.2), (False, 110.0)])
    def test_start_afresh_after_one_that_achieved_something_or_lived_long(
        self, achieved: bool, now: float
    ) -> None:
        retry = Retry(10.0, 0.0, chance=lambda: 1.0)
        delays(retry)
        retry.ended(subscribed_since=100.0, now=now, achieved=achieved)
        assert delays(retry, now)[:2] == [0.25, 0.5]

    def test_but_not_after_one_that_ended_at_once(self) -> None:
        retry = Retry(10.0, 0.0, chance=lambda: 1.0)
        retry.next_delay(AWAY, 0.0)
        retry.ended(subscribed_since=9.0, now=9.5, achieved=False)
        assert retry.next_delay(AWAY, 9.5) == 0.5
        assert retry.next_delay(AWAY, 10.0) is None

    @pytest.mark.rule("4.8")
    def test_are_long_and_grow_after_a_refused_login(self) -> None:
        """An account may be locked after some of these."""
        found = delays(Retry(300.0, 0.0, chance=lambda: 1.0), error=REFUSED)
        assert found == [FIRST_LOGIN_DELAY, 120, 120]
        assert FIRST_LOGIN_DELAY / 2 >= 30
        assert delays(Retry(300.0, 0.0, chance=lambda: 0.0), error=REFUSED)[:3] == [30, 60, 60]

    @pytest.mark.rule("4.8")
    def test_are_a_minute_or_more_if_the_client_id_is_in_use(self) -> None:
        """Some feeds bar an address that connects while its last connection counts as open."""
        assert FIRST_ID_DELAY / 2 >= 60
        assert delays(Retry(300.0, 0.0, chance=lambda: 0.0), error=IN_USE) == [60] * 5
        assert delays(Retry(300.0, 0.0, chance=lambda: 1.0), error=IN_USE) == [120, 120, 60]
        # A short limit is not passed over: there is one attempt at its end.
        assert delays(Retry(20.0, 0.0), error=IN_USE) == [20]

    def test_are_as_the_options_say(self) -> None:
        retry = Retry(1000.0, 0.0, chance=lambda: 1.0, first=1.0, longest=16.0)
        assert delays(retry)[:7] == [1, 2, 4, 8, 16, 16, 16]
        retry.ended(subscribed_since=2000.0, now=2002.0, achieved=True)
        assert retry.next_delay(AWAY, 2002.0) == 1

    def test_are_no_shorter_after_a_refused_login_than_the_options_say(self) -> None:
        retry = Retry(5000.0, 0.0, chance=lambda: 1.0, first=200.0, longest=600.0)
        assert [retry.next_delay(REFUSED, 0.0) for _ in range(4)] == [200, 400, 600, 600]
        # They are short again when the broker is only away.
        retry = Retry(1000.0, 0.0, chance=lambda: 1.0)
        assert [retry.next_delay(error, 0.0) for error in (*[REFUSED] * 3, AWAY)] == [60, 120, 120, 30]


class TestTheLastError:
    def test_of_a_login_is_the_refusal_and_since_when(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)
        retry = Retry(300.0, 0.0)
        retry.next_delay(AWAY, 10.0)
        retry.next_delay(REFUSED, 100.0)
        retry.next_delay(REFUSED, 300.0)
        last = retry.out_of_time(REFUSED, "/queue/a", 300.0)
        assert type(last) is errors.LoginRefused
        for word in ("refused CONNECT: no", "since 2001-09-09 01:43:20 UTC", "reconnectTimeout (300s)"):
            assert word in str(last)

    def test_of_a_broker_that_is_away_after_a_refused_login_is_that_it_is_away(self) -> None:
        retry = Retry(300.0, 0.0)
        retry.next_delay(REFUSED, 0.0)
        retry.next_delay(AWAY, 300.0)
        assert type(retry.out_of_time(AWAY, "/queue/a", 300.0)) is errors.ConnectionLost

    def test_of_a_certificate_is_the_refusal(self) -> None:
        retry = Retry(300.0, 0.0)
        refused = errors.TlsRefused("it has expired")
        assert retry.next_delay(refused, 300.0) is None
        last = retry.out_of_time(refused, "/queue/a", 300.0)
        assert type(last) is errors.TlsRefused
        assert "it has expired; TLS with the broker succeeded before" in str(last)

    def test_of_a_client_id_is_that_it_is_in_use(self) -> None:
        retry = Retry(1.0, 0.0)
        retry.next_delay(IN_USE, 1.0)
        assert retry.out_of_time(IN_USE, "/queue/a", 1.0) is IN_USE

    def test_of_a_login_counts_from_its_own_first_refusal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)
        retry = Retry(300.0, 0.0)
        retry.next_delay(IN_USE, 10.0)
        retry.next_delay(REFUSED, 300.0)
        assert "since 2001-09-09 01:46:40 UTC" in str(retry.out_of_time(REFUSED, "/queue/a", 300.0))


def test_the_log_says_what_a_long_pause_is_for() -> None:
    assert next_attempt(AWAY, 0.25) == "trying again, next in 0.2 s"
    assert next_attempt(REFUSED, 45.0).startswith("trying again, next in 45.0 s, slowly because some servers")
    assert "next in 61.0 s, when the broker should have noticed the end" in next_attempt(IN_USE, 61.0)
    others = errors.PasswordUnreadable("..."), errors.TlsRefused("...")
    every = (AWAY, REFUSED, IN_USE, *others)
    assert [is_login_error(one) for one in every] == [False, True, True, True, True]


@pytest.mark.rule("4.8")
@pytest.mark.parametrize(
    ("names", "worth_it", "once_accepted"),
    [
        ("ConnectionLost ConnectFailed ConnectTimeout HeartbeatLost ReceiptTimeout", True, True),
        ("BrokerError ClientIdInUse", True, True),
        ("LoginRefused PasswordUnreadable TlsRefused", False, True),
        ("DestinationRefused LimitExceeded FrameSyntaxError", False, False),
        ("VersionError UnsupportedError DeliveryError", False, False),
    ],
)
def test_what_would_fail_again_is_not_tried_again(names: str, worth_it: bool, once_accepted: bool) -> None:
    for error in (getattr(errors, name)("...") for name in names.split()):
        assert may_recover(error, login_accepted=False) is worth_it
        assert may_recover(error, login_accepted=True) is once_accepted
