"""Raw frames to record batches, and record batches to SEND frames; pyarrow and numpy, no pyspark."""

from __future__ import annotations

from spark_stomp.arrow.decode import RowRules, decode_frames
from spark_stomp.arrow.encode import RowEncoder
from spark_stomp.arrow.send_rules import SendRules, TimeToLive
from spark_stomp.arrow.slices import RECEIPT_BASE, RECEIPT_PREFIX, EncodedSlice, receipt_id, receipt_number
from spark_stomp.arrow.text import OnError

__all__ = [
    "RECEIPT_BASE",
    "RECEIPT_PREFIX",
    "EncodedSlice",
    "OnError",
    "RowEncoder",
    "RowRules",
    "SendRules",
    "TimeToLive",
    "decode_frames",
    "receipt_id",
    "receipt_number",
]
