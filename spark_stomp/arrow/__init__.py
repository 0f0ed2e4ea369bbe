"""Raw frames to record batches, and record batches to SEND frames; pyarrow and numpy, no pyspark."""

from __future__ import annotations

from spark_stomp.arrow.decode import decode_block
from spark_stomp.arrow.encode import OutgoingMessage, outgoing_messages
from spark_stomp.arrow.raw import RowRules

__all__ = ["OutgoingMessage", "RowRules", "decode_block", "outgoing_messages"]
