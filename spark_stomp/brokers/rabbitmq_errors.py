"""What to do if RabbitMQ refuses a SUBSCRIBE or a SEND because of the queue that it names.

A SUBSCRIBE or a SEND to ``/queue/NAME`` declares the queue, as a durable one of the classic type, unless
headers say otherwise. RabbitMQ refuses that if the queue exists with other arguments, and needs the right to
configure it even if it exists. ``/amq/queue/NAME`` declares nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from spark_stomp.quoting import shown

# The arguments that RabbitMQ 3.10 takes from headers of SUBSCRIBE and SEND. Later releases take more.
_IN_HEADERS = frozenset(
    {
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-message-ttl",
        "x-queue-type",
    }
)
# Characters of a text that are searched. Its longest has some 1,000: names have up to 255 bytes. A judgement;
# 10,000 that were made for it kept a core busy for 7 s (November 2026).
_SEARCHED = 2_000
# RabbitMQ compares the arguments one after the other, and names the first one that differs.
_DIFFERS = re.compile(
    r"inequivalent arg '([\w-]+)' for queue '(.{0,255})' in vhost '.{0,255}': "
    r"received .* but current is (?:none|(?:the value )?'(.*?)'(?: of type '\w+')?)$",
    re.S,
)
# What RabbitMQ says, with the name of the queue, and what to do.
_SENTENCES = (
    (
        re.compile(r"RESOURCE_LOCKED .* locked queue '(.*)' in vhost", re.S),
        "Another connection has declared {queue} as exclusive, and nobody else can use it, or "
        "subscribeHeaders ask for an exclusive queue, as durable = false and persistent = false do unless "
        "exclusive = false is there too",
    ),
    (
        re.compile(r"NOT_FOUND - no queue '(.*)' in vhost", re.S),
        "Declare it first, or name it /queue/{queue}, which declares a durable classic queue",
    ),
    (
        re.compile(r"ACCESS_REFUSED - (?:\w+ )?access to queue '(.*)' in vhost", re.S),
        "/queue/NAME declares the queue, also if it exists, and needs the right to configure it; "
        "/amq/queue/NAME needs only the right to read from it, or to write to the default exchange",
    ),
    (
        re.compile(r"(No more messages) will be delivered for "),
        "RabbitMQ says this if the queue was deleted, and from 4.3 on if a message of a quorum queue stays "
        "un-acked for longer than consumer_timeout: set that higher than the longest batch and the longest "
        "pause between two batches",
    ),
)


def queue_that_differs(text: str) -> str | None:
    """The queue that exists with other arguments than asked for, if the body of an ERROR says that."""
    found = _DIFFERS.search(text.strip()[:_SEARCHED])
    return None if found is None else found[2]


def remedy(text: str, what: str, hide: Callable[[str], str] = str) -> str:
    """What to do about an ERROR of RabbitMQ with this body: a sentence that follows the quoted body.

    It is empty if the body is none that is known here. ``what`` names the request that was refused. Only a
    SEND may be refused without being named. ``hide`` removes secrets from what the sentence quotes.
    """
    text = text.strip()[:_SEARCHED]
    if (differs := _DIFFERS.search(text)) is not None:
        name, queue, current = differs[1].replace("_", "-"), shown(hide(differs[2])), differs[3]
        shown_current = None if current is None else shown(hide(current))
        return ". " + _of_difference(name, queue, shown_current, what.startswith("SUBSCRIBE"))
    for pattern, sentence in _SENTENCES:
        if (found := pattern.search(text)) is not None:
            return ". " + sentence.format(queue=shown(hide(found[1])))
    return ""


def _of_difference(name: str, queue: str, current: str | None, reading: bool) -> str:
    option = "subscribeHeaders" if reading else "sendHeaders"
    if current is None:
        return f"Leave {name} out of {option}"
    if reading and current == "stream":
        return f"Name it /amq/queue/{queue}, with startingOffsets = earliest or latest to read the stream"
    advice = f"Name it /amq/queue/{queue}, which declares nothing"
    if not reading:
        advice += " (but RabbitMQ confirms and drops messages if no such queue exists)"
    if name in _IN_HEADERS:
        advice += f", or set {option} = {json.dumps({name: current}, ensure_ascii=False)}"
    return advice
