"""spark_stomp.threads: who learns how a thread ended, and that no wake-up is lost."""

from __future__ import annotations

import ast
import logging
import threading
from pathlib import Path
from typing import NoReturn

import pytest
from support.waiting import PATIENCE, pause, wait_until

from spark_stomp.errors import DeliveryError, JournalError, StompError
from spark_stomp.threads import Worker, aside

PACKAGE = Path(__file__).resolve().parents[2] / "spark_stomp"


def raises(error: BaseException) -> NoReturn:
    raise error


def test_no_thread_is_started_elsewhere() -> None:
    """Each would have a guard, a name and an end of its own, or none."""
    started = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in ("Thread", "Timer"))
        or (isinstance(node, ast.alias) and node.name in ("Thread", "Timer", "_thread"))
    }
    assert started == {"threads.py"}


class TestTheEnd:
    def test_of_work_that_is_done(self) -> None:
        ended = threading.Event()
        worker = Worker("w", lambda: None, ended=ended.set)
        worker.start()
        assert ended.wait(PATIENCE)
        assert worker.stop(PATIENCE)
        assert worker.failure is None

    def test_an_error_of_ours_is_the_failure_when_its_owner_is_told(self) -> None:
        error, endings = StompError("no"), list[StompError | None]()
        worker = Worker("w", lambda: raises(error), ended=lambda: endings.append(worker.failure))
        worker.start()
        assert worker.stop(PATIENCE)
        assert endings == [error]

    @pytest.mark.rule("7.1")
    @pytest.mark.parametrize("kind", [DeliveryError, JournalError])
    @pytest.mark.parametrize("error", [KeyError("k"), OSError(24, "no descriptor"), MemoryError()])
    def test_what_nobody_expected_is_one_too_and_is_logged(
        self, kind: type[StompError], error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        worker = Worker("stomp-some", lambda: raises(error), unexpected=kind)
        worker.start()
        assert worker.stop(PATIENCE)
        assert type(worker.failure) is kind
        assert f"stomp-some failed unexpectedly: {error!r}" in str(worker.failure)
        (record,) = caplog.records
        assert record.levelno == logging.ERROR and record.exc_info is not None

    @pytest.mark.rule("7.1")
    def test_nor_is_an_error_of_who_is_told_silent(self, caplog: pytest.LogCaptureFixture) -> None:
        worker = Worker("stomp-some", lambda: None, ended=lambda: raises(KeyError("k")))
        worker.start()
        assert worker.stop(PATIENCE)
        assert "stomp-some did not end in order" in caplog.text

    def test_is_waited_for_in_bounds(self) -> None:
        end = threading.Event()
        worker = Worker("w", end.wait)
        worker.start()
        assert not worker.stop(0.05)
        end.set()
        assert worker.stop(PATIENCE)
        assert worker.stop(PATIENCE)

    def test_of_one_that_was_never_started(self) -> None:
        assert Worker("w", lambda: None).stop(PATIENCE)

    def test_stop_ends_each_wait_also_one_that_begins_later(self) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def work() -> None:
            worker.wait(0.0)
            begun.set()
            assert go_on.wait(PATIENCE)
            for _ in range(3):
                worker.wait()
            worker.sleep(PATIENCE)
            assert not worker.goes_on(PATIENCE)

        worker = Worker("w", work)
        worker.start()
        assert begun.wait(PATIENCE)
        assert not worker.stop(0.0)
        go_on.set()
        assert worker.stop(PATIENCE / 2)
        assert worker.failure is None


class TestWaiting:
    def test_no_wake_up_is_lost(self) -> None:
        """One that comes between two waits is the next one's."""
        looked, seen, turn = threading.Semaphore(0), list[bool](), threading.Semaphore(0)

        def work() -> None:
            while not worker.is_stopping:
                turn.acquire()
                seen.append(worker.wait(0.0))
                looked.release()

        worker = Worker("w", work)
        worker.start()
        for woken in (False, True, False, True):
            if woken:
                worker.wake()
                worker.wake()
            turn.release()
            assert looked.acquire(timeout=PATIENCE)
        worker.stop(0.0)
        turn.release()
        assert worker.stop(PATIENCE)
        assert seen == [False, True, False, True, True]

    def test_many_wake_ups_from_another_thread(self) -> None:
        """Whoever wakes it after its news has it seen, however the two threads are interrupted."""
        news, seen = [0], [0]

        def work() -> None:
            while worker.goes_on(PATIENCE):
                seen[0] = news[0]

        worker = Worker("w", work)
        worker.start()
        for number in range(1, 300):
            news[0] = number
            worker.wake()
            wait_until(lambda: seen == news, what="what was told last", every=0.0)
        assert worker.stop(PATIENCE)

    def test_it_ticks(self) -> None:
        ticks = list[int]()

        def work() -> None:
            while worker.goes_on(0.01):
                ticks.append(1)

        worker = Worker("w", work)
        worker.start()
        wait_until(lambda: len(ticks) > 3, what="four ticks")
        assert worker.stop(PATIENCE)
        count = len(ticks)
        pause(0.05)
        assert len(ticks) == count


class TestAside:
    def test_what_it_returns_and_raises(self) -> None:
        assert aside(lambda: 5).result(PATIENCE) == 5
        with pytest.raises(KeyError):
            aside(lambda: raises(KeyError("k"))).result(PATIENCE)
