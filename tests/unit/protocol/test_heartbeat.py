"""STOMP 1.1 and 1.2, "Heart-beating"."""

from __future__ import annotations

import pytest

from spark_stomp.errors import HeartbeatLost, RemoteProtocolError
from spark_stomp.protocol.handshake import (
    HeartbeatTimer,
    parse_heartbeat,
)


class TestHeader:
    def test_missing_means_none(self) -> None:
        assert parse_heartbeat(None) == (0, 0)

    @pytest.mark.parametrize(
        "value",
        [
            *("", "2", ",", ",2", "-1,0", "1, 2", "1,2\n", "1,2,3", "+1,2", "1.5,2"),
            *("١,٢", "9" * 19 + ",0"),
        ],
    )
    def test_anything_else_is_the_peers_fault(self, value: str) -> None:
        with pytest.raises(RemoteProtocolError, match="invalid heart-beat header"):
            parse_heartbeat(value)


class TestTimer:
    def timer(self, send: int = 1000, receive: int = 2000) -> HeartbeatTimer:
        return HeartbeatTimer((send, receive), 100.0, margin=0.5)

    def test_a_beat_is_due_well_within_the_interval(self) -> None:
        timer = self.timer()
        due = timer.deadline()
        assert due is not None and 100.0 < due < 101.0
        assert not timer.beat_due(due - 0.001)
        assert timer.beat_due(due)

    def test_sending_anything_postpones_the_beat(self) -> None:
        timer = self.timer()
        timer.sent(100.5)
        due = timer.deadline()
        assert due is not None and 100.5 < due < 101.5

    def test_the_peer_has_its_interval_and_the_margin(self) -> None:
        timer = self.timer()
        timer.check(102.999)
        with pytest.raises(
            HeartbeatLost, match=r"nothing was received for 3\.0 s.*every 2000 ms, and .* after 3\.0 s"
        ):
            timer.check(103.0)

    def test_any_byte_counts_as_a_sign_of_life(self) -> None:
        timer = self.timer()
        timer.received(102.5)
        timer.check(105.4)
        assert timer.deadline(sending=False) == 105.5

    def test_without_intervals_nothing_is_due(self) -> None:
        timer = self.timer(0, 0)
        assert timer.deadline() is None
        assert not timer.beat_due(1e9)
        timer.check(1e9)

    def test_the_nearer_of_both_deadlines_counts(self) -> None:
        assert self.timer(10_000, 1000).deadline() == 101.5
        assert self.timer(1000, 10_000).deadline() == pytest.approx(100.6)
