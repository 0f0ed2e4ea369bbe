"""Ways to misbehave on purpose, for tests of what a client does then."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

__all__ = ["Faults"]


@dataclass
class Faults:
    """What the dev broker does wrong. Set the fields at any time; they hold from the next frame on.

    Args:
        refuse: destinations whose SUBSCRIBE and SEND are answered with ERROR.
        withhold_receipts: commands ("SEND", "ACK", ...) that are obeyed without ever sending their receipt.
        answer_nothing: read everything, obey nothing, send nothing, no heart-beats either.
        drop_after_frames: close a connection without a word once it sent so many frames after CONNECT.
        drop_after_deliveries: close a connection without a word once it was sent so many messages.
    """

    refuse: Container[str] = ()
    withhold_receipts: Container[str] = ()
    answer_nothing: bool = False
    drop_after_frames: int | None = None
    drop_after_deliveries: int | None = None

    def drops(self, frames: int, deliveries: int) -> bool:
        """Whether a connection with these counts is to be dropped."""
        return (self.drop_after_frames is not None and frames >= self.drop_after_frames) or (
            self.drop_after_deliveries is not None and deliveries >= self.drop_after_deliveries
        )
