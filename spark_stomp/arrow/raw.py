"""What a task decodes: raw MESSAGE frames as the receiver found them, and how to read their headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

__all__ = ["RawBlock", "RowRules"]


@dataclass(frozen=True, slots=True)
class RawBlock:
    """Consecutive complete MESSAGE frames of one receiver, less than 2 GiB of them.

    Attributes:
        data: the frames' bytes, with the EOLs that stood between them.
        ends: for each frame the offset in ``data`` just after its NUL; frame i lies in
            ``data[ends[i - 1]:ends[i]]``, and EOLs may lead it.
        version: the protocol version that the frames were sent in.
        received_at: when they were read, in microseconds since the epoch (UTC): one time for all, or an array
            with one for each.
        receiver: the epoch of the receiver.
        first_sequence: the sequence number of the first frame; the others follow without a gap.
    """

    data: bytes | memoryview
    ends: npt.NDArray[np.int64]
    version: str
    received_at: int | npt.NDArray[np.int64]
    receiver: str
    first_sequence: int


@dataclass(frozen=True, slots=True)
class RowRules:
    """What the broker's dialect and the query's options say about turning headers into columns.

    Attributes:
        id_header: the header whose value is the ``stable_id``, as it reads unescaped; None where the broker
            has none.
        timestamp_unit: the unit of the ``timestamp`` header.
        id_separator: the ``stable_id`` is what follows the last one in the header; None means all of it.
        body_decode_errors: what an undecodable body gives when text was asked for: an error, or null.
    """

    id_header: str | None
    timestamp_unit: Literal["ms", "s"]
    body_decode_errors: Literal["error", "null"] = "error"
    id_separator: str | None = None
