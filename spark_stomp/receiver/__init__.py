"""The receiver: one subscription over connections that come and go, a window of raw frames, an ack ledger."""

from spark_stomp.framebatch import FrameBatch, MessageKey
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.deliveries import Counts, Deliveries
from spark_stomp.receiver.frame_store import FrameStore, Stored
from spark_stomp.receiver.receiver import Receiver
from spark_stomp.receiver.settings import ReceiverSettings, ReceiverStatus

__all__ = [
    "Counts",
    "DedupIndex",
    "Deliveries",
    "FrameBatch",
    "FrameStore",
    "MessageKey",
    "Receiver",
    "ReceiverSettings",
    "ReceiverStatus",
    "Stored",
]
