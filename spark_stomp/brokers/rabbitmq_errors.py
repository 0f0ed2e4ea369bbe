"""What to do if RabbitMQ refuses a SUBSCRIBE or a SEND because of the queue that it names.

A SUBSCRIBE or a SEND to ``/queue/NAME`` declares the queue, as a durable one of the classic type, unless
headers say otherwise. RabbitMQ refuses that if the queue exists with other arguments, and needs the right to
configure it even if it exists. ``/amq/queue/NAME`` declares nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

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
# RabbitMQ deletes a queue with these, and all messages in it, if it is unused, or when RabbitMQ restarts.
_NOT_LASTING = frozenset({"auto_delete", "durable", "x-expires"})
# Characters of a text that are searched. Its longest has some 1,000: names have up to 255 bytes. A judgement;
# 10,000 that were made for it kept a core busy for 7 s (November 2026).
_SEARCHED = 2_000
# RabbitMQ compares the arguments one after the other, and names the first one that differs.
_DIFFERS = re.compile(
    r"inequivalent arg '([\w-]+)' for queue '(.{0,255})' in vhost '.{0,255}': "
    r"received (.*) but current is (.*)$",
    re.S,
)
_VALUE = re.compile(r"(?:the value )?'(.*?)'(?: of type '\w+')?$", re.S)
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


class Difference(NamedTuple):
    """A queue exists with another argument than a SUBSCRIBE or a SEND asked for; None if it has none."""

    argument: str
    queue: str
    asked: str | None
    current: str | None


def difference(text: str) -> Difference | None:
    """The difference that the body of an ERROR of RabbitMQ names, if it names one."""
    found = _DIFFERS.search(text.strip()[:_SEARCHED])
    if found is None:
        return None
    argument, queue, asked, current = found.groups()
    return Difference(argument, queue, _value(asked), _value(current))


def _value(words: str) -> str | None:
    found = _VALUE.match(words)
    return None if found is None else found[1]


def remedy(text: str, what: str, hide: Callable[[str], str] = str) -> str:
    """What to do about an ERROR of RabbitMQ with this body: a sentence that follows the quoted body.

    It is empty if the body is none that is known here. ``what`` names the request that was refused. Only a
    SEND may be refused without being named. ``hide`` removes secrets from what the sentence quotes.
    """
    option = "subscribeHeaders" if what.startswith("SUBSCRIBE") else "sendHeaders"
    if (differs := difference(text)) is not None:
        hidden = (None if part is None else hide(part) for part in differs[2:])
        differs = Difference(differs.argument, hide(differs.queue), *hidden)
        return f". {_has_and_asked(differs)}. {_of_difference(differs, option)}"
    for pattern, sentence in _SENTENCES:
        if (found := pattern.search(text[:_SEARCHED])) is not None:
            return ". " + sentence.format(queue=shown(hide(found[1])), option=option)
    return ""


def _has_and_asked(differs: Difference) -> str:
    name, queue = _header(differs), shown(differs.queue)
    has = f"without {name}" if differs.current is None else f"with {name} = {shown(differs.current)}"
    asked = "without it" if differs.asked is None else f"with {name} = {shown(differs.asked)}"
    return f"The queue {queue} exists {has}, and was asked for {asked}"


def _of_difference(differs: Difference, option: str) -> str:
    name, queue, current = _header(differs), shown(differs.queue), differs.current
    if current is None:
        return f"Leave {name} out of {option}"
    if current == "stream" and option == "subscribeHeaders":
        return f"Name it /amq/queue/{queue}, with startingOffsets = earliest or latest to read the stream"
    by_name = f"Name it /amq/queue/{queue}, which declares nothing"
    if option == "sendHeaders":
        by_name += " (but RabbitMQ confirms and drops messages if no such queue exists)"
    if differs.argument in _NOT_LASTING:
        return f"{by_name}. Such a queue goes with its messages if it is unused, or if RabbitMQ restarts"
    if name not in _IN_HEADERS:
        return by_name
    return f"{by_name}, or set {option} = {json.dumps({name: shown(current)}, ensure_ascii=False)}"


def _header(differs: Difference) -> str:
    return differs.argument.replace("_", "-")
