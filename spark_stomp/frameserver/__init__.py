"""The frame server: raw frames from the receivers to the tasks, protected by a token.

Each run has its own token. Off the loopback interface connections use TLS by default, and then both sides
prove that they have the run's key pair.
"""

from spark_stomp.frameserver.client import fetch, report
from spark_stomp.frameserver.server import FrameServer, open_frame_server
from spark_stomp.frameserver.wire import FrameServerAddress, RangeTicket
