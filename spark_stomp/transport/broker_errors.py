"""An ERROR frame as an exception that says what was asked for and what the broker answered."""

from __future__ import annotations

import re
from collections.abc import Collection

from spark_stomp.errors import BrokerError, ClientIdInUse, DestinationRefused, LoginRefused
from spark_stomp.protocol import ErrorReceived, Frame
from spark_stomp.protocol.grammar import escape

__all__ = ["broker_error", "broker_words", "connect_refused", "without_secrets"]

_DETAIL_LENGTH = 300
_HIDDEN = "***"
# Where this project cuts what it quotes: at its end, which a quotation mark or a punctuation mark may follow.
_CUT = re.compile(r"$|['\"]|[:,;] ")
# So many characters of a secret are one character too many.
_TELLING = 3
# ActiveMQ: "Broker: b - Client: c already connected from tcp://..."; Artemis: "... client ID ... in use".
_IN_USE = re.compile(r"client.*\balready (been )?(connected|in use|set)|client.?id.*\bin use", re.IGNORECASE)


def broker_words(event: ErrorReceived) -> str:
    """The ``message`` header of an ERROR frame and the beginning of its body, on one line."""
    detail = " ".join(event.detail.split())
    if len(detail) > _DETAIL_LENGTH:
        detail = detail[:_DETAIL_LENGTH] + "..."
    words = " - ".join(part for part in (event.message, detail) if part)
    return words or "(no reason given)"


def without_secrets(text: str, secrets: Collection[str]) -> str:
    """``text`` with each of ``secrets`` replaced: as it is, escaped as in a header, or as Python shows it.

    So is the beginning of one where the text, or a quotation in it, was cut off.
    """
    forms = {form for secret in secrets for form in _forms(secret)} - {""}
    if not forms:
        return text
    # The longest first: one secret may begin like another.
    longest_first = sorted(forms, key=len, reverse=True)
    return _without_beginnings(re.sub("|".join(map(re.escape, longest_first)), _HIDDEN, text), forms)


def _without_beginnings(text: str, forms: Collection[str]) -> str:
    for end in sorted((found.start() for found in _CUT.finditer(text)), reverse=True):
        shown = max(_shown(text[:end], form) for form in forms)
        if shown:
            text = text[: end - shown] + _HIDDEN + text[end:]
    return text


def _shown(text: str, secret: str) -> int:
    """How many characters of the beginning of ``secret`` ``text`` ends with; 0 where they tell nothing."""
    lengths = range(min(len(secret), len(text)), _TELLING - 1, -1)
    return next((length for length in lengths if text.endswith(secret[:length])), 0)


def _forms(secret: str) -> tuple[str, ...]:
    return secret, secret.strip(), escape(secret, "1.1"), escape(secret, "1.2"), repr(secret)[1:-1]


def connect_refused(
    event: ErrorReceived, peer: str, client_id: str | None, secrets: Collection[str] = ()
) -> LoginRefused:
    """The exception for an ERROR frame in answer to CONNECT, which named ``client_id`` and ``secrets``.

    Brokers quote what they refuse; ``secrets`` are replaced in their words.
    """
    in_use = client_id is not None and _IN_USE.search(broker_words(event))
    words = broker_words(_redacted(event, secrets))
    if in_use:
        return ClientIdInUse(f"{peer} refused CONNECT: clientId {client_id} is in use: {words}")
    return LoginRefused(f"{peer} refused CONNECT: {words}")


def _redacted(event: ErrorReceived, secrets: Collection[str]) -> ErrorReceived:
    """The ERROR frame without ``secrets``, before its words are shortened, which may cut one in two."""
    frame = event.frame
    headers = tuple((name, without_secrets(value, secrets)) for name, value in frame.headers)
    return ErrorReceived(Frame(frame.command, headers, without_secrets(event.detail, secrets).encode()))


def broker_error(
    event: ErrorReceived, peer: str, what: str = "", secrets: Collection[str] = ()
) -> BrokerError:
    """The exception for an ERROR frame on an established connection.

    ``what`` names the request that the error answers, as far as that is known (a SUBSCRIBE, a SEND);
    ``secrets``, which CONNECT held, are replaced in the broker's words.
    """
    words = broker_words(_redacted(event, secrets))
    if not what:
        return BrokerError(f"the broker at {peer} reported an error and ended the connection: {words}")
    return DestinationRefused(f"the broker at {peer} refused {what}: {words}")
