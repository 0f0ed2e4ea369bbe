"""ERROR frames as exceptions that name the request and quote the broker, without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection

from spark_stomp.errors import BrokerError, ClientIdInUse, DestinationRefused, LoginRefused
from spark_stomp.protocol import ErrorReceived
from spark_stomp.protocol.grammar import escape
from spark_stomp.quoting import CUT, shown

_MESSAGE_LENGTH, _DETAIL_LENGTH = 200, 300
# So much of a text is searched for secrets, which takes a while.
_SEARCHED = 10_000
_HIDDEN = "***"
# A text that this project quotes may be cut at its end, before a quotation mark, or before punctuation.
_POSSIBLE_CUT = re.compile(rf"$|['\"]|[:,;] |{re.escape(CUT)}")
# Fewer characters of a secret reveal nothing.
_SHORTEST_PART = 3
_STOPS = re.compile(
    r"\bshut(ting)?[ -]?down\b|\bbeing (stopped|shut)|\bstopping\b|BrokerStopp|connection.forced",
    re.IGNORECASE,
)
# ActiveMQ: "Broker: b - Client: c already connected from tcp://..."; Artemis: "... client ID ... in use".
_IN_USE = re.compile(r"client.*\balready (been )?(connected|in use|set)|client.?id.*\bin use", re.IGNORECASE)


def connect_refused(
    event: ErrorReceived, peer: str, client_id: str | None, secrets: Collection[str] = ()
) -> LoginRefused:
    """The exception for an ERROR frame in answer to a CONNECT with ``client_id``.

    Brokers quote what they refuse; ``secrets`` are replaced in their words.
    """
    words = _broker_words(event, secrets)
    # In the broker's own words: a secret that is replaced may be a part of them.
    if client_id is not None and _IN_USE.search(_broker_words(event)):
        return ClientIdInUse(f"{peer} refused CONNECT: clientId {client_id} is in use: {words}")
    return LoginRefused(f"{peer} refused CONNECT: {words}")


def broker_error(
    event: ErrorReceived, peer: str, what: str = "", secrets: Collection[str] = ()
) -> BrokerError:
    """The exception for an ERROR frame on an established connection.

    ``what`` names the request that it answers, if that is known (a SUBSCRIBE, a SEND); ``secrets`` of CONNECT
    are replaced in the broker's words. A broker that stops refuses nothing.
    """
    words = _broker_words(event, secrets)
    if not what:
        return BrokerError(f"the broker at {peer} reported an error and ended the connection: {words}")
    if _STOPS.search(words):
        return BrokerError(f"the broker at {peer} ended the connection before it answered {what}: {words}")
    return DestinationRefused(f"the broker at {peer} refused {what}: {words}")


def says_stop(event: ErrorReceived) -> bool:
    """Whether an ERROR frame says that the broker stops."""
    return _STOPS.search(_broker_words(event)) is not None


def _broker_words(event: ErrorReceived, secrets: Collection[str] = ()) -> str:
    """The ``message`` header of an ERROR frame and the beginning of its body, on one line."""
    message = (event.frame.get("message") or "").strip()
    parts = ((message, _MESSAGE_LENGTH), (event.detail.strip(), _DETAIL_LENGTH))
    # The secrets first: what is shortened may cut one, and escaped it looks different.
    words = (shown(without_secrets(text[:_SEARCHED], secrets), most) for text, most in parts if text)
    return " - ".join(words) or "(no reason given)"


def without_secrets(text: str, secrets: Collection[str]) -> str:
    """``text`` with each of ``secrets`` replaced: plain, escaped as in a header, or as Python prints it.

    The beginning of a secret is replaced too if the text, or a quotation in it, is cut off there.
    """
    forms = {form for secret in secrets for form in _forms(secret)} - {""}
    if not forms:
        return text
    # The longest first, since one secret may begin like another.
    longest_first = sorted(forms, key=len, reverse=True)
    return _without_beginnings(re.sub("|".join(map(re.escape, longest_first)), _HIDDEN, text), forms)


def _forms(secret: str) -> tuple[str, ...]:
    escapes = (escape(secret, version) for version in ("1.1", "1.2"))
    return secret, secret.strip(), *escapes, repr(secret)[1:-1], shown(secret, len(secret))


def _without_beginnings(text: str, forms: Collection[str]) -> str:
    """``text`` without beginnings of secrets just before a possible cut."""
    for end in sorted((found.start() for found in _POSSIBLE_CUT.finditer(text)), reverse=True):
        shown = max(_shown_part(text[:end], form) for form in forms)
        if shown:
            text = text[: end - shown] + _HIDDEN + text[end:]
    return text


def _shown_part(text: str, secret: str) -> int:
    """How many first characters of ``secret`` are at the end of ``text``; 0 if they are too few to matter."""
    lengths = range(min(len(secret), len(text)), _SHORTEST_PART - 1, -1)
    return next((length for length in lengths if text.endswith(secret[:length])), 0)
