"""A deadline that is handed down."""

from __future__ import annotations

import pytest

from spark_stomp.deadline import Deadline


def test_what_is_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("spark_stomp.deadline.time.monotonic", lambda: now)
    deadline = Deadline.after(5.0)
    assert (deadline.at, deadline.left(), deadline.passed) == (105.0, 5.0, False)
    now = 105.0
    assert (deadline.left(), deadline.left(0.25), deadline.passed) == (0.0, 0.25, True)
    now = 200.0
    assert (deadline.left(), deadline.passed) == (0.0, True)
