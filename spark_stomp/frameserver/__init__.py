"""The frame server: raw frames from the receivers to the tasks, over Arrow Flight, behind a token of its run.

Off the loopback interface it speaks TLS, and both sides prove that they have the run's key.
"""

from spark_stomp.frameserver.client import fetch
from spark_stomp.frameserver.server import FrameServer, open_frame_server
from spark_stomp.frameserver.wire import FrameServerAddress, RangeTicket

__all__ = ["FrameServer", "FrameServerAddress", "RangeTicket", "fetch", "open_frame_server"]
