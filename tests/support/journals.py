"""Frames and keys of messages, and journals to put them in."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

from spark_stomp.files import resolve
from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.journal import Journal, JournalSettings
from spark_stomp.journal.formats import FRAMES
from spark_stomp.journal.store import ArrowStore, Disk, FolderStore, RetryingStore, Store
from spark_stomp.receiver.blocks import frame_keys

RESERVE_BYTES = 2_000

Open = Callable[..., Journal]


def frame(number: int, body: str = "", subscription: str = "") -> bytes:
    """A MESSAGE as a broker with stable ids sends it; the EOL behind it leads the next frame."""
    text = body or f"body {number}"
    own = f"subscription:{subscription}\n" if subscription else ""
    return f"\nMESSAGE\n{own}destination:/queue/a\nmessage-id:ID:{number}\nack:{number}\n\n{text}\0".encode()


def batch_of(first: int, count: int, receiver: str = "/queue/a#0", received_at: int = 7) -> FrameBatch:
    """``count`` frames whose bodies tell their numbers."""
    frames = [frame(first + index) for index in range(count)]
    ends = [*accumulate(map(len, frames))]
    return FrameBatch(b"".join(frames), ends, first, received_at, "1.2", "devbroker", receiver)


def bodies(batches: Iterable[FrameBatch]) -> list[str]:
    """The bodies of all frames, in order."""
    pieces = ((batch.data, *span) for batch in batches for span in pairwise([0, *batch.ends]))
    frames = (bytes(data[begin:end]) for data, begin, end in pieces)
    return [frame.split(b"\n\n", 1)[1].rstrip(b"\0").decode() for frame in frames]


def local_journal(
    directory: Path,
    max_bytes: int = 1 << 30,
    *,
    tolerant: bool = False,
    lock_timeout: float = 0.0,
    max_remembered: int = 1_000,
) -> Journal:
    """On a disk. No frames are gathered."""
    disk = Disk(resolve(str(directory)), RESERVE_BYTES)
    disk.gather, disk.lock_timeout = 0.0, lock_timeout
    return Journal(JournalSettings(str(directory), max_bytes, max_remembered, tolerant), disk)


def object_journal(
    directory: Path,
    max_bytes: int = 1 << 30,
    *,
    tolerant: bool = False,
    through_pyarrow: bool = False,
    max_remembered: int = 1_000,
) -> Journal:
    """On files of this machine, as on a mount or through pyarrow; what fails is tried again at once."""
    location = resolve(str(directory))
    store: Store = FolderStore(location.root, RESERVE_BYTES)
    if through_pyarrow:
        store = ArrowStore(location.files, location.root)
    settings = JournalSettings(str(directory), max_bytes, max_remembered, tolerant)
    return Journal(settings, RetryingStore(store, location, pause=lambda seconds: None))


@contextmanager
def reopened(kind: str, directory: Path, **always: Any) -> Iterator[Open]:
    """Opens the journal in ``directory`` each time; kinds are "disk", "mount" and "pyarrow"."""
    made: list[Journal] = []

    def one(**options: Any) -> Journal:
        for journal in made:
            journal.close()
        given = {**always, **options}
        if kind == "disk":
            made.append(local_journal(directory, **given))
        else:
            made.append(object_journal(directory, through_pyarrow=kind == "pyarrow", **given))
        return made[-1]

    yield one
    for journal in made:
        journal.close()


def fill(journal: Journal, groups: int = 4) -> Journal:
    """Objects of 5 frames each."""
    for number in range(groups):
        journal.append([batch_of(5 * number, 5)])
    return journal


class SmallDisk:
    """``folder`` as a disk or mount with ``size`` bytes: of what does not fit any more, a part is written."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.size = 1 << 30
        monkeypatch.setattr("spark_stomp.journal.store.write_fully", self._written)

    @property
    def used(self) -> int:
        """The bytes of all files there."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def fill(self, free: int = 0) -> None:
        """Only so many bytes are free from now on."""
        self.size = self.used + free

    def _written(self, descriptor: int, data: bytes) -> None:
        free = self.size - self.used
        os.write(descriptor, data[: max(0, free)])
        if free < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")


def expected(low: int, high: int) -> list[str]:
    """The bodies of frames that were numbered from 0 on."""
    return [f"body {number}" for number in range(low, high)]


def objects(directory: Path, folder: str = FRAMES) -> list[Path]:
    """The journal's objects in a folder, oldest first."""
    return sorted((directory / folder).iterdir())


def damage(path: Path, offset: int) -> None:
    """Another byte at ``offset``."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


def key(name: bytes, body: bytes = b"body", destination: str = "/q", subscription: str = "") -> MessageKey:
    own = f"subscription:{subscription}\n" if subscription else ""
    head = f"{own}destination:{destination}".encode()
    data = b"MESSAGE\n%b\n\n%b\0" % (head, body)
    (made,) = frame_keys(FrameBatch(data, [len(data)], 0, 0, "1.2"), [name])
    assert made is not None
    return made
