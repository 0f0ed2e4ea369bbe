"""The STOMP core: octets in, events and octets out. No socket, no thread, no clock.

``frames``    the frame and the two signals           ``limits``   how large a frame may be
``grammar``   what differs between versions           ``encoder``  frames to octets
``head``      command and header lines                ``reader``   the exact reading of one frame
``buffer``    what was received and not yet read      ``layouts``  header layouts worth a quick path
``decoder``   octets to frames                        ``scanner``  octets to blocks of raw MESSAGE frames
``runs``      how the scanner finds many at once

``client``, ``server``  the two halves of a session   ``session``      what they share
``states``    their transition tables                 ``events``       what they tell
``requests``  the frames a client sends               ``acks``         what an ACK names, per version
``names``     ids in use on a connection              ``heartbeat``    its header and its deadlines
``versions``, ``negotiation``  agreeing on a version  ``opening``      the first frame, before that
"""

from spark_stomp.errors import ProtocolError

from .acks import ack_for, ack_handle, nack_for
from .client import ClientConnection
from .decoder import FrameDecoder
from .encoder import encode_frame
from .events import (
    Connected,
    ConnectRequested,
    Disconnected,
    ErrorReceived,
    Event,
    HeartbeatReceived,
    MessageReceived,
    MessagesScanned,
    ReceiptReceived,
    ServerEvent,
)
from .frames import HEARTBEAT, NEED_DATA, Frame
from .grammar import VERSIONS, escape, unescape
from .heartbeat import negotiate_heartbeat, parse_heartbeat
from .limits import Limits
from .requests import ClientConfig
from .scanner import FrameScanner, MessageBlock
from .server import ServerConfig, ServerConnection
from .states import ClientState, ServerState

__all__ = [
    "HEARTBEAT",
    "NEED_DATA",
    "VERSIONS",
    "ClientConfig",
    "ClientConnection",
    "ClientState",
    "ConnectRequested",
    "Connected",
    "Disconnected",
    "ErrorReceived",
    "Event",
    "Frame",
    "FrameDecoder",
    "FrameScanner",
    "HeartbeatReceived",
    "Limits",
    "MessageBlock",
    "MessageReceived",
    "MessagesScanned",
    "ProtocolError",
    "ReceiptReceived",
    "ServerConfig",
    "ServerConnection",
    "ServerEvent",
    "ServerState",
    "ack_for",
    "ack_handle",
    "encode_frame",
    "escape",
    "nack_for",
    "negotiate_heartbeat",
    "parse_heartbeat",
    "unescape",
]
