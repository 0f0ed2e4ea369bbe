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
from spark_stomp.protocol.client import ClientConnection
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import ClientConfig, ack_for, ack_handle, encode_frame, nack_for
from spark_stomp.protocol.events import (
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
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, Limits
from spark_stomp.protocol.grammar import VERSIONS, escape, unescape
from spark_stomp.protocol.heartbeat import negotiate_heartbeat, parse_heartbeat
from spark_stomp.protocol.scanner import FrameScanner, MessageBlock
from spark_stomp.protocol.server import ServerConfig, ServerConnection
from spark_stomp.protocol.states import ClientState, ServerState

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
