"""The STOMP core: bytes in, events and bytes out. No socket, no thread, no clock.

``frames``     the frame, limits, each version's rules      ``handshake``  versions, heart-beats, CONNECT
``encoder``    frames to bytes; a client's frames           ``session``    states, events, base of both halves
``decoder``    bytes to frames, one by one, exactly         ``client``, ``server``  the two halves
``scanner``    bytes to blocks of raw MESSAGE frames, or to receipts
``layouts``    finds frames of known layouts
``raw``        headers of raw frames; malformed messages
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
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, VERSIONS, Frame, Limits, escape, unescape
from spark_stomp.protocol.handshake import ClientConfig, ack_modes
from spark_stomp.protocol.raw import (
    MalformedMessage,
    frame_content,
    octet_headers,
    read_malformed,
    read_message,
)
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
    SessionState,
    foreign_message,
)
