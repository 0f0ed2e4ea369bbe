"""Room for frames beyond ``maxBufferedBytes``: an unlinked temporary file.

The socket has to be read even when Spark is slow, or heart-beats and receipts behind the messages would never
be seen; so what does not fit into memory goes here. The file has no name, so nothing is left of it whatever
ends the process.
"""

from __future__ import annotations

import os
import tempfile
from typing import IO

from spark_stomp.errors import DeliveryError

__all__ = ["SpillFile", "SpilledBytes"]


class SpillFile:
    """Append-only while anything in it is in use; then its space is given back. Not thread-safe."""

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._end = 0
        self._in_use = 0

    @property
    def in_use(self) -> int:
        """Bytes that are held in the file for blocks not yet released."""
        return self._in_use

    def put(self, data: bytes) -> SpilledBytes:
        """Write ``data`` and return where it is; DeliveryError where the disk is full."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115 - lives with the window
        try:
            self._write(data)
        except OSError as error:
            raise DeliveryError(
                f"messages beyond maxBufferedBytes cannot be spilled to {tempfile.gettempdir()}: {error}; "
                "they are un-acked and stay on the broker. Free space, or lower prefetch"
            ) from error
        spilled = SpilledBytes(self, self._end, len(data))
        self._end += len(data)
        self._in_use += len(data)
        return spilled

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        view = memoryview(data)
        position = self._end
        while view:
            written = os.pwrite(self._file.fileno(), view, position)
            position += written
            view = view[written:]

    def get(self, offset: int, length: int) -> bytes:
        assert self._file is not None
        parts = []
        while length > 0:
            part = os.pread(self._file.fileno(), length, offset)
            if not part:
                raise DeliveryError("the spill file is shorter than what was written to it")
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)

    def release(self, length: int) -> None:
        """``length`` bytes are not needed any more."""
        self._in_use -= length
        if self._in_use == 0 and self._file is not None:
            os.ftruncate(self._file.fileno(), 0)
            self._end = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class SpilledBytes:
    """A block's data in a spill file."""

    __slots__ = ("_file", "_length", "_offset")

    def __init__(self, file: SpillFile, offset: int, length: int) -> None:
        self._file = file
        self._offset = offset
        self._length = length

    def load(self) -> bytes:
        return self._file.get(self._offset, self._length)

    def release(self) -> None:
        self._file.release(self._length)
