"""Malformed messages as rows: the headers that are readable, and the whole frame as body.

The receiver has said which frames are malformed, and why. Their batches hold no good ones.
"""

from __future__ import annotations

import pyarrow as pa

from spark_stomp.arrow.exact_path import ExactHeaders
from spark_stomp.framebatch import FrameBatch
from spark_stomp.protocol import Frame, read_malformed


class MalformedRows(ExactHeaders):
    """Headers and bodies of a batch of malformed frames; see :class:`spark_stomp.arrow.decode.Headers`."""

    def __init__(self, batch: FrameBatch) -> None:
        data = bytes(batch.data)
        ends = [int(end) for end in batch.ends]
        raw = [data[begin:end].lstrip(b"\n") for begin, end in zip([0, *ends], ends, strict=False)]
        super().__init__([Frame("MESSAGE", read_malformed(one, batch.version).headers, one) for one in raw])

    def bodies(self) -> pa.Array:
        """The frames from their commands to their NULs."""
        return pa.array([frame.body for frame in self._frames], pa.binary())

    def texts(self) -> pa.Array:
        """The same as text; what is not UTF-8 is replaced by U+FFFD."""
        return pa.array([frame.body.decode(errors="replace") for frame in self._frames], pa.string())
