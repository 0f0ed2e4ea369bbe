"""What a session reports. Events are immutable, and their ``repr`` holds no secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from spark_stomp.protocol.frames import Frame
from spark_stomp.protocol.malformed import MalformedMessage
from spark_stomp.protocol.scanner import MessageBlock
from spark_stomp.quoting import quoted, shown

_MESSAGE_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker accepted CONNECT. ``heartbeat``: negotiated (send, receive) intervals in ms, 0 = none."""

    version: str
    server: str | None
    session: str | None
    heartbeat: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """One MESSAGE frame, decoded. If messages are scanned: one of a subscription that was not made here."""

    frame: Frame

    @property
    def stray(self) -> str:
        """A line for the log that says of a foreign message what it is and what becomes of it."""
        subscription, destination = (quoted(self.frame.get(name)) for name in ("subscription", "destination"))
        return (
            f"the broker sent a message of the subscription {subscription}, which this "
            f"connection does not have (destination {destination}): it is left un-acked "
            "and gives no row. Said once, though there may be more"
        )


@dataclass(frozen=True, slots=True)
class MessagesScanned:
    """Consecutive MESSAGE frames, left as bytes (``ClientConfig.scan``)."""

    block: MessageBlock


@dataclass(frozen=True, slots=True)
class ReceiptReceived:
    """The broker has processed the frame that asked for this receipt."""

    receipt_id: str


@dataclass(frozen=True, slots=True)
class ReceiptsReceived:
    """The broker has processed the frames that asked for receipts with these numbers."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class ErrorReceived:
    """An ERROR frame. It ends the session, whether or not the broker closes (STOMP 1.2, "ERROR")."""

    frame: Frame

    @property
    def message(self) -> str:
        """The broker's short text, fit to be shown: its ``message`` header, or else the body's first line."""
        text = (self.frame.get("message") or "").strip() or self.detail.strip().partition("\n")[0].strip()
        return shown(text, _MESSAGE_LENGTH) or "(the broker gave no reason)"

    @property
    def detail(self) -> str:
        """The body as text; bytes that are no UTF-8 are replaced."""
        return self.frame.body.decode("utf-8", "replace")

    @property
    def receipt_id(self) -> str | None:
        """The receipt that the failed frame asked for; None if the broker does not name it."""
        return self.frame.get("receipt-id")


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The session is over.

    ``confirmed``: it ended in order, with the receipt of DISCONNECT (server half: after DISCONNECT). False:
    the bytes ended without that; the transport knows why.
    """

    confirmed: bool = True


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """An EOL between frames."""


@dataclass(frozen=True, slots=True)
class ConnectRequested:
    """Server half: a client asks to connect; answer with ``accept`` or ``error``.

    ``heartbeat`` is the client's (can send, would like) in ms; ``headers`` are all headers of CONNECT.
    """

    login: str | None
    host: str | None
    versions: tuple[str, ...]
    heartbeat: tuple[int, int]
    passcode: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


Event: TypeAlias = (
    Connected
    | MessageReceived
    | MessagesScanned
    | MalformedMessage
    | ReceiptReceived
    | ReceiptsReceived
    | ErrorReceived
    | Disconnected
    | HeartbeatReceived
)

ServerEvent: TypeAlias = ConnectRequested | Frame | Disconnected | HeartbeatReceived
