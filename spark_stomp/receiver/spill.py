"""Room for frames beyond ``maxBufferedBytes``: unlinked temporary files.

Frames that do not fit into memory go here, up to ``maxSpillBytes``. The files have no names, so nothing is
left of them, whatever ends the process. There are several, so that space comes back while some of it is still
in use.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable

from spark_stomp.errors import DeliveryError
from spark_stomp.journal.files import OpenFile, lacks_room

_LARGEST_SEGMENT = 64 << 20
_SMALLEST_SEGMENT = 64 << 10
# So many segments fit into the bound: of the oldest one a part may be freed already.
_SEGMENTS = 8


class SpillFile:
    """Append-only segments, each given up once nothing in it is in use any more.

    One thread puts; any thread may load and free. ``free`` and ``close`` do no I/O, so that they may be
    called under a lock: the files they give up are closed by :meth:`reclaim`, or after their last reader.
    """

    def __init__(self, directory: str | None = None, segment_bytes: int = _LARGEST_SEGMENT) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        # Of the lists and numbers here and in the segments; never held while a file is used.
        self._lock = threading.Lock()
        self._segments: list[_Segment] = []
        self._given_up: list[OpenFile | None] = []

    @property
    def in_use(self) -> int:
        """Bytes of batches that were put and not freed."""
        return sum(segment.in_use for segment in list(self._segments))

    @property
    def on_disk(self) -> int:
        """Bytes that the segments take up, freed ones included."""
        return sum(segment.size for segment in list(self._segments))

    @property
    def directory(self) -> str:
        """Where the files are."""
        return self._directory or tempfile.gettempdir()

    def put(self, data: bytes) -> SpilledBytes | None:
        """Write ``data`` and return where it is; None if the disk has no room for it.

        DeliveryError if it cannot be written for another reason.
        """
        self.reclaim()
        try:
            spilled = self._reserved(len(data))
            try:
                spilled.write(data)
            except OSError:
                spilled.take_back()
                raise
        except OSError as error:
            if lacks_room(error):
                return None
            raise DeliveryError(
                f"messages beyond maxBufferedBytes cannot be spilled to {self.directory}: {error}; they are "
                "un-acked and stay on the broker. Set TMPDIR to a folder that can be written, or lower "
                "maxSpillBytes or prefetch"
            ) from error
        return spilled

    def _reserved(self, length: int) -> SpilledBytes:
        fresh: _Segment | None = None
        while True:
            with self._lock:
                if fresh is not None:
                    self._segments.append(fresh)
                if self._segments and self._segments[-1].size < self._segment_bytes:
                    segment = self._segments[-1]
                    offset = segment.size
                    segment.size += length
                    segment.in_use += length
                    return SpilledBytes(self, segment, offset, length)
            fresh = _Segment(self._directory)

    def free(self, segment: _Segment, length: int) -> None:
        """``length`` bytes of ``segment`` are not needed any more."""
        with self._lock:
            segment.in_use -= length
            if segment.in_use == 0 and segment in self._segments:
                self._segments.remove(segment)
                self._given_up.append(segment.give_up())

    def close(self) -> None:
        """Give up everything."""
        with self._lock:
            self._given_up += [segment.give_up() for segment in self._segments]
            self._segments.clear()

    def reclaim(self) -> None:
        """Close the files that were given up."""
        with self._lock:
            closing, self._given_up = self._given_up, []
        closing.clear()


def segment_bytes(max_bytes: int) -> int:
    """The size of a segment if all of them may take up ``max_bytes``."""
    return min(max(max_bytes // _SEGMENTS, _SMALLEST_SEGMENT), _LARGEST_SEGMENT)


class _Segment:
    """One file, written once from front to back."""

    def __init__(self, directory: str | None) -> None:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            self._file: OpenFile | None = OpenFile(os.dup(file.fileno()))
        self.size = 0
        self.in_use = 0

    @property
    def file(self) -> OpenFile:
        """The file, open as long as somebody has this."""
        if self._file is None:
            raise DeliveryError("the spill file was given up: its frames were freed, or the query has ended")
        return self._file

    def give_up(self) -> OpenFile | None:
        file, self._file = self._file, None
        return file


class SpilledBytes:
    """The data of a batch in a spill file."""

    __slots__ = ("_file", "_length", "_parts", "_segment")

    def __init__(self, file: SpillFile, segment: _Segment, offset: int, length: int) -> None:
        self._file = file
        self._segment = segment
        self._length = length
        self._parts = [(offset, length)]

    def write(self, data: bytes) -> None:
        """Write what room was reserved for; OSError as the system raises it."""
        view, position = memoryview(data), self._parts[0][0]
        while view:
            written = os.pwrite(self._segment.file.descriptor, view, position)
            position += written
            view = view[written:]

    def take_back(self) -> None:
        """It could not be written, and its room is that of the next one."""
        self._segment.size -= self._length
        self.free()

    def select(self, stretches: Iterable[tuple[int, int]]) -> None:
        """Of the data, only the bytes of these stretches (begin, end) are wanted."""
        offset = self._parts[0][0]
        self._parts = [(offset + begin, end - begin) for begin, end in stretches]

    def load(self) -> bytes:
        """Read it back. Needs no lock: what was written is never written again."""
        file = self._segment.file
        data = b"".join(file.read(offset, length) for offset, length in self._parts)
        if len(data) < sum(length for _, length in self._parts):
            raise DeliveryError("the spill file is shorter than what was written to it")
        return data

    def free(self) -> None:
        self._file.free(self._segment, self._length)
