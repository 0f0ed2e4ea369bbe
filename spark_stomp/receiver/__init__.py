"""Receivers: each has one connection at a time with its subscriptions, takes messages and sends their ACKs.

Begin with receiver.py (the thread), reading.py (one connection) and deliveries.py (the rules for messages).
The inbox, for messages without numbers, is in blocks.py; the log, for those with numbers, is in log.py.
"""

from spark_stomp.receiver.blocks import Block
from spark_stomp.receiver.dedup import MAX_REMEMBERED, DedupIndex
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.log import Log
from spark_stomp.receiver.look_reading import LookReading
from spark_stomp.receiver.reading import DISCONNECT_TIMEOUT, disconnect
from spark_stomp.receiver.receiver import Receiver
from spark_stomp.receiver.status import ReceiverStatus
from spark_stomp.receiver.stream import FIRST, LATEST, StreamProgress, StreamStart, start_at, stream_start
from spark_stomp.receiver.stream_offsets import ask_stream_ends, require_streams
from spark_stomp.receiver.stream_reading import StreamDeliveries, StreamReading, began_anew
from spark_stomp.receiver.subscription import ReceiverSettings, unknowns
