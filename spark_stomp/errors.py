"""The exception tree and its codes.

Spark passes only the text of an error from a task or the driver-side reader to the user. So each text begins
with a stable code in brackets (``[STOMP_LOGIN_REFUSED] ...``) and says what was wrong, which value, what is
allowed, and what the broker said, if it said anything. No text holds a secret.

::

    StompError
    ├── OptionError                 STOMP_OPTIONS_INVALID        also a ValueError
    ├── SchemaError                 STOMP_SCHEMA_INVALID         also a ValueError
    ├── UnsupportedError            STOMP_UNSUPPORTED
    ├── WrongPython                 STOMP_WRONG_PYTHON
    ├── ProtocolError
    │   ├── LocalProtocolError      STOMP_LOCAL_PROTOCOL         we tried what the session's state forbids
    │   │   └── FrameEncodeError    STOMP_FRAME_UNENCODABLE      a frame that the version cannot carry
    │   └── RemoteProtocolError     STOMP_REMOTE_PROTOCOL        the peer broke the protocol
    │       ├── FrameSyntaxError    STOMP_FRAME_MALFORMED
    │       ├── VersionError        STOMP_VERSION_REFUSED
    │       ├── HeartbeatLost       STOMP_HEARTBEAT_LOST
    │       └── LimitExceeded       STOMP_LIMIT_EXCEEDED
    │           ├── CommandTooLong      STOMP_COMMAND_TOO_LONG
    │           ├── HeaderLineTooLong   STOMP_HEADER_LINE_TOO_LONG
    │           ├── TooManyHeaders      STOMP_TOO_MANY_HEADERS
    │           ├── BodyTooLarge        STOMP_BODY_TOO_LARGE
    │           └── FrameTooLarge       STOMP_FRAME_TOO_LARGE
    ├── TransportError
    │   ├── ConnectFailed           STOMP_CONNECT_FAILED
    │   ├── ConnectTimeout          STOMP_CONNECT_TIMEOUT
    │   ├── NotStompServer          STOMP_NOT_A_STOMP_SERVER
    │   ├── TlsRefused              STOMP_TLS_REFUSED
    │   └── ConnectionLost          STOMP_CONNECTION_LOST
    ├── BrokerError                 STOMP_BROKER_ERROR           an ERROR frame
    │   ├── LoginRefused            STOMP_LOGIN_REFUSED
    │   │   └── ClientIdInUse       STOMP_CLIENT_ID_IN_USE
    │   └── DestinationRefused      STOMP_DESTINATION_REFUSED
    ├── BodyDecodeError             STOMP_BODY_UNDECODABLE
    ├── MalformedMessageError       STOMP_MESSAGE_MALFORMED      a message that breaks the protocol or a limit
    ├── SinkRowError                STOMP_SINK_ROW_INVALID       such as no body or no destination
    │   ├── RowNotText              STOMP_SINK_ROW_NOT_TEXT
    │   ├── RowUnencodable          STOMP_SINK_ROW_UNENCODABLE   a header that no frame can carry as it is
    │   ├── RowTooLarge             STOMP_SINK_ROW_TOO_LARGE
    │   └── RowWithoutKey           STOMP_SINK_ROW_WITHOUT_KEY   all columns of dedupKey are null
    └── DeliveryError
        ├── ReceiptTimeout          STOMP_RECEIPT_TIMEOUT
        ├── AcksRefused             STOMP_ACKS_REFUSED       an ERROR answers ACKs again and again
        ├── OffsetError             STOMP_OFFSET_INVALID
        ├── RangeUnavailable        STOMP_RANGE_UNAVAILABLE
        ├── CheckpointMismatch      STOMP_CHECKPOINT_MISMATCH
        ├── CheckpointUnreadable    STOMP_CHECKPOINT_UNREADABLE
        ├── FrameServerError           STOMP_FRAME_SERVER_FAILED
        ├── SubscribeTimeout        STOMP_SUBSCRIBE_TIMEOUT
        ├── TooManyMessages         STOMP_TOO_MANY_MESSAGES      a batch read would show a part of them
        └── JournalError            STOMP_JOURNAL
            ├── JournalInUse            STOMP_JOURNAL_IN_USE
            ├── JournalMissing          STOMP_JOURNAL_MISSING    the checkpoint names it, and it is not there
            ├── JournalMismatch         STOMP_JOURNAL_MISMATCH   the checkpoint names another one
            ├── JournalTrimmed          STOMP_JOURNAL_TRIMMED    it no longer has what the checkpoint needs
            ├── JournalDamaged          STOMP_JOURNAL_DAMAGED
            └── JournalUnwritable       STOMP_JOURNAL_UNWRITABLE such as a full disk
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from spark_stomp.quoting import line


class StompError(Exception):
    """Base of every error this package raises. ``str()`` starts with ``[code]``.

    Whatever a sentence quotes, it is shown on one line, printable, and not too long.
    """

    code: ClassVar[str] = "STOMP_ERROR"

    @property
    def message(self) -> str:
        """The text without its code."""
        return line(str(self.args[0])) if self.args else ""

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"


class OptionError(StompError, ValueError):
    """One or more options are unknown, malformed or contradict each other; ``problems`` lists them all."""

    code = "STOMP_OPTIONS_INVALID"

    def __init__(self, problems: Iterable[str] | str) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__(self.problems)

    @property
    def message(self) -> str:
        if len(self.problems) == 1:
            return line(self.problems[0])
        return "\n  - ".join((f"{len(self.problems)} problems:", *map(line, self.problems)))


class SchemaError(StompError, ValueError):
    """A schema asks for a column or a type that the source or the sink does not have."""

    code = "STOMP_SCHEMA_INVALID"


class UnsupportedError(StompError):
    """Asked for something that this broker, mode or version cannot do safely; the message says why."""

    code = "STOMP_UNSUPPORTED"


class WrongPython(StompError):
    """Spark runs its Python code in an interpreter that cannot run this package."""

    code = "STOMP_WRONG_PYTHON"


class ProtocolError(StompError):
    """The STOMP protocol was broken, by us (Local) or by the peer (Remote)."""

    code = "STOMP_PROTOCOL"


class LocalProtocolError(ProtocolError):
    """We tried what the session's state or the negotiated version does not allow; nothing was sent."""

    code = "STOMP_LOCAL_PROTOCOL"


class FrameEncodeError(LocalProtocolError):
    """A frame that the protocol version cannot carry."""

    code = "STOMP_FRAME_UNENCODABLE"


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol; the connection is not usable any more."""

    code = "STOMP_REMOTE_PROTOCOL"


class FrameSyntaxError(RemoteProtocolError):
    """The bytes received are not a frame of the version in force."""

    code = "STOMP_FRAME_MALFORMED"


class VersionError(RemoteProtocolError):
    """No common protocol version, or the peer chose one that was not offered."""

    code = "STOMP_VERSION_REFUSED"


class HeartbeatLost(RemoteProtocolError):
    """Nothing was received for longer than the negotiated heart-beat and its margin."""

    code = "STOMP_HEARTBEAT_LOST"


class LimitExceeded(RemoteProtocolError):
    """The peer sent more than a configured limit allows."""

    code = "STOMP_LIMIT_EXCEEDED"


class CommandTooLong(LimitExceeded):
    code = "STOMP_COMMAND_TOO_LONG"


class HeaderLineTooLong(LimitExceeded):
    code = "STOMP_HEADER_LINE_TOO_LONG"


class TooManyHeaders(LimitExceeded):
    code = "STOMP_TOO_MANY_HEADERS"


class BodyTooLarge(LimitExceeded):
    code = "STOMP_BODY_TOO_LARGE"


class FrameTooLarge(LimitExceeded):
    code = "STOMP_FRAME_TOO_LARGE"


class TransportError(StompError):
    """The byte stream to the broker could not be opened, or it broke."""

    code = "STOMP_TRANSPORT"


class ConnectFailed(TransportError):
    """No connection: refused, unreachable or an unknown host."""

    code = "STOMP_CONNECT_FAILED"


class ConnectTimeout(TransportError):
    """The server did not answer CONNECT within ``connectTimeout``."""

    code = "STOMP_CONNECT_TIMEOUT"


class NotStompServer(TransportError):
    """The server does not speak STOMP (an HTTP server, for example)."""

    code = "STOMP_NOT_A_STOMP_SERVER"


class TlsRefused(TransportError):
    """The two sides do not accept each other: a certificate, a TLS file or the kind of TLS is wrong."""

    code = "STOMP_TLS_REFUSED"


class ConnectionLost(TransportError):
    """An established connection ended unexpectedly."""

    code = "STOMP_CONNECTION_LOST"


class BrokerError(StompError):
    """The broker sent an ERROR frame; its text is quoted."""

    code = "STOMP_BROKER_ERROR"


class LoginRefused(BrokerError):
    """The broker refused CONNECT."""

    code = "STOMP_LOGIN_REFUSED"


class ClientIdInUse(LoginRefused):
    """Another connection uses this ``clientId``: a rival, or the last run if its end was not noticed yet."""

    code = "STOMP_CLIENT_ID_IN_USE"


class DestinationRefused(BrokerError):
    """The broker refused a SUBSCRIBE or a SEND for its destination."""

    code = "STOMP_DESTINATION_REFUSED"


class BodyDecodeError(StompError):
    """A body is not valid in its charset, or the charset is unknown."""

    code = "STOMP_BODY_UNDECODABLE"


class MalformedMessageError(StompError):
    """A message breaks the protocol or a limit; everything received before it is committed."""

    code = "STOMP_MESSAGE_MALFORMED"


class SinkRowError(StompError):
    """A row that the sink cannot send, now or later; the option ``onError`` says what becomes of it."""

    code = "STOMP_SINK_ROW_INVALID"


class RowNotText(SinkRowError):
    """A string of the row is not valid UTF-8."""

    code = "STOMP_SINK_ROW_NOT_TEXT"


class RowUnencodable(SinkRowError):
    """A header of the row, or a text body, that no frame of the version can carry as it is."""

    code = "STOMP_SINK_ROW_UNENCODABLE"


class RowTooLarge(SinkRowError):
    """The row's message is beyond one of the limits on frames, bodies and headers."""

    code = "STOMP_SINK_ROW_TOO_LARGE"


class RowWithoutKey(SinkRowError):
    """Nothing identifies the row: all columns of ``dedupKey`` are null."""

    code = "STOMP_SINK_ROW_WITHOUT_KEY"


class DeliveryError(StompError):
    """The delivery contract could not be kept; nothing was lost."""

    code = "STOMP_DELIVERY"


class ReceiptTimeout(DeliveryError):
    """A receipt of the broker did not come in time."""

    code = "STOMP_RECEIPT_TIMEOUT"


class AcksRefused(DeliveryError):
    """The broker answers the ACKs of a message with an ERROR each time; the message is still there."""

    code = "STOMP_ACKS_REFUSED"


class OffsetError(DeliveryError):
    """An offset that this version cannot read, or that does not fit this query."""

    code = "STOMP_OFFSET_INVALID"


class RangeUnavailable(DeliveryError):
    """A requested range was committed and freed already, or its receiver never held it."""

    code = "STOMP_RANGE_UNAVAILABLE"


class CheckpointMismatch(DeliveryError):
    """``checkpointLocation`` does not name the checkpoint of this query."""

    code = "STOMP_CHECKPOINT_MISMATCH"


class CheckpointUnreadable(DeliveryError):
    """``checkpointLocation`` cannot be read or written at the moment."""

    code = "STOMP_CHECKPOINT_UNREADABLE"


class TooManyMessages(DeliveryError):
    """A batch read found more messages than ``maxMessages`` allows by default: its rows would be a part."""

    code = "STOMP_TOO_MANY_MESSAGES"


class FrameServerError(DeliveryError):
    """A task could not fetch its range from the receiver."""

    code = "STOMP_FRAME_SERVER_FAILED"


class SubscribeTimeout(DeliveryError):
    """The broker did not confirm the subscriptions in time."""

    code = "STOMP_SUBSCRIBE_TIMEOUT"


class JournalError(DeliveryError):
    """The journal cannot be used as it is. Only messages that it holds were ACKed before their commit."""

    code = "STOMP_JOURNAL"


class JournalInUse(JournalError):
    """Another query writes this journal, or took it over."""

    code = "STOMP_JOURNAL_IN_USE"


class JournalMissing(JournalError):
    """The checkpoint names a journal, and it does not exist."""

    code = "STOMP_JOURNAL_MISSING"


class JournalMismatch(JournalError):
    """The checkpoint names another journal than the one found."""

    code = "STOMP_JOURNAL_MISMATCH"


class JournalTrimmed(JournalError):
    """The journal no longer holds messages that the checkpoint has not committed."""

    code = "STOMP_JOURNAL_TRIMMED"


class JournalDamaged(JournalError):
    """Bytes of the journal are missing, or are not what was written."""

    code = "STOMP_JOURNAL_DAMAGED"


class JournalUnwritable(JournalError):
    """The journal cannot be written: a full disk, missing rights."""

    code = "STOMP_JOURNAL_UNWRITABLE"


__all__ = [
    name for name, error in list(vars().items()) if isinstance(error, type) and issubclass(error, StompError)
]
