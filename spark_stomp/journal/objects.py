"""The objects of a journal: those that hold frames, and those of the dedup log.

Each object of frames is read and checked as a whole, and its content kept up to a bound. A batch is planned,
read and often read again soon after its frames came, so objects that were just written are kept too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_stomp.errors import JournalDamaged, JournalFull
from spark_stomp.frame_batch import FrameBatch, FrameIndex, MessageKey
from spark_stomp.journal.formats import (
    FRAMES,
    KEYS,
    ByteRange,
    FramesName,
    KeysName,
    RecordHead,
    WriterName,
    decode_batch,
    encode_batch,
    is_intact,
    lost,
    pack_keys,
    parse_head,
    unpack_keys,
)
from spark_stomp.journal.store import RetryingStore
from spark_stomp.quoting import counted

# --- frames

# Bytes of contents that are kept: eight objects of the largest size.
_MAX_BYTES: Final = 64 << 20


class FrameObjects:
    """The objects of frames in ``store``: how they are put and read. Any thread may read.

    A method that reads an object raises JournalDamaged if the object is missing or was changed, and
    JournalError if it cannot be read. Up to 64 MiB of contents are kept; indexes are kept until :meth:`free`.
    """

    def __init__(self, store: RetryingStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._contents: OrderedDict[FramesName, bytes] = OrderedDict()
        self._content_bytes = 0
        self._indexes: dict[FramesName, FrameIndex[ByteRange]] = {}

    def put(
        self, batches: Sequence[FrameBatch], first: int, committed: int, writer: WriterName
    ) -> FramesName:
        """Put an object with ``batches``, at the positions from ``first`` on; returns its name."""
        heads, parts, end = list[RecordHead](), list[bytes | memoryview](), first
        for batch in batches:
            head, record = encode_batch(batch, end)
            heads.append(head)
            parts += record
            end = head.end
        content = b"".join(parts)
        name = FramesName(first, end - first, committed, writer, len(content))
        self._store.put(f"{FRAMES}/{name}", content)
        self._keep(name, content, self._indexed(name, heads))
        return name

    def check(self, name: FramesName) -> None:
        """Read an object that an earlier writer may not have finished. It is durable when this returns."""
        self._read(name, durably=True)

    def free(self, name: FramesName) -> None:
        """Forget an object that was deleted."""
        with self._lock:
            self._indexes.pop(name, None)
            self._content_bytes -= len(self._contents.pop(name, b""))

    def index(self, name: FramesName) -> FrameIndex[ByteRange]:
        """The index of the frames in an object; the object is read if it has no index yet."""
        with self._lock:
            index = self._indexes.get(name)
        return self._read(name)[1] if index is None else index

    def batches(self, name: FramesName, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames of [low, high) that are in the object ``name``."""
        content = memoryview(self._content(name))
        for piece in self.index(name).overlapping(low, high):
            for head, record in piece.item.records(content):
                if head.end > low and head.first < high:
                    yield decode_batch(head, record).part(low, high)

    def _content(self, name: FramesName) -> bytes:
        with self._lock:
            content = self._contents.get(name)
            if content is not None:
                self._contents.move_to_end(name)
                return content
        return self._read(name)[0]

    def _read(self, name: FramesName, *, durably: bool = False) -> tuple[bytes, FrameIndex[ByteRange]]:
        """The content of an object and its index."""
        path = f"{FRAMES}/{name}"
        try:
            content = self._store.reread(path) if durably else self._store.get(path)
        except FileNotFoundError:
            raise JournalDamaged(f"{path} is missing: {lost(name.first, name.end)}") from None
        heads = _intact_heads(name, content)
        if heads is None:
            raise JournalDamaged(f"{path} is damaged: {lost(name.first, name.end)}")
        index = self._indexed(name, heads)
        self._keep(name, content, index)
        return content, index

    def _keep(self, name: FramesName, content: bytes, index: FrameIndex[ByteRange]) -> None:
        with self._lock:
            self._indexes[name] = index
            self._content_bytes += 0 if name in self._contents else len(content)
            self._contents[name] = content
            while self._content_bytes > _MAX_BYTES:
                self._content_bytes -= len(self._contents.popitem(last=False)[1])

    def _indexed(self, name: FramesName, heads: Sequence[RecordHead]) -> FrameIndex[ByteRange]:
        index: FrameIndex[ByteRange] = FrameIndex(partial(self._ends, name), ByteRange.joined)
        offset = 0
        for head in heads:
            index.append(head.first, head.count, head.data_bytes, ByteRange(offset, offset + head.size))
            offset += head.size
        return index

    def _ends(self, name: FramesName, range: ByteRange) -> npt.NDArray[np.int64]:
        return range.ends(memoryview(self._content(name)))


def _intact_heads(name: FramesName, content: bytes) -> list[RecordHead] | None:
    """The heads of the records in the object ``name``; None if ``content`` is not as it was written."""
    view, heads, offset, position = memoryview(content), list[RecordHead](), 0, name.first
    while offset < len(content):
        head = parse_head(view[offset:])
        if head is None or head.first != position or not is_intact(head, view[offset:]):
            return None
        heads.append(head)
        offset, position = offset + head.size, head.end
    return heads if position == name.end and offset == name.size else None


# --- the dedup log

# Beyond this many objects of keys, one replaces them. More mean more requests when a journal is opened, fewer
# mean that all keys are put again more often.
_MOST_OBJECTS: Final = 64


class DedupLog:
    """The dedup log in ``store``: the keys of committed messages whose frames were deleted.

    The broker may redeliver such a message later. Its key is put before its frame is deleted, so that it is
    recognised whatever process dies. When there are more than 64 objects of keys, one object with all keys
    replaces them. It is put before the others are deleted: a crash in between leaves keys twice, which
    changes nothing.

    The newest ``most`` keys are kept. The constructor reads them, and raises FileNotFoundError if another
    writer deletes objects meanwhile.
    """

    def __init__(self, store: RetryingStore, most: int) -> None:
        self._store = store
        sizes = KeysName.sizes(store.sizes(KEYS))
        whole = (name for name in sizes if sizes[name] == name.size)
        found = {name: unpack_keys(store.reread(f"{KEYS}/{name}")) for name in whole}
        broken = [name for name in sizes if found.get(name) is None]
        # A writer puts one object after the other, so a crash can leave only its last one unfinished. No
        # frame of these keys was deleted yet.
        last = {name.writer: name for name in sizes}
        self._unfinished = [name for name in broken if last[name.writer] == name]
        self._damaged = len(broken) - len(self._unfinished)
        self._names = [name for name in sizes if name not in self._unfinished]
        # Most keys come twice: when a message is committed, and when its ACK is confirmed.
        self._keys = deque((key for keys in found.values() for key in keys or ()), maxlen=2 * most)
        self._most = most

    @property
    def keys(self) -> list[MessageKey]:
        """The remembered keys, oldest first."""
        return [*islice(dict.fromkeys(reversed(self._keys)), self._most)][::-1]

    @property
    def damage(self) -> list[str]:
        """A sentence about what is damaged or lost."""
        if not self._damaged:
            return []
        return [
            f"{counted(self._damaged, 'damaged object')} under {KEYS}: keys of committed messages are lost, "
            "and a redelivery of these messages would give a second row"
        ]

    def append(self, keys: Sequence[MessageKey], writer: WriterName) -> None:
        """Make ``keys`` durable."""
        self._put(keys, writer)
        self._keys.extend(keys)
        if len(self._names) > _MOST_OBJECTS:
            # If there is no room, a later append does this.
            with suppress(JournalFull):
                self._merge(writer)

    def clear(self, writer: WriterName) -> None:
        """Delete what writers before ``writer`` did not finish."""
        self._store.delete(KEYS, (str(name) for name in self._unfinished if name.writer < writer))

    def _merge(self, writer: WriterName) -> None:
        old = self._names
        self._put(self.keys, writer)
        self._names = self._names[-1:]
        self._store.delete(KEYS, map(str, old))

    def _put(self, keys: Sequence[MessageKey], writer: WriterName) -> None:
        content = pack_keys(keys)
        number = self._names[-1].number + 1 if self._names else 0
        name = KeysName(number, len(keys), writer, len(content))
        self._store.put(f"{KEYS}/{name}", content)
        self._names = [*self._names, name]
