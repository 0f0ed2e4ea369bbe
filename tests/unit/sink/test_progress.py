"""When a silent broker counts as blocked, and when it is given up."""

from __future__ import annotations

from spark_stomp.sink.progress import Progress, Verdict


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_blocked_after_the_first_time_and_given_up_after_both() -> None:
    clock = Clock()
    progress = Progress(30, 300, clock)
    clock.now += 29
    assert (progress.check(), progress.due_in()) == (Verdict.WAIT, 1)
    clock.now += 1
    assert (progress.check(), progress.due_in()) == (Verdict.BLOCKED, 300)
    assert progress.check() is Verdict.WAIT
    clock.now += 300
    assert progress.check() is Verdict.TIME_IS_UP
    assert progress.blocked_seconds == 330


def test_progress_begins_anew() -> None:
    clock = Clock()
    progress = Progress(30, 300, clock)
    clock.now += 20
    assert progress.made() == 0
    clock.now += 31
    assert progress.check() is Verdict.BLOCKED
    clock.now += 9
    assert progress.made() == 40
    assert progress.made() == 0
    clock.now += 29
    assert progress.check() is Verdict.WAIT
    assert progress.blocked_seconds == 40


def test_a_short_silence_is_no_block() -> None:
    clock = Clock()
    progress = Progress(30, 300, clock)
    clock.now += 29
    assert (progress.made(), progress.blocked_seconds) == (0, 0)
