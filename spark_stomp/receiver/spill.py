"""Room for frames beyond ``maxBufferedBytes``: unlinked temporary files.

The socket must be read even if Spark is slow: otherwise heart-beats and receipts behind the messages would
never be seen. So frames that do not fit into memory go here. The files have no names, so nothing is left of
them, whatever ends the process. There are several, so that space comes back while some of it is still in use.
"""

from __future__ import annotations

import os
import tempfile

from spark_stomp.errors import DeliveryError

_SEGMENT_BYTES = 64 << 20


class SpillFile:
    """Append-only segments, each closed once nothing in it is in use any more. Not thread-safe."""

    def __init__(self, directory: str | None = None, segment_bytes: int = _SEGMENT_BYTES) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segments: list[_Segment] = []

    @property
    def in_use(self) -> int:
        """Bytes of batches that were put and not freed."""
        return sum(segment.in_use for segment in self._segments)

    @property
    def on_disk(self) -> int:
        """Bytes that the segments take up, freed ones included."""
        return sum(segment.size for segment in self._segments)

    def put(self, data: bytes) -> SpilledBytes:
        """Write ``data`` and return where it is; DeliveryError if the disk is full."""
        try:
            if not self._segments or self._segments[-1].size >= self._segment_bytes:
                self._segments.append(_Segment(self._directory))
            offset = self._segments[-1].append(data)
        except OSError as error:
            raise DeliveryError(
                f"messages beyond maxBufferedBytes cannot be spilled to {tempfile.gettempdir()}: {error}; "
                "they are un-acked and stay on the broker. Free space, or lower prefetch"
            ) from error
        return SpilledBytes(self, self._segments[-1], offset, len(data))

    def free(self, segment: _Segment, length: int) -> None:
        """``length`` bytes of ``segment`` are not needed any more."""
        segment.in_use -= length
        if segment.in_use == 0 and segment in self._segments:
            self._segments.remove(segment)
            segment.close()

    def close(self) -> None:
        """Give up everything."""
        while self._segments:
            self._segments.pop().close()


class _Segment:
    """One file, written once from front to back."""

    def __init__(self, directory: str | None) -> None:
        self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115 - closed when given back
        self.size = 0
        self.in_use = 0

    def append(self, data: bytes) -> int:
        """Write ``data`` at the end; returns where it begins."""
        view, position = memoryview(data), self.size
        while view:
            written = os.pwrite(self._file.fileno(), view, position)
            position += written
            view = view[written:]
        begin, self.size = self.size, position
        self.in_use += len(data)
        return begin

    def read(self, offset: int, length: int) -> bytes:
        parts = []
        while length > 0:
            part = os.pread(self._file.fileno(), length, offset)
            if not part:
                raise DeliveryError("the spill file is shorter than what was written to it")
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()


class SpilledBytes:
    """The data of a batch in a spill file."""

    __slots__ = ("_file", "_length", "_offset", "_segment")

    def __init__(self, file: SpillFile, segment: _Segment, offset: int, length: int) -> None:
        self._file = file
        self._segment = segment
        self._offset = offset
        self._length = length

    def load(self) -> bytes:
        return self._segment.read(self._offset, self._length)

    def free(self) -> None:
        self._file.free(self._segment, self._length)
