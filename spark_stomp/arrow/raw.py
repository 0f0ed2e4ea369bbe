"""What a task decodes: raw MESSAGE frames as the receiver found them, and how to read their headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["RowRules"]


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
