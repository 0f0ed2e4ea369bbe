"""The exception tree and its codes.

An error in a task, or in the reader beside the driver, reaches the user only as text. So each text begins
with a stable code in brackets (``[STOMP_LOGIN_REFUSED] ...``). The text says what was wrong, which value,
what is allowed, and what the broker said, if anything. No text contains a secret.

::

    StompError
    ├── OptionError                 STOMP_OPTIONS_INVALID        also a ValueError
    ├── SchemaError                 STOMP_SCHEMA_INVALID         also a ValueError
    ├── UnsupportedError            STOMP_UNSUPPORTED
    ├── WrongPython                 STOMP_WRONG_PYTHON
    ├── PasswordUnreadable          STOMP_PASSWORD_UNREADABLE    the file of passwordFile
    ├── ProtocolError
    │   ├── LocalProtocolError      STOMP_LOCAL_PROTOCOL         we tried what STOMP does not allow now
    │   │   └── FrameEncodeError    STOMP_FRAME_UNENCODABLE      a frame that the version cannot carry
    │   └── RemoteProtocolError     STOMP_REMOTE_PROTOCOL        the peer broke the protocol
    │       ├── FrameSyntaxError    STOMP_FRAME_MALFORMED
    │       ├── VersionError        STOMP_VERSION_REFUSED
    │       ├── HeartbeatLost       STOMP_HEARTBEAT_LOST
    │       └── LimitExceeded       STOMP_LIMIT_EXCEEDED         a frame that is too large, for example
    ├── TransportError
    │   ├── ConnectFailed           STOMP_CONNECT_FAILED
    │   ├── ConnectTimeout          STOMP_CONNECT_TIMEOUT
    │   ├── NotStompServer          STOMP_NOT_A_STOMP_SERVER
    │   ├── TlsRefused              STOMP_TLS_REFUSED
    │   └── ConnectionLost          STOMP_CONNECTION_LOST
    │       └── SubscriptionForgotten  STOMP_SUBSCRIPTION_FORGOTTEN
    ├── BrokerError                 STOMP_BROKER_ERROR           an ERROR frame
    │   ├── LoginRefused            STOMP_LOGIN_REFUSED
    │   │   └── ClientIdInUse       STOMP_CLIENT_ID_IN_USE
    │   └── DestinationRefused      STOMP_DESTINATION_REFUSED
    ├── HeaderNotText               STOMP_HEADER_NOT_TEXT        only a reason in the column malformed
    ├── BodyDecodeError             STOMP_BODY_UNDECODABLE
    ├── MalformedMessageError       STOMP_MESSAGE_MALFORMED      a message that breaks the protocol or a limit
    ├── SinkRowError                STOMP_SINK_ROW_INVALID       no body or no destination, for example
    │   ├── RowNotText              STOMP_SINK_ROW_NOT_TEXT
    │   ├── RowUnencodable          STOMP_SINK_ROW_UNENCODABLE   a header that no frame can carry unchanged
    │   ├── RowTooLarge             STOMP_SINK_ROW_TOO_LARGE
    │   ├── RowRefused              STOMP_SINK_ROW_REFUSED       the broker refuses the row's destination
    │   └── RowWithoutKey           STOMP_SINK_ROW_WITHOUT_KEY   all columns of dedupKey are null
    └── DeliveryError
        ├── ReceiptTimeout          STOMP_RECEIPT_TIMEOUT
        ├── AcksRefused             STOMP_ACKS_REFUSED           an ERROR answers ACKs again and again
        ├── MessageUndeliverable    STOMP_MESSAGE_UNDELIVERABLE  an ERROR comes in place of a message
        ├── OffsetError             STOMP_OFFSET_INVALID
        ├── RangeUnavailable        STOMP_RANGE_UNAVAILABLE
        ├── CheckpointMismatch      STOMP_CHECKPOINT_MISMATCH
        ├── CheckpointUnreadable    STOMP_CHECKPOINT_UNREADABLE
        ├── FrameServerError        STOMP_FRAME_SERVER_FAILED
        ├── SubscribeTimeout        STOMP_SUBSCRIBE_TIMEOUT
        ├── DrainTimeout            STOMP_DRAIN_TIMEOUT          it ended while a connection was lost
        ├── StreamTimeout           STOMP_STREAM_TIMEOUT         offsets that are there did not come
        ├── StreamTruncated         STOMP_STREAM_TRUNCATED       offsets of a stream are gone
        ├── TooManyMessages         STOMP_TOO_MANY_MESSAGES      a batch read would show only some of them
        └── JournalError            STOMP_JOURNAL
            ├── JournalInUse            STOMP_JOURNAL_IN_USE
            ├── JournalMissing          STOMP_JOURNAL_MISSING    the checkpoint names one that does not exist
            ├── JournalMismatch         STOMP_JOURNAL_MISMATCH   the checkpoint names another one
            ├── JournalTrimmed          STOMP_JOURNAL_TRIMMED    it no longer has what the checkpoint needs
            ├── JournalDamaged          STOMP_JOURNAL_DAMAGED
            └── JournalUnwritable       STOMP_JOURNAL_UNWRITABLE rights are missing, for example
                └── JournalFull             STOMP_JOURNAL_FULL       its disk is full
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

from spark_stomp.quoting import line

Verdict: TypeAlias = Literal["passes", "either", "message", "stays"]
"""What an error says about the request that it answers.

- passes: the same request succeeds later, and nobody has to change anything.
- either: that is not known.
- message: it fails because of one message, and others succeed.
- stays: it succeeds only after somebody has changed something: a right, a queue, an option.
"""


class StompError(Exception):
    """Base of every error that this package raises. ``str()`` starts with ``[code]``.

    The text is one printable line of bounded length, whatever it quotes.

    ``verdict``: what the broker's words mean; None if they answer no request and are not known, or if these
    are not a broker's words. ``unasked``: they are known to end a subscription, and answer no request.
    """

    code: ClassVar[str] = "STOMP_ERROR"
    verdict: Verdict | None = None
    unasked: bool = False

    @property
    def message(self) -> str:
        """The text without its code."""
        return line(str(self.args[0])) if self.args else ""

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"


class OptionError(StompError, ValueError):
    """Options are unknown, malformed or contradict each other. ``problems`` lists all problems."""

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
    """A schema asks for a column or a type that does not exist."""

    code = "STOMP_SCHEMA_INVALID"


class UnsupportedError(StompError):
    """The broker, the mode or the version cannot safely do what was asked for. The text says why."""

    code = "STOMP_UNSUPPORTED"


class WrongPython(StompError):
    """Spark runs its Python code in an interpreter that cannot run this package."""

    code = "STOMP_WRONG_PYTHON"


class PasswordUnreadable(StompError):
    """The file of ``passwordFile`` cannot be read, or contains no password."""

    code = "STOMP_PASSWORD_UNREADABLE"


class ProtocolError(StompError):
    """This package (LocalProtocolError) or the peer (RemoteProtocolError) broke the STOMP protocol."""

    code = "STOMP_PROTOCOL"


class LocalProtocolError(ProtocolError):
    """We tried what the session's state or version does not allow. Nothing was sent."""

    code = "STOMP_LOCAL_PROTOCOL"


class FrameEncodeError(LocalProtocolError):
    """The protocol version cannot carry this frame."""

    code = "STOMP_FRAME_UNENCODABLE"


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol. The connection cannot be used any more."""

    code = "STOMP_REMOTE_PROTOCOL"


class FrameSyntaxError(RemoteProtocolError):
    """The received bytes are not a frame of the session's version."""

    code = "STOMP_FRAME_MALFORMED"


class VersionError(RemoteProtocolError):
    """The two sides have no version in common. Perhaps the peer chose one that was not offered."""

    code = "STOMP_VERSION_REFUSED"


class HeartbeatLost(RemoteProtocolError):
    """Nothing was received for longer than the heart-beats allow."""

    code = "STOMP_HEARTBEAT_LOST"


class LimitExceeded(RemoteProtocolError):
    """The peer sent more than a limit on frames allows. The text names the limit."""

    code = "STOMP_LIMIT_EXCEEDED"


class TransportError(StompError):
    """The connection to the broker could not be opened, or it broke."""

    code = "STOMP_TRANSPORT"


class ConnectFailed(TransportError):
    """The connection was refused, or the host is unreachable or unknown."""

    code = "STOMP_CONNECT_FAILED"


class ConnectTimeout(TransportError):
    """The server did not answer CONNECT within ``connectTimeout``."""

    code = "STOMP_CONNECT_TIMEOUT"


class NotStompServer(TransportError):
    """The server does not speak STOMP. It speaks HTTP, for example."""

    code = "STOMP_NOT_A_STOMP_SERVER"


class TlsRefused(TransportError):
    """A certificate, a TLS file or the version of TLS is wrong."""

    code = "STOMP_TLS_REFUSED"


class ConnectionLost(TransportError):
    """An established connection ended unexpectedly."""

    code = "STOMP_CONNECTION_LOST"


class SubscriptionForgotten(ConnectionLost):
    """A connection is of no use: the broker has forgotten a subscription of it, and told nothing."""

    code = "STOMP_SUBSCRIPTION_FORGOTTEN"


class BrokerError(StompError):
    """The broker sent an ERROR frame. The text quotes it."""

    code = "STOMP_BROKER_ERROR"


class LoginRefused(BrokerError):
    """The broker refused CONNECT."""

    code = "STOMP_LOGIN_REFUSED"


class ClientIdInUse(LoginRefused):
    """Another connection uses this ``clientId``, perhaps one of the last run."""

    code = "STOMP_CLIENT_ID_IN_USE"


class DestinationRefused(BrokerError):
    """The broker refused a SUBSCRIBE or a SEND because of its destination."""

    code = "STOMP_DESTINATION_REFUSED"


class HeaderNotText(StompError):
    """A header's value is not UTF-8, or has a NUL. The row has it all the same."""

    code = "STOMP_HEADER_NOT_TEXT"


class BodyDecodeError(StompError):
    """A body is not valid in its charset or encoding, its charset is unknown, or the broker left it out."""

    code = "STOMP_BODY_UNDECODABLE"


class MalformedMessageError(StompError):
    """A message breaks the protocol or a limit. Everything received before it is committed."""

    code = "STOMP_MESSAGE_MALFORMED"


class SinkRowError(StompError):
    """The sink can never send this row. The option ``onError`` says what happens to it."""

    code = "STOMP_SINK_ROW_INVALID"


class RowNotText(SinkRowError):
    """A string of the row is not valid UTF-8."""

    code = "STOMP_SINK_ROW_NOT_TEXT"


class RowUnencodable(SinkRowError):
    """No frame can carry a header of the row, or its text, unchanged."""

    code = "STOMP_SINK_ROW_UNENCODABLE"


class RowTooLarge(SinkRowError):
    """The row's message exceeds a limit on frames, bodies or headers."""

    code = "STOMP_SINK_ROW_TOO_LARGE"


class RowRefused(SinkRowError):
    """The broker refuses the row's message, whose destination the row names."""

    code = "STOMP_SINK_ROW_REFUSED"


class RowWithoutKey(SinkRowError):
    """Nothing identifies the row: all columns of ``dedupKey`` are null."""

    code = "STOMP_SINK_ROW_WITHOUT_KEY"


class DeliveryError(StompError):
    """The delivery contract cannot be kept. The query fails rather than lose messages."""

    code = "STOMP_DELIVERY"


class ReceiptTimeout(DeliveryError):
    """The broker did not send a receipt in time."""

    code = "STOMP_RECEIPT_TIMEOUT"


class AcksRefused(DeliveryError):
    """The broker answers each ACK of a message with an ERROR. It still has the message."""

    code = "STOMP_ACKS_REFUSED"


class MessageUndeliverable(DeliveryError):
    """The broker ends each connection to which it has to deliver the message at the head of a queue.

    That message was not ACKed, and those behind it wait. Everything before it is committed and ACKed.
    """

    code = "STOMP_MESSAGE_UNDELIVERABLE"


class OffsetError(DeliveryError):
    """This release cannot read an offset, or the offset does not fit this query."""

    code = "STOMP_OFFSET_INVALID"


class RangeUnavailable(DeliveryError):
    """A requested range is committed already, or its log never had it."""

    code = "STOMP_RANGE_UNAVAILABLE"


class CheckpointMismatch(DeliveryError):
    """``checkpointLocation`` does not name the checkpoint of this query."""

    code = "STOMP_CHECKPOINT_MISMATCH"


class CheckpointUnreadable(DeliveryError):
    """``checkpointLocation`` cannot be read or written."""

    code = "STOMP_CHECKPOINT_UNREADABLE"


class TooManyMessages(DeliveryError):
    """A batch read found more messages than the default of ``maxMessages``."""

    code = "STOMP_TOO_MANY_MESSAGES"


class FrameServerError(DeliveryError):
    """A task could not fetch its range from the receiver."""

    code = "STOMP_FRAME_SERVER_FAILED"


class SubscribeTimeout(DeliveryError):
    """The broker did not confirm all subscriptions in time."""

    code = "STOMP_SUBSCRIBE_TIMEOUT"


class DrainTimeout(DeliveryError):
    """There was no connection when a drain had to end, so messages may be left."""

    code = "STOMP_DRAIN_TIMEOUT"


class StreamTimeout(DeliveryError):
    """Offsets of a stream of RabbitMQ did not come in time, although the stream has them."""

    code = "STOMP_STREAM_TIMEOUT"


class StreamTruncated(DeliveryError):
    """Offsets of a stream of RabbitMQ are gone that the query has not read."""

    code = "STOMP_STREAM_TRUNCATED"


class JournalError(DeliveryError):
    """The journal cannot be used. Messages that were ACKed before their commit are in the journal."""

    code = "STOMP_JOURNAL"


class JournalInUse(JournalError):
    """Another query writes this journal, or took it over."""

    code = "STOMP_JOURNAL_IN_USE"


class JournalMissing(JournalError):
    """The checkpoint names a journal that does not exist."""

    code = "STOMP_JOURNAL_MISSING"


class JournalMismatch(JournalError):
    """The checkpoint names another journal."""

    code = "STOMP_JOURNAL_MISMATCH"


class JournalTrimmed(JournalError):
    """Messages that are not committed are gone from the journal."""

    code = "STOMP_JOURNAL_TRIMMED"


class JournalDamaged(JournalError):
    """Bytes of the journal are missing, or are not what was written."""

    code = "STOMP_JOURNAL_DAMAGED"


class JournalUnwritable(JournalError):
    """The journal cannot be written: rights are missing, for example."""

    code = "STOMP_JOURNAL_UNWRITABLE"


class JournalFull(JournalUnwritable):
    """The disk of the journal has no room, or the user's quota ends. Nothing of what was put is there."""

    code = "STOMP_JOURNAL_FULL"


__all__ = [
    name for name, error in list(vars().items()) if isinstance(error, type) and issubclass(error, StompError)
]
