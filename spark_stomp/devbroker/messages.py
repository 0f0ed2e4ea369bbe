"""A message as the dev broker keeps it, and as it goes out.

A queue holds mostly headers, so they are kept as octets of STOMP 1.2, not as many strings: this takes a third
of the memory, and a delivery in 1.2 is only a join.
"""

from __future__ import annotations

from copy import copy
from typing import cast

from spark_stomp.errors import FrameEncodeError
from spark_stomp.protocol import Frame, FrameDecoder, encode_frame, escape

# A SEND's headers that steer the broker, and those that only the broker may set on a MESSAGE.
_NOT_PASSED_ON = frozenset(
    {
        "ack",
        "browser",
        "content-length",
        "delivery-count",
        "destination",
        "message-id",
        "receipt",
        "redelivered",
        "subscription",
        "transaction",
    }
)
_COMMAND = b"MESSAGE\n"

Headers = tuple[tuple[str, str], ...]


class Message:
    """One message in one queue.

    Args:
        sequence: orders a queue.
        message_id: stays the same over redeliveries.
        destination: where it was sent to.
        headers: the producer's (see :func:`passed_on`).
        body: as sent.
        raw: header lines that go out first, as they are, to send what no client can.

    Raises:
        FrameEncodeError: a header that STOMP 1.2 cannot carry (an empty name, which 1.0 knows; NUL).
    """

    __slots__ = ("body", "deliveries", "head", "message_id", "raw", "sequence")

    def __init__(
        self,
        sequence: int,
        message_id: str,
        destination: str,
        headers: Headers,
        body: bytes,
        raw: bytes = b"",
    ) -> None:
        all_headers = (("destination", destination), *headers, ("content-length", str(len(body))))
        self.sequence = sequence
        self.message_id = message_id
        self.head = _head(all_headers, body, "1.2")
        self.body = body
        self.raw = raw
        self.deliveries = 0

    def copy(self) -> Message:
        """The same message for another subscriber, not delivered yet."""
        other = copy(self)
        other.deliveries = 0
        return other


def passed_on(headers: Headers) -> Headers:
    """The headers of a SEND that go out with its message, repeats and order kept."""
    return tuple([pair for pair in headers if pair[0] not in _NOT_PASSED_ON])


def delivered(message: Message, first: bytes, version: str) -> bytes:
    """The MESSAGE frame in ``version``; ``first``: this delivery's own header lines, encoded."""
    head = message.head if version == "1.2" or b"\\" not in message.head else _translated(message, version)
    message_id = f"message-id:{escape(message.message_id, version)}\n".encode()
    return b"".join((_COMMAND, first, message_id, message.raw, head, message.body, b"\0"))


def _head(headers: Headers, body: bytes, version: str) -> bytes:
    """The encoded header lines and the empty line after them."""
    encoded = encode_frame(Frame("MESSAGE", headers, body), version)
    return encoded[len(_COMMAND) : len(encoded) - len(body) - 1]


def _translated(message: Message, version: str) -> bytes:
    """The head in a version with fewer escapes.

    A header that this version cannot carry (a line feed in 1.0) stays behind.
    """
    decoder = FrameDecoder("1.2")
    decoder.receive_data(b"".join((_COMMAND, message.head, message.body, b"\0")))
    # What was encoded here is one whole frame.
    frame = cast(Frame, decoder.next_event())
    kept = tuple(pair for pair in frame.headers if _encodable(pair, version))
    return _head(kept, message.body, version)


def _encodable(pair: tuple[str, str], version: str) -> bool:
    if pair[0] == "content-length":
        return True
    try:
        encode_frame(Frame("MESSAGE", (pair,)), version)
    except FrameEncodeError:
        return False
    return True
