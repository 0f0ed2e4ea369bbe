"""What an ACK or NACK names, per version (STOMP 1.0 "ACK"; 1.1 and 1.2 "ACK", "NACK").

1.0 names the MESSAGE's ``message-id``, 1.1 adds ``subscription``, and 1.2 names, as ``id``, the ``ack``
header of the MESSAGE.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_stomp.errors import LocalProtocolError
from spark_stomp.protocol.frames import Frame
from spark_stomp.protocol.grammar import escape
from spark_stomp.protocol.versions import has_nack

__all__ = ["ack_for", "ack_handle", "ack_headers", "encode_acks", "nack_for"]


def ack_handle(message: Frame, version: str) -> str:
    """What an ACK of this MESSAGE has to name.

    Leniency: a 1.2 broker that sends no ``ack`` header is answered with its ``message-id``, for the sake of
    brokers that took 1.2 over without it.

    Raises:
        LocalProtocolError: the message has nothing to name.
    """
    handle = message.get("ack") if version == "1.2" else None
    if handle is None:
        handle = message.get("message-id")
    if not handle:
        raise LocalProtocolError("this message cannot be acknowledged: it has no message-id")
    return handle


def ack_headers(subscription_id: str | None, handle: str, version: str) -> tuple[tuple[str, str], ...]:
    """The headers that name a message in an ACK or NACK of ``version``."""
    if version == "1.2":
        return (("id", handle),)
    if version == "1.1" and subscription_id is not None:
        return (("message-id", handle), ("subscription", subscription_id))
    if version == "1.1":
        raise LocalProtocolError("in STOMP 1.1 an acknowledgement names its subscription, and there is none")
    return (("message-id", handle),)


def ack_for(message: Frame, version: str) -> Frame:
    """The ACK frame for a MESSAGE frame."""
    return Frame("ACK", ack_headers(message.get("subscription"), ack_handle(message, version), version))


def nack_for(message: Frame, version: str) -> Frame:
    """The NACK frame for a MESSAGE frame.

    Raises:
        LocalProtocolError: the version has no NACK.
    """
    if not has_nack(version):
        raise LocalProtocolError(f"STOMP {version} has no NACK")
    return Frame("NACK", ack_headers(message.get("subscription"), ack_handle(message, version), version))


def encode_acks(
    subscription_id: str, handles: Sequence[bytes], version: str, *, receipt: str | None = None
) -> bytes:
    """The bytes of one ACK per handle, in order; built by joins, without a frame per message.

    Args:
        subscription_id: the subscription that delivered them (named in 1.1 only).
        handles: the values as they stood on the wire, still escaped (``MessageBlock.acks``).
        receipt: asked for by the last ACK.

    Raises:
        LocalProtocolError: a handle is empty or holds a byte that cannot stand in a header.
    """
    if not handles:
        return b""
    head, tail = _around(subscription_id, version)
    body = (tail + b"\n\0" + head).join(handles)
    _check_joined(body, handles, head.count(b"\n") + tail.count(b"\n") + 1)
    receipt_line = b"" if receipt is None else b"receipt:" + escape(receipt, version).encode() + b"\n"
    return b"".join((head, body, tail, receipt_line, b"\n\0"))


def _around(subscription_id: str, version: str) -> tuple[bytes, bytes]:
    """What stands before and after the handle in an ACK, up to the end of its last header line."""
    if version == "1.2":
        return b"ACK\nid:", b"\n"
    if version == "1.1":
        return b"ACK\nmessage-id:", b"\nsubscription:" + escape(subscription_id, version).encode() + b"\n"
    return b"ACK\nmessage-id:", b"\n"


def _check_joined(body: bytes, handles: Sequence[bytes], lines: int) -> None:
    """Refuse what a handle must not hold: counting over all of them at once costs next to nothing."""
    gaps = len(handles) - 1
    if b"" in handles:
        raise LocalProtocolError("a message without message-id cannot be acknowledged")
    if body.count(b"\n") != lines * gaps or body.count(b"\0") != gaps:
        raise LocalProtocolError("an acknowledgement handle holds a line feed or a NUL")
