"""What one kind of broker adds to STOMP: facts, and the headers and refusals that follow from them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from spark_stomp.brokers.bodies import NO_MARKS, BodyMarks
from spark_stomp.brokers.destinations import (
    BY_PREFIX,
    DestinationType,
    DurableTopics,
    Naming,
    Subscription,
    subscription_id,
)
from spark_stomp.brokers.outgoing import Outgoing
from spark_stomp.brokers.sentences import Sentence
from spark_stomp.brokers.standing import Asks
from spark_stomp.errors import UnsupportedError
from spark_stomp.frame_batch import ID_TIME, NO_TIME, Ids
from spark_stomp.protocol.encoder import ValueRule, refused_by
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.quoting import shown

# Bytes: the assumed mean size of a frame before the first one was received. If it is too high, it costs
# memory, which maxBufferedBytes limits; if it is too low, throughput: with 4 KiB, bodies of 1 MB came at 0.8
# of the rate (three rounds on Artemis, November 2026).
_ASSUMED_FRAME_BYTES = 8192
# Artemis reads its consumer window as a signed 32-bit number.
_MAX_WINDOW = (1 << 31) - 1
_NO_WINDOW = "-1"
# How Artemis names the kinds of destinations.
_ROUTING: dict[DestinationType, str] = {"queue": "ANYCAST", "topic": "MULTICAST"}


@dataclass(frozen=True)
class ErrorTexts:
    """How one kind of broker words its ERRORs.

    Attributes:
        sentences: those that are known. A request that is answered by any other one is tried again.
        client_id_in_use: a regular expression for the answer to a CONNECT whose ``client-id`` another
            connection has; empty if that is not known.
        named_queue: the queue that the text names if only a SEND can have been refused because of it.
    """

    sentences: tuple[Sentence, ...] = ()
    client_id_in_use: str = ""
    named_queue: Callable[[str], str | None] = lambda text: None


@dataclass(frozen=True)
class Dialect:
    """How one kind of broker expresses what STOMP leaves open.

    Attributes:
        name: the value of the option ``broker``.
        outgoing: how the broker treats a SEND.
        server_prefix: the beginning of CONNECTED's ``server`` header, in lower case; None matches no server.
        prefetch_header: SUBSCRIBE header that limits the number of un-acked messages; None: no such header.
        window_header: SUBSCRIBE header that limits the bytes of un-acked frames; None: no such header.
        page_size: un-acked messages at which the broker may stop sending by default, whatever the prefetch;
            None: no such limit.
        id_header: MESSAGE header that identifies a message, and stays the same if it is redelivered; None: no
            such header.
        id_separator: the part of ``id_header`` up to the last separator identifies the delivery, the rest
            identifies the message; None if the whole value identifies the message.
        ack_header: MESSAGE header to read the ack handle from in place of ``ack``, if a producer's
            ``ack`` can come before the broker's; None if it cannot.
        id_time_header: MESSAGE header with the time of the message, which completes the id if the broker can
            give two messages one id; None if it cannot.
        forged_versions: versions of STOMP in which a producer's headers replace those of the broker.
        own_queues: beginnings of the header ``destination`` of a MESSAGE if that header names the queue that
            the message is in. Copies in two queues, which have the same id, are told apart by it.
        offset_header: MESSAGE header that every message of a stream has; None if the broker has no streams.
        quoted_names: True if a MESSAGE has bytes of its destination quoted as in a URL, and a SEND has not.
        lasting: rules for SUBSCRIBE headers. With other values the broker deletes the queue with its
            messages.
        timestamp_unit: the unit of the ``timestamp`` header of a MESSAGE.
        selectors: False if the broker ignores the ``selector`` header.
        not_in_selectors: names of JMS that match nothing in a selector, and what to write in their place.
        browse_headers: SUBSCRIBE headers that browse a queue, and do not consume it; None: no browsing. What
            ends a browse is fixed in :meth:`end_of_browse`.
        browse_limit: messages after which a browse ends by default, as if there were no more; None if it
            shows all messages.
        naming: what the name of a destination says.
        subscribe_kind_header, send_kind_header: headers of SUBSCRIBE and SEND by which the broker is told
            what a destination is: ANYCAST for a queue, MULTICAST for a topic; None: no such header.
        durable_topics: how the broker keeps a topic's messages for an absent consumer; None: not known.
        one_connection_per_client: True if only one connection at a time may have a ``client-id``.
        most_deliveries: deliveries after which the broker drops or dead-letters a message by default; None:
            no such limit.
        quorum_delivery_limit: the ``x-delivery-count`` up to which a queue that counts deliveries keeps a
            message by default; None if there are no such queues.
        marks_redelivered: False if the broker sets ``redelivered:true`` only on some of the messages that it
            redelivers after a connection was lost.
        unsubscribe_returns: True if messages that UNSUBSCRIBE returns to the queue do not count as delivered.
        orphans_subscriptions: True if the broker may withhold messages from everyone until it is restarted:
            those of a SUBSCRIBE that followed a refused one, and the oldest message of each subscription of a
            lost connection.
        sleeping: a part of the names of queues of which the broker, after a SUBSCRIBE that asked for a
            receipt, delivers nothing that waits until another consumer comes; None: no such names.
        content_types: MESSAGE headers with the content type; of those that a message has the first counts.
        bodies: what the broker puts into a body if STOMP cannot say what the message does.
        errors: how the broker words its ERRORs.
        asks: how it is asked what waits in a queue, and what its figures mean.
        head_of_queue: how to see and remove the first message of a queue without STOMP.
        blocked_advice: why it confirms nothing to whoever sends, and where to look.
        listener: what has to be on for STOMP at a port; empty if that needs no word.
        unknown_warning: a log line if the broker is none that is known here; None if it is.
    """

    name: str
    outgoing: Outgoing
    server_prefix: str | None = None
    prefetch_header: str | None = None
    window_header: str | None = None
    page_size: int | None = None
    id_header: str | None = None
    id_separator: str | None = None
    ack_header: str | None = None
    id_time_header: str | None = None
    forged_versions: tuple[str, ...] = ()
    own_queues: tuple[str, ...] = ()
    offset_header: str | None = None
    quoted_names: bool = False
    lasting: tuple[ValueRule, ...] = ()
    timestamp_unit: Literal["ms", "s"] = "ms"
    selectors: bool = True
    not_in_selectors: Mapping[str, str] = field(default_factory=dict, hash=False)
    browse_headers: HeaderPairs | None = None
    browse_limit: int | None = None
    naming: Naming = BY_PREFIX
    subscribe_kind_header: str | None = None
    send_kind_header: str | None = None
    durable_topics: DurableTopics | None = None
    one_connection_per_client: bool = False
    most_deliveries: int | None = None
    quorum_delivery_limit: int | None = None
    marks_redelivered: bool = True
    unsubscribe_returns: bool = False
    orphans_subscriptions: bool = False
    sleeping: re.Pattern[str] | None = None
    content_types: tuple[str, ...] = ("content-type",)
    bodies: BodyMarks = NO_MARKS
    errors: ErrorTexts = ErrorTexts()
    asks: Asks = field(default_factory=Asks)
    head_of_queue: str = (
        "Look at it with another protocol or the broker's own tools, and remove or move it there"
    )
    blocked_advice: str = "its memory or disk may be full: read its log"
    listener: str = ""
    unknown_warning: str | None = None

    def subscribe_headers(
        self,
        destination: str,
        prefetch: int,
        *,
        frame_bytes: float | None = None,
        max_bytes: int | None = None,
    ) -> HeaderPairs:
        """Headers of SUBSCRIBE that limit the un-acked messages to ``prefetch``.

        If the broker limits bytes instead, the limit is :meth:`window_bytes`, with ``frame_bytes`` and
        ``max_bytes`` as described there.
        """
        headers = self._kind_headers(destination)
        if self.prefetch_header is not None:
            return (*headers, (self.prefetch_header, str(prefetch)))
        window = self.window_bytes(prefetch, frame_bytes=frame_bytes, max_bytes=max_bytes)
        if self.window_header is None or window is None:
            return headers
        return (*headers, (self.window_header, str(window)))

    def batch_read_headers(self, destination: str, most: int) -> HeaderPairs:
        """Headers of SUBSCRIBE for a batch read of up to ``most`` messages, which are not ACKed.

        They ask for a browse if the broker can browse. They contain no limit in bytes, because such a limit
        would end the read too early.
        """
        if self.window_header is not None:
            return (*self._kind_headers(destination), (self.window_header, _NO_WINDOW))
        browse = (self.browse_headers or ()) if self.browses(destination) else ()
        return browse + self.subscribe_headers(destination, most)

    def browses(self, destination: str) -> bool:
        """Whether a batch read browses ``destination``. A topic, which keeps no messages, is not browsed."""
        return self.browse_headers is not None and not self.is_topic(destination)

    def window_bytes(
        self, prefetch: int, *, frame_bytes: float | None = None, max_bytes: int | None = None
    ) -> int | None:
        """The consumer window to ask for, in bytes; None if the broker counts messages.

        The broker sends as long as any byte of the window is left, so even the smallest window lets one
        message through.

        Args:
            prefetch: the number of un-acked messages that are wanted.
            frame_bytes: mean size of the MESSAGE frames so far; None before the first. The broker counts the
                size of each frame.
            max_bytes: the largest window; None for no limit.
        """
        if self.window_header is None:
            return None
        # Of messages smaller than the mean, one more would fit.
        wanted = 1 if prefetch == 1 else math.ceil(prefetch * (frame_bytes or _ASSUMED_FRAME_BYTES))
        return min(wanted, _MAX_WINDOW, wanted if max_bytes is None else max_bytes)

    @property
    def limits_unacked(self) -> bool:
        """Whether SUBSCRIBE can limit the un-acked messages."""
        return self.prefetch_header is not None or self.window_header is not None

    @property
    def queue_headers(self) -> HeaderPairs:
        """The headers that a SEND to a queue needs, unless it names the queue with its address."""
        return () if self.send_kind_header is None else ((self.send_kind_header, _ROUTING["queue"]),)

    def unrouted(self, destination: str) -> str | None:
        """A log line if messages that are sent to ``destination`` may be lost; None if it is not a topic."""
        if not self.is_topic(destination):
            return None
        return (
            f"{shown(destination)} is a topic on this broker ({self.name}): a message is confirmed and "
            "dropped if no subscription is there to receive it"
        )

    def stable_ids(self, ids: Ids, times: Ids) -> list[bytes | None]:
        """The stable id of each frame, which is the same if the message is redelivered; None if it has none.

        ``ids`` and ``times`` are the values of ``id_header`` and ``id_time_header`` as on the wire. ``times``
        is used only if the dialect has an ``id_time_header``. The id is None if the value is empty, or if the
        time that completes it is missing.
        """
        stable = [raw or None for raw in ids]
        if self.id_separator is not None:
            separator = self.id_separator.encode()
            stable = [raw and raw.rpartition(separator)[2] for raw in stable]
        if self.id_time_header is not None:
            pairs = zip(stable, times, strict=True)
            stable = [
                raw + ID_TIME + time if raw and time is not None and time not in NO_TIME else None
                for raw, time in pairs
            ]
        return stable

    def _kind_headers(self, destination: str) -> HeaderPairs:
        """Headers that SUBSCRIBE needs so that the broker knows what ``destination`` is."""
        kind = self.kind(destination)
        if self.subscribe_kind_header is None or kind == "unknown" or self.naming.is_full_name(destination):
            return ()
        return ((self.subscribe_kind_header, _ROUTING[kind]),)

    def kind(self, destination: str) -> DestinationType:
        """The kind of ``destination``, by its name or by the option ``destinationType``."""
        return self.naming.kind(destination)

    def is_queue(self, destination: str) -> bool:
        """Whether ``destination`` is known to be a queue."""
        return self.kind(destination) == "queue"

    def is_topic(self, destination: str) -> bool:
        """Whether ``destination`` is known to be a topic."""
        return self.kind(destination) == "topic"

    def redelivers(self, destination: str, *, durable: bool) -> bool:
        """Whether the broker is known to redeliver messages that were not ACKed.

        ``durable`` is True for a durable subscription. Nothing is known of an unknown broker.
        """
        known = self.unknown_warning is None and not self.naming.is_temporary(destination)
        return known and (durable or self.is_queue(destination))

    def unknown_kind(self, destination: str) -> str | None:
        """A log line that warns of loss if ``destination`` may be a topic; None if its kind is known."""
        if self.kind(destination) != "unknown":
            return None
        return (
            f"whether {destination} is a queue or a topic is not known on this broker ({self.name}). If it "
            "is a topic, messages are lost if they are published while no receiver is connected, or are not "
            "committed when the query ends. Say what it is with destinationType = queue or topic"
        )

    def subscription(
        self,
        destination: str,
        *,
        durable_name: str | None = None,
        client_id: str | None = None,
        selector: str | None = None,
    ) -> Subscription:
        """The id and the headers of SUBSCRIBE that name a subscription to ``destination``.

        Without ``durable_name`` the subscription ends with its connection.

        Raises UnsupportedError if ``durable_name`` is set, and ``destination`` is not known to be a topic, or
        the broker cannot keep a topic's messages under that name.
        """
        if durable_name is None:
            return Subscription(subscription_id(destination))
        if not self.is_topic(destination):
            raise UnsupportedError(
                f"durableName is given, but {destination} is not known to be a topic on this broker "
                f"({self.name}); a queue keeps its messages without it. Leave durableName out, or set "
                "destinationType = topic if it is one"
            )
        if self.durable_topics is None:
            raise UnsupportedError(
                f"durableName is given, but how this broker ({self.name}) keeps a topic's messages is not "
                "known. Say which broker it is with the option broker, or give the broker's headers in "
                "subscribeHeaders, with allowLoss = true"
            )
        return self.durable_topics.subscription(destination, durable_name, client_id, selector)

    def check_subscription(
        self, destination: str, headers: HeaderPairs, *, connections: int, durable: bool, allow_loss: bool
    ) -> None:
        """Raise UnsupportedError if this subscription could not keep the delivery contract.

        ``connections`` is how many subscribe to ``destination``, with ``headers`` besides the dialect's.
        ``durable`` is True for a durable subscription, ``allow_loss`` is the option ``allowLoss``.
        """
        self._check_queue(destination, headers, allow_loss=allow_loss)
        self._check_headers(destination, headers)
        if connections > 1:
            self._check_sharing(destination, connections, durable)
        if self.is_topic(destination) and not durable and not allow_loss:
            raise UnsupportedError(
                f"{destination} is a topic without a durable subscription: messages are lost if they are "
                "published while no receiver is connected, or not committed when a connection ends. "
                "Read from a queue, name a durable subscription in durableName, or accept the loss with "
                "allowLoss = true"
            )

    def check_batch_read(self, destination: str, headers: HeaderPairs, *, allow_loss: bool) -> None:
        """Raise UnsupportedError for a topic, an ignored selector, or a deleting header.

        ``headers`` are those of SUBSCRIBE. With ``allow_loss``, topics and deleting headers are accepted.
        """
        self._check_queue(destination, headers, allow_loss=allow_loss)
        if self.is_topic(destination) and not allow_loss:
            raise UnsupportedError(
                f"{destination} is a topic, which keeps no messages: a batch read would show only what is "
                "published while it reads. Read from a queue, or as a stream, or accept that with "
                "allowLoss = true"
            )

    def check_version(self, version: str) -> None:
        """Raise UnsupportedError if producers forge headers of a MESSAGE in ``version``; lenient is 1.0."""
        if ("1.0" if version == "lenient" else version) in self.forged_versions:
            raise UnsupportedError(
                f"the connection speaks STOMP {version}, in which {self._forger} lets a producer replace "
                "the headers that name a delivery, so an ACK may be for another message. Leave out "
                "acceptVersions, so that a later version is used"
            )

    @property
    def _forger(self) -> str:
        if self.name != "generic":
            return f"this broker ({self.name})"
        return (
            "Artemis (which this may be; if it is not, name the broker in the option broker, or set it to "
            "generic)"
        )

    def check_selector(self, headers: HeaderPairs) -> None:
        """Raise UnsupportedError if SUBSCRIBE has a selector that the broker ignores or takes for another."""
        selector = dict(headers).get("selector")
        if selector is not None and not self.selectors:
            raise UnsupportedError(
                f"selector is given, but this broker ({self.name}) ignores it and would deliver every "
                "message. Filter the rows instead, or bind a queue to the messages that you want"
            )
        names = re.findall(r"'[^']*'|[\w$]+", selector or "")
        for name, other in self.not_in_selectors.items():
            if name in names:
                raise UnsupportedError(
                    f"selector has {name}, which no message has on this broker ({self.name}), so it would "
                    f"match nothing. Write {other}"
                )

    def _check_queue(self, destination: str, headers: HeaderPairs, *, allow_loss: bool) -> None:
        """Raise UnsupportedError for an ignored selector, or if the queue ends with its messages."""
        self.check_selector(headers)
        if self.naming.is_temporary(destination) and not allow_loss:
            raise UnsupportedError(
                f"{destination} is a temporary queue, which ends with its connection: what was not committed "
                "then is lost. Read from another queue, or accept the loss with allowLoss = true"
            )
        for name, value in () if allow_loss else headers:
            if refused_by(self.lasting, name, value) is not None:
                raise UnsupportedError(
                    f"subscribeHeaders has {name}: {value}, so this broker ({self.name}) may delete the "
                    f"queue of {destination} with all messages in it when its connection breaks, when it is "
                    "unused, or when the broker restarts. Leave that header out, read an existing queue as "
                    "/amq/queue/NAME, or accept the loss with allowLoss = true"
                )

    def check_client_id(self, client_id: str | None, connections: int) -> None:
        """Raise UnsupportedError if this many connections of one query may not share ``client_id``."""
        if client_id is not None and connections > 1 and self.one_connection_per_client:
            raise UnsupportedError(
                f"clientId = {client_id} is given, and this query has connections = {connections}, but on "
                f"this broker ({self.name}) only one connection at a time can have that id. Leave "
                "connections out: one connection reads all destinations"
            )

    def _check_headers(self, destination: str, headers: HeaderPairs) -> None:
        durable = None if self.durable_topics is None else self.durable_topics.deciding_header
        used = {name for name, value in headers if value not in ("", "false")}
        if durable in used and self.is_topic(destination):
            raise UnsupportedError(
                f"subscribeHeaders has {durable}. On this broker ({self.name}) use the option durableName, "
                "which sets that header and all that belongs to it"
            )

    def _check_sharing(self, destination: str, several: int, durable: bool) -> None:
        if self.is_queue(destination):
            return
        if not durable:
            raise UnsupportedError(
                f"{several} connections would subscribe to {destination}, which is not known to be a queue "
                f"on this broker ({self.name}): each would get every message. Give at most as many "
                "connections as destinations"
            )
        if self.durable_topics is not None and not self.durable_topics.shared:
            raise UnsupportedError(
                f"{several} connections would subscribe to {destination}, but only one at a time may have a "
                f"durable subscription on this broker ({self.name}). Give at most as many connections as "
                f"destinations{self.durable_topics.alternative}"
            )

    def end_of_browse(self, browser: str | None, message_id: str | None) -> bool:
        """Whether a MESSAGE ends a browse: only both headers do, because a producer may set ``browser``."""
        return self.browse_headers is not None and (browser, message_id) == ("end", "0")
