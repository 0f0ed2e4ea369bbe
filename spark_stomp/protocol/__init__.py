"""The STOMP core: bytes in, events and bytes out. No socket, no thread, no clock.

``frames``     the frame, two signals, limits       ``grammar``  how each version is read and written
``encoder``    frames to bytes; a client's frames   ``reader``   the receive buffer; reads one frame exactly
``decoder``    bytes to frames and to receipts      ``scanner``  bytes to blocks of raw MESSAGE frames
``layouts``    finds frames by recurring headers    ``raw``      headers of raw frames; malformed messages

``handshake``  versions, heart-beats, CONNECT       ``states``   the transition tables of both halves
``session``    events; the base of both halves      ``client``, ``server``  the two halves
"""

from spark_stomp.errors import ProtocolError
from spark_stomp.protocol.client import ClientConnection
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import ack_handles, encode_frame, handle_header, message_of_handle
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, Limits
from spark_stomp.protocol.grammar import VERSIONS, escape, unescape
from spark_stomp.protocol.handshake import ClientConfig, ack_modes
from spark_stomp.protocol.raw import MalformedMessage, frame_content, read_malformed
from spark_stomp.protocol.scanner import FrameScanner, MessageBlock
from spark_stomp.protocol.server import ServerConfig, ServerConnection
from spark_stomp.protocol.session import (
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
from spark_stomp.protocol.states import State

__all__ = [
    "HEARTBEAT",
    "NEED_DATA",
    "VERSIONS",
    "ClientConfig",
    "ClientConnection",
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
    "State",
    "ack_handles",
    "ack_modes",
    "encode_frame",
    "escape",
    "frame_content",
    "handle_header",
    "message_of_handle",
    "read_malformed",
    "unescape",
]
