"""Several writers of one journal on an object store, interleaved at each call: no position has two meanings,
and nothing that was returned is lost.

The store is in memory. Each of its calls waits until the test lets it go on, may fail, and may take effect
late. Each writer has its own thread, and only one runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow.fs as fs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from support.journals import batch_of, bodies
from support.soak import long_property

from spark_stomp.errors import JournalError, JournalInUse, JournalUnwritable, StompError
from spark_stomp.files import Location
from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.journal import Journal, JournalSettings
from spark_stomp.journal.formats import FRAMES, KEYS, STATES
from spark_stomp.journal.store import RetryingStore

MOST_ALIVE = 3
LOCATION = Location(fs.LocalFileSystem(), "/nowhere", "memory")
FAULTS = ["fail", "unsure", "late", "die", "die after", "die late", "die torn"]
"""What becomes of a call, if it does not "go": it fails; it works but fails to the caller; it fails and works
later; the same with the caller's death, or with half of the object left behind."""


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


@dataclass
class SharedStore:
    """``late`` holds what is still on its way."""

    objects: dict[str, bytes] = field(default_factory=dict)
    late: list[Callable[[], object]] = field(default_factory=list)


class Writer:
    """A writer's process: the store as it sees it, and a thread for what it does.

    ``rank`` orders writers of one generation, and is drawn, so that no run depends on chance.
    """

    def __init__(self, shared: SharedStore, number: int, rank: int) -> None:
        self.id = f"{rank:x}{number:015x}"
        self.journal: Journal | None = None
        self.done: Callable[[Any], None] = lambda result: None
        self._shared = shared
        self._resume, self._parked = threading.Semaphore(0), threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self._verdict = "go"
        self._torn: Callable[[], object] | None = None
        self.busy = self.dead = self.disturbed = False
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def usable(self) -> bool:
        return self.journal is not None and not self.busy and not self.dead

    def is_older_than(self, journal: Journal) -> bool:
        return self.journal is not None and self.journal.writer < journal.writer

    def opened(self) -> Journal:
        # So small that many objects are needed.
        settings = JournalSettings("memory", 1, max_remembered=1_000)
        return Journal(settings, RetryingStore(self, LOCATION, pause=lambda seconds: None))

    # --- for the test

    def start(self, action: Callable[[], Any]) -> None:
        """Begin ``action``; returns when it waits at its first call, or is done."""
        self.busy, self.result, self.error = True, None, None
        self.thread = threading.Thread(target=self._run, args=(action,), daemon=True)
        self.thread.start()
        self._wait()

    def step(self, verdict: str = "go") -> None:
        """Let the call go on; returns when the next one waits, or all is done."""
        self._verdict = verdict
        self.disturbed |= verdict != "go"
        self._resume.release()
        self._wait()

    def finish(self) -> None:
        """Let everything go on."""
        while self.busy:
            self.step()

    def show_half(self) -> None:
        """If an object is being put: another may see the first half of it."""
        if self._torn is not None:
            self._torn()

    def _wait(self) -> None:
        assert self._parked.acquire(timeout=30.0), "the thread neither waits nor ends"

    def _run(self, action: Callable[[], Any]) -> None:
        try:
            self.result = action()
        except (Killed, StompError, AssertionError) as error:
            self.error, self.dead = error, isinstance(error, Killed)
        finally:
            self.busy = False
            self._parked.release()

    # --- the store

    def prepare(self, folders: Iterable[str]) -> None:
        """There are no folders."""

    def put(self, path: str, data: bytes) -> None:
        objects = self._shared.objects
        # What is whole stays so while it is put again.
        self._call(
            lambda: objects.update({path: data}), lambda: objects.setdefault(path, data[: len(data) // 2])
        )

    def get(self, path: str) -> bytes:
        def read() -> bytes:
            if path not in self._shared.objects:
                raise FileNotFoundError(path)
            return self._shared.objects[path]

        return self._call(read, reads=True)

    def sizes(self, folder: str) -> dict[str, int]:
        """In two steps, as a listing in pages: what comes or goes in between may be in it or not."""

        def listed() -> dict[str, int]:
            paths = ((path.partition(folder + "/"), data) for path, data in self._shared.objects.items())
            return {name: len(data) for (before, mark, name), data in paths if mark and not before}

        first = self._call(listed, reads=True)
        if folder in (FRAMES, STATES, KEYS):
            early = sorted(first)[: len(first) // 2]
            later = self._call(listed, reads=True)
            late = (name for name in later if not early or name > early[-1])
            return {name: first[name] for name in early} | {name: later[name] for name in late}
        return first

    def delete(self, path: str) -> None:
        self._call(lambda: self._shared.objects.pop(path, None))

    def _call(
        self, effect: Callable[[], Any], torn: Callable[[], object] | None = None, *, reads: bool = False
    ) -> Any:
        if threading.current_thread() is not self.thread:
            return effect()  # the test itself reads
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


class Takeover(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shared = SharedStore()
        self.writers: list[Writer] = []
        self.made = 0
        self.frames = 0
        self.committed = 0
        # What each position means, and which writer's append returned it.
        self.meaning: dict[int, str] = {}
        self.returned: dict[int, Writer] = {}
        # Keys whose frames may be gone, and who made them durable.
        self.remembered: list[tuple[MessageKey, Writer]] = []
        self.patches = [
            mock.patch("spark_stomp.journal.opening.secrets", SimpleNamespace(token_hex=self._random)),
            mock.patch("spark_stomp.journal.journal.secrets", SimpleNamespace(token_hex=self._random)),
            mock.patch("spark_stomp.journal.journal._SMALLEST_OBJECT", 250),
            mock.patch("spark_stomp.journal.objects._MOST_OBJECTS", 2),
        ]
        for patch in self.patches:
            patch.start()

    def _random(self, size: int) -> str:
        # Whoever asks runs in the thread of its writer.
        thread = threading.current_thread()
        return next(writer.id for writer in self.writers if writer.thread is thread)

    def teardown(self) -> None:
        try:
            self._everything_is_served_in_the_end()
        finally:
            for writer in self.writers:
                while writer.busy:
                    writer.step("die")
            for patch in self.patches:
                patch.stop()

    def _everything_is_served_in_the_end(self) -> None:
        self._open(15).finish()
        last = self._collect(self.writers[-1])
        assert last.journal is not None
        assert all(position < last.journal.end for position in self.returned if position >= self.committed)
        self._start(last, lambda: last.journal and last.journal.append([batch_of(0, 1)]), lambda _: None)
        last.finish()
        assert last.error is None

    # --- what happens

    @precondition(lambda self: len(self.writers) < MOST_ALIVE)
    @rule(rank=st.integers(0, 15))
    def open(self, rank: int) -> None:
        self._open(rank)

    @precondition(lambda self: self._busy())
    @rule(index=st.integers(0, 9), times=st.integers(1, 12))
    def go_on(self, index: int, times: int) -> None:
        writer = self._one(self._busy(), index)
        for _ in range(times):
            if writer.busy:
                writer.step()
        self._collect(writer)

    @precondition(lambda self: self._busy())
    @rule(index=st.integers(0, 9), fault=st.sampled_from(FAULTS))
    def disturb(self, index: int, fault: str) -> None:
        writer = self._one(self._busy(), index)
        writer.step(fault)
        self._collect(writer)

    @precondition(lambda self: self._busy())
    @rule(index=st.integers(0, 9))
    def half_of_an_object_is_seen(self, index: int) -> None:
        self._one(self._busy(), index).show_half()

    @precondition(lambda self: self.shared.late)
    @rule(index=st.integers(0, 9))
    def what_was_on_its_way_arrives(self, index: int) -> None:
        self.shared.late.pop(index % len(self.shared.late))()

    @precondition(lambda self: self._usable())
    @rule(index=st.integers(0, 9), counts=st.lists(st.integers(1, 3), min_size=1, max_size=3))
    def append(self, index: int, counts: list[int]) -> None:
        writer, journal = self._usable_one(index)
        batches = list(self._new_batches(counts))
        self._start(
            writer,
            lambda: journal.append(batches),
            lambda positions: self._returned(writer, batches, positions),
        )

    @precondition(lambda self: self._usable())
    @rule(index=st.integers(0, 9), share=st.floats(0, 1), last=st.booleans())
    def commit_and_trim(self, index: int, share: float, last: bool) -> None:
        writer, journal = self._usable_one(index)
        position = journal.end if last else int(journal.end * share)
        self.committed = max(self.committed, position)
        journal.commit(position)

        key = MessageKey("/queue/a", b"%d" % len(self.remembered), b"d" * 16)

        def clean() -> bool:
            first = journal.first
            journal.remember([key])
            journal.trim(position)
            return journal.first > first

        self._start(writer, clean, lambda trimmed: trimmed and self.remembered.append((key, writer)))

    @precondition(lambda self: self._usable())
    @rule(index=st.integers(0, 9))
    def flush(self, index: int) -> None:
        writer, journal = self._usable_one(index)
        self._start(writer, journal.flush, lambda _: None)

    @precondition(lambda self: self._opened())
    @rule(index=st.integers(0, 9))
    def read(self, index: int) -> None:
        journal = self._one(self._opened(), index).journal
        assert journal is not None
        self._check(journal)

    # --- what must hold

    def _returned(self, writer: Writer, batches: list[FrameBatch], positions: list[int]) -> None:
        for batch, first in zip(batches, positions, strict=True):
            for position, body in enumerate(bodies([batch]), first):
                assert position not in self.returned, f"{position} was given away twice"
                assert self.meaning.setdefault(position, body) == body
                self.returned[position] = writer

    def _taken_over(self, writer: Writer, journal: Journal) -> None:
        writer.journal = journal
        for position, by in self.returned.items():
            if by.is_older_than(journal) and position >= self.committed:
                assert journal.first <= position < journal.end, f"{position} is lost"
        for key, by in self.remembered:
            assert not by.is_older_than(journal) or key in journal.remembered_keys
        self._check(journal)

    def _check(self, journal: Journal) -> None:
        """What is not committed can be read, and reads as ever."""
        for position in range(max(journal.first, self.committed), journal.end):
            (body,) = bodies(journal.batches(position, position + 1))
            assert self.meaning.setdefault(position, body) == body

    # --- how it happens

    def _open(self, rank: int) -> Writer:
        writer = Writer(self.shared, self.made, rank)
        self.made += 1
        self.writers.append(writer)
        self._start(writer, writer.opened, lambda journal: self._taken_over(writer, journal))
        return writer

    def _start(self, writer: Writer, action: Callable[[], Any], done: Callable[[Any], None]) -> None:
        writer.done = done
        writer.start(action)
        self._collect(writer)

    def _collect(self, writer: Writer) -> Writer:
        """Check how a call ended, once."""
        if writer.busy or writer not in self.writers:
            return writer
        error, done, writer.done = writer.error, writer.done, lambda result: None
        if error is None:
            done(writer.result)
            return writer
        assert isinstance(error, (Killed, JournalInUse)) or (
            isinstance(error, (JournalUnwritable, JournalError)) and writer.disturbed
        ), repr(error)
        self.writers.remove(writer)
        return writer

    def _new_batches(self, counts: list[int]) -> Iterator[FrameBatch]:
        for count in counts:
            yield batch_of(self.frames, count)
            self.frames += count

    @staticmethod
    def _one(writers: list[Writer], index: int) -> Writer:
        return writers[index % len(writers)]

    def _busy(self) -> list[Writer]:
        return [writer for writer in self.writers if writer.busy]

    def _usable_one(self, index: int) -> tuple[Writer, Journal]:
        writer = self._one(self._usable(), index)
        assert writer.journal is not None
        return writer, writer.journal

    def _usable(self) -> list[Writer]:
        return [writer for writer in self.writers if writer.usable]

    def _opened(self) -> list[Writer]:
        return [writer for writer in self.writers if writer.journal is not None]


Takeover.TestCase.settings = long_property(80, steps=60)
TestTakeover = Takeover.TestCase
