"""Makes exceptions of ERROR frames. They name the request and quote the broker, without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import partial
from itertools import islice
from urllib.parse import unquote

from spark_stomp.brokers import Dialect
from spark_stomp.brokers.known import GENERIC, named_queue, says_in_use, sentence_of
from spark_stomp.errors import BrokerError, ClientIdInUse, ConnectFailed, DestinationRefused, LoginRefused
from spark_stomp.protocol import ErrorReceived
from spark_stomp.quoting import shown
from spark_stomp.transport.hiding import forms_of, without_secrets

# Characters that an error shows of the message header and of the body.
_MESSAGE_LENGTH, _DETAIL_LENGTH = 200, 300
# Characters of a text that are searched for secrets; the rest is not shown. An ERROR of 64 MB full of
# quotation marks kept a core busy for three minutes (November 2026).
_SEARCHED = 10_000
# Characters of each that say what an ERROR means, which is often behind the names. RabbitMQ's longest have
# some 1,000: names have up to 255 bytes.
_JUDGED = 2_000
# Separators in a name. Nobody writes so many, but rows can.
_MOST_PARTS = 20
_VIRTUAL_HOST = re.compile(r"\bvirtual.?host|\bvhost", re.IGNORECASE)
# What brokers quote. A quotation that was cut has no end. An apostrophe is within a word or behind one, and
# brackets are around sentences too. All that is between two apostrophes is quoted: a name may have some.
_QUOTATION = re.compile(r"(?<!\w)'(?:.*'(?!\w)|.*)|\".*?(?:\"|$)|\[[^\s\[\]]*\]")
_JOINED = " - "
_MARKS = re.compile(r"['\"\[\]]")


class _OwnWords:
    """What an ERROR says in the broker's own words, and not in names or values that it quotes.

    A queue may be called "stopping", and a user "shutdown".

    Args:
        event: the ERROR.
        names: what this ERROR may quote without quotation marks.
    """

    def __init__(self, event: ErrorReceived, names: Collection[str]) -> None:
        parts = _broker_words(event, most=(_JUDGED, _JUDGED))
        text = _JOINED.join(parts)
        forms = (form for name in names for part in _parts(name) for form in forms_of(part))
        # Only these matter, and they are short, as the text is: some patterns take long for a long token.
        there = {form for form in forms if form in text}
        # What such a name leaves open would be taken for the broker's words. A mark alone is everywhere.
        marked = [form for form in there if _MARKS.search(form) and len(form.strip()) > 1]
        # Each by itself: what one quotes may be the beginning of the other.
        self._text = _JOINED.join(_QUOTATION.sub("''", _without(marked, part)) for part in parts)
        self._names = {form for form in there if form in self._text}

    def say(self, pattern: re.Pattern[str]) -> bool:
        """Whether ``pattern`` is there, and not in a name. Other names may be parts of the broker's words."""
        return pattern.search(_without(filter(pattern.search, self._names), self._text)) is not None


def _without(names: Iterable[str], text: str) -> str:
    """``text`` with quotation marks in place of ``names``, the longest ones first."""
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(pattern, "''", text) if pattern else text


def _parts(name: str) -> set[str]:
    """``name``, and what is behind each separator in it: a broker may leave out what is before."""
    ends = [found.end() for found in islice(re.finditer("/|::", name), _MOST_PARTS)]
    return {form for end in (0, *ends) for form in (name[end:], unquote(name[end:]))}


def connect_refused(
    event: ErrorReceived,
    peer: str,
    client_id: str | None,
    host: str,
    secrets: Collection[str] = (),
    names: Collection[str] = (),
) -> LoginRefused | ConnectFailed:
    """The exception for an ERROR frame in answer to a CONNECT with ``client_id`` and ``host``.

    It is a ConnectFailed that passes if the broker starts or stops, or if a relay has no broker. Brokers
    quote what they refuse, so ``secrets`` are replaced in the quotation. What the ERROR means is found in its
    own text, because a secret may be a part of the broker's words, but not in ``names``, such as the login,
    nor in secrets.
    """
    words, own = _quoted(event, secrets), _OwnWords(event, (*names, *secrets, host, client_id or ""))
    sentence = sentence_of(own.say, GENERIC)
    if sentence is not None and sentence.verdict == "passes":
        away = ConnectFailed(f"{peer} has no broker to connect to, or it is starting or stopping: {words}")
        away.verdict = "passes"
        return away
    if own.say(_VIRTUAL_HOST):
        words += (
            f". The header host was {shown(host)}: set the option virtualHost to what this broker wants. "
            "RabbitMQ says so too if that virtual host has as many connections as it may (max-connections)"
        )
    if client_id is not None and says_in_use(own.say):
        return ClientIdInUse(f"{peer} refused CONNECT: clientId {client_id} is in use: {words}")
    return LoginRefused(f"{peer} refused CONNECT: {words}")


def broker_error(
    event: ErrorReceived,
    peer: str,
    what: str = "",
    secrets: Collection[str] = (),
    names: Collection[str] = (),
    dialect: Dialect = GENERIC,
) -> BrokerError:
    """The exception for an ERROR frame on an established connection to a broker of this ``dialect``.

    ``what`` names the request that the ERROR seems to answer (a SUBSCRIBE, a SEND), and is empty if that is
    not known. The exception is a DestinationRefused only if the broker is known to refuse requests with this
    sentence.
    ``secrets`` of CONNECT are replaced in the quotation. ``names`` are what the ERROR may quote beside the
    destination in ``what``: they say nothing about what it means.
    """
    # What the ERROR means is found in its own text, because a secret may be a part of the broker's words.
    words = _quoted(event, secrets)
    own = _OwnWords(event, (*names, *secrets, what.partition(" to ")[2]))
    text = f"{event.frame.get('message') or ''}\n{event.detail}"[:_SEARCHED]
    hide = partial(without_secrets, secrets=secrets)
    if not what and (queue := named_queue(text)) is not None:
        what = f"SEND to /queue/{shown(hide(queue))}"
    sentence = sentence_of(own.say, dialect)
    verdict = None if sentence is None else sentence.verdict
    if sentence is not None and (advice := sentence.advice(text, what, hide)):
        words = f"{words.removesuffix('.')}. {advice}"
    unasked = sentence is not None and sentence.unasked
    if not what or unasked:
        error = BrokerError(f"the broker at {peer} reported an error and ended the connection: {words}")
    elif verdict == "passes":
        error = BrokerError(f"the broker at {peer} failed while it handled {what}: {words}")
    elif verdict is None or verdict == "either":
        error, verdict = BrokerError(f"the broker at {peer} did not take {what}: {words}"), "either"
    else:
        error = DestinationRefused(f"the broker at {peer} refused {what}: {words}")
    error.verdict, error.unasked = verdict, unasked
    return error


def _broker_words(
    event: ErrorReceived,
    secrets: Collection[str] = (),
    most: tuple[int, int] = (_MESSAGE_LENGTH, _DETAIL_LENGTH),
) -> list[str]:
    """The ``message`` header of an ERROR frame and its body, each on one line, with so many characters.

    ``secrets`` are replaced.
    """
    parts = zip(((event.frame.get("message") or "").strip(), event.detail.strip()), most, strict=True)
    # Secrets are replaced first: afterwards one may be cut, or escaped so that it looks different.
    words = (shown(without_secrets(text[:_SEARCHED], secrets), longest) for text, longest in parts if text)
    # CoilMQ says the same in both.
    return [*dict.fromkeys(words)]


def _quoted(event: ErrorReceived, secrets: Collection[str]) -> str:
    """What an error quotes of an ERROR frame."""
    return _JOINED.join(_broker_words(event, secrets)) or "(no reason given)"
