"""A cache of objects that hold frames: each is read and checked as a whole, and kept up to a bound.

A batch is planned, read and often read again soon after its frames came, so objects that were just written
are kept too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_stomp.errors import JournalDamaged
from spark_stomp.frame_batch import FrameBatch, FrameIndex
from spark_stomp.journal.objects.blobs import Blobs
from spark_stomp.journal.objects.object_names import FRAMES, FramesName
from spark_stomp.journal.records import HEAD_BYTES, Record, Stretch, decode_batch, is_intact, parse_head

# Bytes of contents that are kept: eight objects of the largest size. A judgement, not measured.
_MAX_BYTES: Final = 64 << 20


class ObjectCache:
    """A cache of objects that hold frames: their contents and their indexes. Any thread may use it.

    A method that reads an object raises JournalDamaged if the object is missing or was changed, and
    JournalError if it cannot be read. ``max_bytes`` bounds the contents that are kept; indexes are kept until
    :meth:`free`.
    """

    def __init__(self, blobs: Blobs, max_bytes: int = _MAX_BYTES) -> None:
        self._blobs = blobs
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._contents: OrderedDict[FramesName, bytes] = OrderedDict()
        self._content_bytes = 0
        self._indexes: dict[FramesName, FrameIndex[Stretch]] = {}

    def __len__(self) -> int:
        """How many objects have an index in the cache."""
        return len(self._indexes)

    @property
    def content_bytes(self) -> int:
        """How many bytes of contents are kept."""
        return self._content_bytes

    def keep(self, name: FramesName, content: bytes) -> FrameIndex[Stretch]:
        """Keep ``content``, which was put under ``name`` or read from there; returns its index."""
        index = self._indexed(name, content)
        if index is None:
            raise JournalDamaged(
                f"{FRAMES}/{name} is damaged: messages [{name.first}, {name.end}) of the journal are lost"
            )
        with self._lock:
            self._indexes[name] = index
            self._content_bytes += 0 if name in self._contents else len(content)
            self._contents[name] = content
            while self._content_bytes > self._max_bytes:
                self._content_bytes -= len(self._contents.popitem(last=False)[1])
        return index

    def free(self, name: FramesName) -> None:
        """Forget an object that was deleted."""
        with self._lock:
            self._indexes.pop(name, None)
            self._content_bytes -= len(self._contents.pop(name, b""))

    def index(self, name: FramesName) -> FrameIndex[Stretch]:
        """The index of the frames in an object; the object is read if it has no index yet."""
        with self._lock:
            index = self._indexes.get(name)
        return self.keep(name, self._fetched(name)) if index is None else index

    def batches(self, name: FramesName, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames of [low, high) that are in the object ``name``."""
        content = memoryview(self._content(name))
        for piece in self.index(name).overlapping(low, high):
            for head, offset in ((one.head, one.offset) for one in piece.item.records(_reading(content))):
                if head.end > low and head.first < high:
                    yield decode_batch(head, content[offset : offset + head.size]).part(low, high)

    def _content(self, name: FramesName) -> bytes:
        with self._lock:
            content = self._contents.get(name)
            if content is not None:
                self._contents.move_to_end(name)
                return content
        content = self._fetched(name)
        self.keep(name, content)
        return content

    def _fetched(self, name: FramesName) -> bytes:
        try:
            return self._blobs.get(f"{FRAMES}/{name}")
        except FileNotFoundError:
            raise JournalDamaged(
                f"{FRAMES}/{name} is missing: messages [{name.first}, {name.end}) of the journal are lost"
            ) from None

    def _indexed(self, name: FramesName, content: bytes) -> FrameIndex[Stretch] | None:
        """The index of an object with this content; None if the content is not as it was written."""
        view = memoryview(content)
        index: FrameIndex[Stretch] = FrameIndex(partial(self._ends, name), Stretch.joined)
        offset, position = 0, name.first
        while offset < len(content):
            head = parse_head(view[offset : offset + HEAD_BYTES])
            if head is None or head.first != position or not is_intact(head, view[offset:]):
                return None
            index.append(position, head.count, head.data_bytes, Record(head, offset).stretch())
            offset, position = offset + head.size, head.end
        return index if position == name.end and offset == name.size else None

    def _ends(self, name: FramesName, stretch: Stretch) -> npt.NDArray[np.int64]:
        return stretch.ends(_reading(memoryview(self._content(name))))


def _reading(content: memoryview) -> Callable[[int, int], memoryview]:
    """A function that reads a part of ``content``, given by offset and length."""
    return lambda offset, length: content[offset : offset + length]
