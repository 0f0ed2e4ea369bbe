"""The STOMP core: bytes in, events and bytes out. No socket, no thread, no clock.

``frames``     the frame, two signals, limits       ``grammar``  how each version is read and written
``encoder``    frames to bytes; a client's frames   ``reader``   the receive buffer; reads one frame exactly
``decoder``    bytes to frames and to receipts      ``scanner``  bytes to blocks of raw MESSAGE frames
``layouts``    finds frames by recurring headers    ``raw``      headers of raw frames; malformed messages

``handshake``  versions, heart-beats, CONNECT       ``states``   the transition tables of both halves
``session``    events; the base of both halves      ``client``, ``server``  the two halves
"""

from spark_stomp.protocol.client import ClientConnection
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import (
    ack_handles,
    ack_headers,
    encode_frame,
    handle_header,
    message_of_handle,
)
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
    ReceiptReceived,
    ReceiptsReceived,
    ServerEvent,
    foreign_message,
)
from spark_stomp.protocol.states import State
