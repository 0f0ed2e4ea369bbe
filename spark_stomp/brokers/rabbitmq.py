"""RabbitMQ: its dialect, and what its queues and streams need.

A SUBSCRIBE or a SEND to ``/queue/NAME`` declares the queue, as a durable one of the classic type, unless
headers say otherwise. RabbitMQ refuses that if the queue exists with other arguments, and needs the right to
configure it even if it exists. ``/amq/queue/NAME`` declares nothing.

A stream keeps its messages, and each subscription says where it begins. Read like a queue, it would silently
lose what was published while no subscription was there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from spark_stomp.brokers.bodies import BodyMarks
from spark_stomp.brokers.destinations import DurableTopics, Naming
from spark_stomp.brokers.dialect import Dialect, ErrorTexts
from spark_stomp.brokers.outgoing import DELIVERY, PRIORITY, TIMESTAMP, Outgoing, never_to
from spark_stomp.brokers.rabbitmq_errors import SENTENCES, queue_that_differs
from spark_stomp.brokers.standing import PASSING, Asks, ByHttp, HttpAnswers, Standing
from spark_stomp.errors import UnsupportedError
from spark_stomp.protocol.encoder import HeaderNames, ValueRule
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.quoting import shown

BY_NAME: Final = "/amq/queue/"
"""The beginning of a destination to which neither SUBSCRIBE nor SEND declares a queue."""
OFFSET: Final = "x-stream-offset"
"""Header of SUBSCRIBE with the position in a stream, and of each MESSAGE of a stream."""
STREAM_FILTERS: Final = ("x-stream-filter", "x-stream-match-unfiltered")
"""Headers of SUBSCRIBE with which RabbitMQ leaves out messages of a stream."""
STREAM_QUESTION: Final = (("ack", "client"), ("prefetch-count", "1"), (OFFSET, "next"))
"""Headers of a SUBSCRIBE behind the end of a stream. If the queue is none, RabbitMQ refuses it and delivers
nothing."""
# How the refusal begins if the queue is no stream, and if the login may not read from it (seen with 3.10 and
# 4.3 in November 2026).
NO_STREAM: Final = f"PRECONDITION_FAILED - invalid arg '{OFFSET}'"
NO_RIGHT: Final = "ACCESS_REFUSED"
NO_QUEUE: Final = "NOT_FOUND - no queue"
# The queue is there, is no stream, and another connection has it as exclusive: others may send to it (seen
# with 3.10 and 4.3 in November 2026).
LOCKED: Final = "RESOURCE_LOCKED - cannot obtain exclusive access"

# RabbitMQ distinguishes upper and lower case in these names. If a queue does not exist, it declares the queue
# with the arguments that are among these headers (rabbit_stomp_headers.hrl). Newer releases read more of
# them; the list has those of all releases.
_LEFT_OUT = HeaderNames(
    DELIVERY
    | {
        "auto-delete",
        "durable",
        "exclusive",
        "x-consumer-disconnected-timeout",
        "x-consumer-timeout",
        "x-delivery-limit",
        "x-expires",
        "x-initial-cluster-size",
        "x-internal-queue",
        "x-message-ttl",
        "x-overflow",
        "x-priority",
        "x-single-active-consumer",
        # CC and BCC are further routes, and must be lists. user-id must be the login of the connection.
        "BCC",
        "CC",
        "user-id",
        # Plugins that delay messages or drop duplicates.
        "x-cache-ttl",
        "x-deduplication-header",
        "x-delay",
        # The history of the message.
        "timestamp_in_ms",
        "x-acquired-count",
        "x-death",
        "x-delivery-count",
        "x-received-from",
        "x-routed-by",
    },
    (
        "x-amqp-1.0-",
        "x-basic-",
        "x-dead-letter-",
        "x-delayed-retry-",
        "x-first-death-",
        "x-last-death-",
        "x-max-",
        "x-opt-",
        "x-queue-",
        "x-quorum-",
        "x-stream-",
    ),
    # An exception to the prefixes: it describes the message, so that consumers can filter by it.
    frozenset({"x-stream-filter-value"}),
)

# RabbitMQ refuses more than ten years. With 0 the message would expire before a consumer gets it.
EXPIRATION = ValueRule(
    "expiration",
    "0*(?:[1-9][0-9]{0,10}|[12][0-9]{11}|30[0-9]{10}|31[0-4][0-9]{9})",
    "be from 1 to 314999999999 ms",
)
# If reply-to named a /temp-queue/, RabbitMQ would subscribe on the connection of the sink.
_REPLY_TO = ValueRule(
    "reply-to",
    "[^/]*|/exchange/[^/]+(?:/[^/]*)?|/(?:queue|topic|amq/queue)/[^/]+|/reply-queue/(?s:.+)",
    "be a destination that RabbitMQ knows, and not a temporary one",
)
_DIRECT_REPLY = never_to(
    r"/(?:queue|reply-queue|amq/queue)/amq\.rabbitmq\.reply-to",
    "be the whole name that the request's reply-to has: RabbitMQ drops what is sent to this one",
)
# It sends what comes to /reply-queue/NAME to the queue of that name, and declares none. The second is the
# queue of a requester that waits for a direct reply. It cannot be asked for: RabbitMQ confirms what comes to
# it, and drops it if the requester is gone.
_REPLIES: Final = "/reply-queue/"
_DIRECT_REPLIES: Final = f"{_REPLIES}amq.rabbitmq.reply-to."
# Short strings of AMQP. RabbitMQ 4.x ends the connection for a longer one. 3.10 takes it, but no consumer by
# AMQP can get the message.
_LONGEST = 255
_SHORT = tuple(
    ValueRule(name, f"(?s:.{{0,{_LONGEST}}})", f"have at most {_LONGEST} bytes")
    for name in (
        *("correlation-id", "reply-to", "type", "content-type", "content-encoding", "app-id"),
        "amqp-message-id",
    )
)
# A SEND or a SUBSCRIBE to /queue/NAME declares the queue. With other values RabbitMQ deletes it when the
# connection ends, when it is unused, or when RabbitMQ restarts. It reads ``persistent`` as ``durable``.
_OR_LOSE = "or RabbitMQ may delete the queue with its messages"
LASTING = (
    ValueRule("persistent", "true", f"be true, {_OR_LOSE}"),
    ValueRule("durable", "[Tt]rue", f"be true, {_OR_LOSE}"),
    ValueRule("exclusive", "[Ff]alse", f"be false, {_OR_LOSE}"),
    ValueRule("auto-delete", "[Ff]alse", f"be false, {_OR_LOSE}"),
    ValueRule("x-expires", "(?s:.*)", f"be left out, {_OR_LOSE}", allowed=False),
)


def stream_name(destination: str) -> str:
    """The name of the queue that ``/amq/queue/NAME`` or ``/queue/NAME`` stands for."""
    return destination.removeprefix("/amq").removeprefix("/queue/")


def without_filters(headers: HeaderPairs) -> HeaderPairs:
    """``headers`` of SUBSCRIBE without those that RabbitMQ refuses if the queue is no stream (4.3.6)."""
    return tuple(pair for pair in headers if pair[0] not in STREAM_FILTERS)


def declares_stream(headers: HeaderPairs) -> bool:
    """Whether these headers of SUBSCRIBE declare the queue as a stream."""
    return ("x-queue-type", "stream") in {(name, value.strip().lower()) for name, value in headers}


def stream_refused(destination: str) -> UnsupportedError:
    """The error for a stream that is read as a queue."""
    return UnsupportedError(
        f"{destination} is a stream of RabbitMQ, and is read as a queue: what is published while no receiver "
        f"is connected would never be a row. To read it as a stream, set destination = "
        f"{BY_NAME}{stream_name(destination)} and startingOffsets = earliest or latest"
    )


def _undeclared(destination: str) -> str | None:
    if destination.startswith(_REPLIES) and not destination.startswith(_DIRECT_REPLIES):
        return BY_NAME + destination.removeprefix(_REPLIES)
    return destination if destination.startswith(BY_NAME) else None


def _paths(virtual_host: str, destination: str) -> dict[str, str]:
    queue = quote(stream_name(destination), safe="")
    return {
        "alarms": "/api/health/checks/alarms",
        "queue": f"/api/queues/{quote(virtual_host, safe='')}/{queue}",
    }


def _standing(answers: HttpAnswers) -> Standing:
    """A queue that has just been made has no figures yet."""
    alarms = _object(answers["alarms"].content).get("alarms", ())
    of = sorted({shown(str(one.get("resource"))) for one in alarms})
    alarm = f"RabbitMQ has an alarm for {' and '.join(of)}" if of else None
    status, content = answers["queue"]
    if status == HTTPStatus.NOT_FOUND:
        return Standing(is_there=False, alarm=alarm)
    fields = _object(content)
    keys = ("messages_ready", "messages_unacknowledged", "consumers", "messages_delayed")
    figures = [fields.get(key) for key in keys]
    if any(type(one) not in (int, type(None)) for one in figures):
        raise TypeError(figures)
    ready, unacked, consumers, delayed = figures
    forgetful = PASSING if fields.get("auto_delete") is True else _dropping(fields)
    return Standing(True, ready, unacked, consumers, alarm, delayed or 0, forgetful=forgetful)


def _dropping(fields: Mapping[str, Any]) -> str:
    """Its limit does not count un-acked messages. If they come back to a queue that is full by then, they are
    the oldest, and dropped."""
    settings = dict(fields.get("effective_policy_definition") or {})
    settings |= {
        name.removeprefix("x-"): value for name, value in dict(fields.get("arguments") or {}).items()
    }
    limits = [name for name in ("max-length", "max-length-bytes") if name in settings]
    if not limits or fields.get("type") == "stream" or settings.get("overflow", "drop-head") != "drop-head":
        return ""
    return f"a queue that drops its oldest messages when it is full ({limits[0]} {int(settings[limits[0]])})"


def _object(content: bytes) -> dict[str, Any]:
    """The object of JSON. Raises UnsupportedError if it is none: something else may listen there."""
    try:
        found = json.loads(content)
    except ValueError as error:
        raise UnsupportedError(f"managementUrl cannot be asked: {error}") from None
    if not isinstance(found, dict):
        raise UnsupportedError("managementUrl cannot be asked: the answer is no JSON object")
    return found


def _refused(status: int) -> str:
    no_right = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    return "the login needs the tag monitoring" if no_right else "is it RabbitMQ's?"


RABBITMQ = Dialect(
    name="rabbitmq",
    server_prefix="rabbitmq",
    prefetch_header="prefetch-count",
    offset_header=OFFSET,
    # Quoted are "%", "/" within a name, and all that is not ASCII. A SEND unquotes only the "/".
    quoted_names=True,
    lasting=LASTING,
    timestamp_unit="s",
    bodies=BodyMarks(section=("type", "amqp-1.0")),
    selectors=False,
    naming=Naming(("/queue/", "/amq/queue/"), ("/topic/", "/temp-topic/", "/exchange/")),
    # The queue of a subscription is named after its destination and id. Without auto-delete:false it would
    # end with its connection. From 4.0 on a queue for /exchange/ also needs exclusive:false.
    durable_topics=DurableTopics(
        headers=(("durable", "true"), ("auto-delete", "false"), ("exclusive", "false")),
        shared=True,
        forbidden="@@",
        endless=("/exchange/",),
    ),
    quorum_delivery_limit=20,
    outgoing=Outgoing(
        ttl_header="expiration",
        left_out=_LEFT_OUT,
        values=(PRIORITY, EXPIRATION, TIMESTAMP, _REPLY_TO, *_SHORT, *LASTING, _DIRECT_REPLY),
        max_header_name=_LONGEST,
        joins_messages=True,
        # It delivers the name of AMQP's property so. The other one is Artemis', which RabbitMQ refuses.
        reply_name="(?:/reply-queue/|queue://)([^/]*)",
        # A body of AMQP 1.0 that is no data section, but a value or a sequence.
        body_claim=("type", "amqp-1.0", b"\0S"),
        # Seen with 4.3.6 (November 2026). Default and release are from its documentation.
        frame_limit=(
            4 << 20,
            "RabbitMQ from 3.12.2 on accepts 4 MiB unless stomp.max_frame_size says otherwise",
        ),
        silent_refusal="RabbitMQ does so if a queue is full, and its x-overflow (overflow in a policy) is "
        "reject-publish",
        undeclared=_undeclared,
        unescapes_always=True,
    ),
    errors=ErrorTexts(sentences=SENTENCES, named_queue=queue_that_differs),
    asks=Asks(
        ByHttp(
            paths=_paths,
            accepted={"alarms": HTTPStatus.SERVICE_UNAVAILABLE, "queue": HTTPStatus.NOT_FOUND},
            standing=_standing,
            only="RabbitMQ tells it at managementUrl alone",
            refused=_refused,
        ),
        # Its figures may be five seconds old (4.3.6).
        settling=5.0,
        withheld="another consumer has the queue for itself (x-single-active-consumer)",
        # Nobody has bound a queue to it. While there is an alarm, RabbitMQ confirms the first message of a
        # connection, and reads nothing that follows its receipt, so DISCONNECT is not confirmed (seen with
        # 4.3.6 in November 2026).
        trial_topic="/topic/spark_stomp.",
    ),
    head_of_queue="See it with AMQP or in the management (Get messages: Nack message requeue true), and "
    "remove it there (Automatic ack)",
    blocked_advice="rabbitmq-diagnostics alarms  # while there is one, for memory or disk, who sends is "
    "blocked",
    listener="RabbitMQ: plugin rabbitmq_stomp, or rabbitmq_web_stomp for WebSocket",
)
