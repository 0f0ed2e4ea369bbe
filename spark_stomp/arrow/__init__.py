"""Raw frames to record batches, and record batches to SEND frames; pyarrow and numpy, no pyspark."""

from __future__ import annotations

from spark_stomp.arrow.decode import RowRules, decode_frames
from spark_stomp.arrow.encode import OutgoingMessage, outgoing_messages
from spark_stomp.arrow.text import OnError

__all__ = ["OnError", "OutgoingMessage", "RowRules", "decode_frames", "outgoing_messages"]
