"""A store in memory whose every call waits to be let on, may fail, and may take effect late: for tests that
interleave several writers, each in a thread of its own of which only one runs at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from spark_stomp.errors import StompError

Verdict = Literal["go", "fail", "unsure", "late", "die", "die after", "die late", "die torn"]
"""What becomes of a call: it works; it fails; it works but fails to the caller; it fails and works later; the
same with the caller's death, or with half of the object left behind."""

_TIMEOUT = 30.0


_Result = TypeVar("_Result")


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


@dataclass
class SharedStore:
    """``late`` holds what is still on its way."""

    objects: dict[str, bytes] = field(default_factory=dict)
    late: list[Callable[[], object]] = field(default_factory=list)

    def land(self, index: int) -> None:
        """What was on its way arrives."""
        self.late.pop(index % len(self.late))()


class Actor:
    """A writer's process: the store as it sees it, and a thread for what it does."""

    def __init__(self, shared: SharedStore) -> None:
        self._shared = shared
        self._resume = threading.Semaphore(0)
        self._parked = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._verdict: Verdict = "go"
        self._torn: Callable[[], object] | None = None
        self.busy = False
        self.dead = False
        self.disturbed = False
        self.result: Any = None
        self.error: BaseException | None = None

    # --- for the test

    def start(self, action: Callable[[], Any]) -> None:
        """Begin ``action``; returns when it waits at its first call, or is done."""
        self.busy, self.result, self.error = True, None, None
        self._thread = threading.Thread(target=self._run, args=(action,), daemon=True)
        self._thread.start()
        self._wait()

    def step(self, verdict: Verdict = "go") -> None:
        """Let the call on; returns when the next one waits, or all is done."""
        self._verdict = verdict
        self.disturbed |= verdict != "go"
        self._resume.release()
        self._wait()

    def finish(self) -> None:
        """Let everything on."""
        while self.busy:
            self.step()

    def show_half(self) -> None:
        """If an object is being put: another may see the first half of it."""
        if self._torn is not None:
            self._torn()

    def _wait(self) -> None:
        assert self._parked.acquire(timeout=_TIMEOUT), "the thread neither waits nor ends"

    def _run(self, action: Callable[[], Any]) -> None:
        try:
            self.result = action()
        except (Killed, StompError, AssertionError) as error:
            self.error = error
            self.dead = isinstance(error, Killed)
        finally:
            self.busy = False
            self._parked.release()

    def runs_in(self, thread: threading.Thread) -> bool:
        return thread is self._thread

    # --- the store

    def prepare(self, folders: Iterable[str]) -> None:
        """There are no folders."""

    def put(self, path: str, data: bytes) -> None:
        def whole() -> None:
            self._shared.objects[path] = data

        def torn() -> None:
            # What is whole stays so while it is put again.
            self._shared.objects.setdefault(path, data[: len(data) // 2])

        self._call(whole, torn)

    def get(self, path: str) -> bytes:
        def read() -> bytes:
            if path not in self._shared.objects:
                raise FileNotFoundError(path)
            return self._shared.objects[path]

        return self._call(read, reads=True)

    def sizes(self, folder: str) -> dict[str, int]:
        begin = folder + "/"
        return self._call(
            lambda: {
                path.removeprefix(begin): len(data)
                for path, data in self._shared.objects.items()
                if path.startswith(begin)
            },
            reads=True,
        )

    def delete(self, path: str) -> None:
        self._call(lambda: self._shared.objects.pop(path, None))

    def _call(
        self, effect: Callable[[], _Result], torn: Callable[[], object] | None = None, *, reads: bool = False
    ) -> _Result:
        if threading.current_thread() is not self._thread:
            # A reader of the test's own.
            return effect()
        self._torn = torn
        self._parked.release()
        self._resume.acquire()
        self._torn, verdict = None, self._verdict
        if verdict in ("go", "unsure", "die after"):
            result = effect()
        elif verdict in ("late", "die late") and not reads:
            self._shared.late.append(effect)
        elif verdict == "die torn" and torn is not None:
            torn()
        if verdict == "go":
            return result
        raise Killed if verdict.startswith("die") else OSError("the store is busy")
