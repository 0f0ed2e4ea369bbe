"""ERROR frames as exceptions that name the request and quote the broker, without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection

from spark_stomp.errors import BrokerError, ClientIdInUse, DestinationRefused, LoginRefused
from spark_stomp.protocol import ErrorReceived, Frame
from spark_stomp.protocol.grammar import escape

_DETAIL_LENGTH = 300
_HIDDEN = "***"
# A text that this project quotes may be cut at its end, before a quotation mark, or before punctuation.
_POSSIBLE_CUT = re.compile(r"$|['\"]|[:,;] ")
# Fewer characters of a secret reveal nothing.
_SHORTEST_PART = 3
# ActiveMQ: "Broker: b - Client: c already connected from tcp://..."; Artemis: "... client ID ... in use".
_IN_USE = re.compile(r"client.*\balready (been )?(connected|in use|set)|client.?id.*\bin use", re.IGNORECASE)


def connect_refused(
    event: ErrorReceived, peer: str, client_id: str | None, secrets: Collection[str] = ()
) -> LoginRefused:
    """The exception for an ERROR frame in answer to a CONNECT with ``client_id``.

    Brokers quote what they refuse; ``secrets`` are replaced in their words.
    """
    in_use = client_id is not None and _IN_USE.search(_broker_words(event))
    words = _broker_words(_redacted(event, secrets))
    if in_use:
        return ClientIdInUse(f"{peer} refused CONNECT: clientId {client_id} is in use: {words}")
    return LoginRefused(f"{peer} refused CONNECT: {words}")


def broker_error(
    event: ErrorReceived, peer: str, what: str = "", secrets: Collection[str] = ()
) -> BrokerError:
    """The exception for an ERROR frame on an established connection.

    ``what`` names the request that it answers, if that is known (a SUBSCRIBE, a SEND); ``secrets`` of CONNECT
    are replaced in the broker's words.
    """
    words = _broker_words(_redacted(event, secrets))
    if not what:
        return BrokerError(f"the broker at {peer} reported an error and ended the connection: {words}")
    return DestinationRefused(f"the broker at {peer} refused {what}: {words}")


def _redacted(event: ErrorReceived, secrets: Collection[str]) -> ErrorReceived:
    """The ERROR frame without ``secrets``. Called before its text is shortened, which may cut a secret."""
    frame = event.frame
    headers = tuple((name, without_secrets(value, secrets)) for name, value in frame.headers)
    return ErrorReceived(Frame(frame.command, headers, without_secrets(event.detail, secrets).encode()))


def _broker_words(event: ErrorReceived) -> str:
    """The ``message`` header of an ERROR frame and the beginning of its body, on one line."""
    detail = " ".join(event.detail.split())
    if len(detail) > _DETAIL_LENGTH:
        detail = detail[:_DETAIL_LENGTH] + "..."
    words = " - ".join(part for part in (event.message, detail) if part)
    return words or "(no reason given)"


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
    return secret, secret.strip(), escape(secret, "1.1"), escape(secret, "1.2"), repr(secret)[1:-1]


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
