"""The receivers of a query: each keeps one subscription open, holds its raw frames and sends their ACKs.

To read the code, begin with receiver.py, the thread and its connection, and deliveries.py, the rules for each
message.
"""

from spark_stomp.receiver.dedup import MAX_REMEMBERED, DedupIndex
from spark_stomp.receiver.deliveries import Deliveries, Offer, new_epoch, offer
from spark_stomp.receiver.frame_store import FrameStore
from spark_stomp.receiver.receiver import Receiver
from spark_stomp.receiver.status import Counts, ReceiverStatus
from spark_stomp.receiver.stream_cursor import StreamCursor, begin_of
from spark_stomp.receiver.stream_deliveries import StreamDeliveries
from spark_stomp.receiver.stream_log import require_streams, stream_ends
from spark_stomp.receiver.stream_receiver import StreamReceiver
from spark_stomp.receiver.subscription import ReceiverSettings

__all__ = [
    "MAX_REMEMBERED",
    "Counts",
    "DedupIndex",
    "Deliveries",
    "FrameStore",
    "Offer",
    "Receiver",
    "ReceiverSettings",
    "ReceiverStatus",
    "StreamCursor",
    "StreamDeliveries",
    "StreamReceiver",
    "begin_of",
    "new_epoch",
    "offer",
    "require_streams",
    "stream_ends",
]
