"""The receiver: one connection, one subscription, a window of raw un-acked frames, and its ack ledger."""

from spark_stomp.receiver.ledger import AckLedger
from spark_stomp.receiver.receiver import Receiver, ReceiverSettings, ReceiverStatus
from spark_stomp.receiver.window import FrameRun, Window

__all__ = ["AckLedger", "FrameRun", "Receiver", "ReceiverSettings", "ReceiverStatus", "Window"]
