"""The receiver: one subscription over connections that come and go, a window of raw frames, an ack ledger."""

from spark_stomp.receiver.book import KeyBook
from spark_stomp.receiver.deliveries import Counts, Deliveries
from spark_stomp.receiver.keys import Key
from spark_stomp.receiver.receiver import Receiver
from spark_stomp.receiver.status import ReceiverSettings, ReceiverStatus
from spark_stomp.receiver.window import FrameRun, Stored, Window

__all__ = [
    "Counts",
    "Deliveries",
    "FrameRun",
    "Key",
    "KeyBook",
    "Receiver",
    "ReceiverSettings",
    "ReceiverStatus",
    "Stored",
    "Window",
]
