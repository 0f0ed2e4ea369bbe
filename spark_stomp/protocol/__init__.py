"""The STOMP core: octets in, events and octets out. No socket, no thread, no clock.

``frames``     the frame, two signals, limits        ``versions``   what each version has; negotiation
``grammar``    how each version is read and written  ``heartbeat``  its header and its deadlines
``encoder``    frames to octets; a client's frames   ``ids``        ids in use on a client connection

``buffer``     octets received and not read yet      ``reader``     the exact reading of one frame
``decoder``    octets to frames, and to receipts     ``scanner``    octets to blocks of raw MESSAGE frames
``layouts``    known header layouts, for the scanner  ``malformed``  messages that break a rule
``raw``        headers and bodies of complete raw frames

``handshake``  CONNECT, and the first frame          ``states``     the transition tables of both halves
``client``, ``server``  the two halves of a session  ``session``    what they share
``events``     what they report
"""

from spark_stomp.errors import ProtocolError
from spark_stomp.protocol.client import ClientConnection
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import encode_frame
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
    ReceiptsReceived,
    ServerEvent,
)
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, Limits
from spark_stomp.protocol.grammar import VERSIONS, escape, unescape
from spark_stomp.protocol.handshake import ClientConfig
from spark_stomp.protocol.heartbeat import negotiate_heartbeat, parse_heartbeat
from spark_stomp.protocol.malformed import MalformedMessage, read_malformed
from spark_stomp.protocol.raw import frame_content
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
    "MalformedMessage",
    "MessageBlock",
    "MessageReceived",
    "MessagesScanned",
    "ProtocolError",
    "ReceiptReceived",
    "ReceiptsReceived",
    "ServerConfig",
    "ServerConnection",
    "ServerEvent",
    "ServerState",
    "encode_frame",
    "escape",
    "frame_content",
    "negotiate_heartbeat",
    "parse_heartbeat",
    "read_malformed",
    "unescape",
]
