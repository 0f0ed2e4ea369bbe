"""Makes exceptions of ERROR frames. They name the request and quote the broker, without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from urllib.parse import unquote

from spark_stomp.brokers.known import error_pattern, named_queue, remedy
from spark_stomp.errors import BrokerError, ClientIdInUse, ConnectFailed, DestinationRefused, LoginRefused
from spark_stomp.protocol import ErrorReceived
from spark_stomp.quoting import shown
from spark_stomp.transport.hiding import forms_of, without_secrets

# Characters that an error shows of the message header and of the body.
_MESSAGE_LENGTH, _DETAIL_LENGTH = 200, 300
# Characters of a text that are searched for secrets; the rest is not shown. An ERROR of 64 MB full of
# quotation marks kept a core busy for three minutes (November 2026).
_SEARCHED = 10_000
_STOPPING, _NO_BROKER, _IN_USE, _FAILED, _UNASKED, _PASSING = map(
    error_pattern, ("stopping", "no_broker", "client_id_in_use", "failed", "unasked", "passing")
)
_VIRTUAL_HOST = re.compile(r"\bvirtual.?host|\bvhost", re.IGNORECASE)
# What brokers quote. A quotation that was cut has no end. An apostrophe is within a word or behind one, and
# brackets are around sentences too.
_QUOTATION = re.compile(r"(?<!\w)'.*?(?:'(?!\w)|$)|\".*?(?:\"|$)|\[[^\s\[\]]*\]")


class _OwnWords:
    """What an ERROR says in the broker's own words, and not in names or values that it quotes.

    A queue may be called "stopping", and a user "shutdown".

    Args:
        event: the ERROR.
        names: what this ERROR may quote without quotation marks.
    """

    def __init__(self, event: ErrorReceived, names: Collection[str]) -> None:
        self._text = _QUOTATION.sub("''", _broker_words(event))
        forms = (form for name in names for part in _parts(name) for form in forms_of(part))
        # Only these matter, and they are short, as the text is: some patterns take long for a long token.
        self._names = {form for form in forms if form in self._text}

    def say(self, pattern: re.Pattern[str]) -> bool:
        """Whether ``pattern`` is there."""
        return pattern.search(self._without_names(pattern)) is not None

    def begin(self, pattern: re.Pattern[str]) -> bool:
        """Whether the words begin with ``pattern``."""
        return pattern.match(self._without_names(pattern)) is not None

    def _without_names(self, pattern: re.Pattern[str]) -> str:
        """The text without the names that look like ``pattern``. Others may be parts of its own words."""
        alike = sorted(filter(pattern.search, self._names), key=len, reverse=True)
        return re.sub("|".join(map(re.escape, alike)), "''", self._text) if alike else self._text


def _parts(name: str) -> set[str]:
    """``name``, and what is behind each separator in it: a broker may leave out what is before."""
    ends = [found.end() for found in re.finditer("/|::", name)]
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

    It is a ConnectFailed that is ``passing`` if the broker starts or stops, or if a relay has no broker.
    Brokers quote what they refuse, so ``secrets`` are replaced in the quotation. What the ERROR means is
    found in its own text, because a secret may be a part of the broker's words, but not in ``names``, such as
    the login, nor in secrets.
    """
    words, own = _broker_words(event, secrets), _OwnWords(event, (*names, *secrets, host, client_id or ""))
    if own.say(_STOPPING) or own.say(_NO_BROKER):
        away = ConnectFailed(f"{peer} has no broker to connect to, or it is starting or stopping: {words}")
        away.passing = True
        return away
    if own.say(_VIRTUAL_HOST):
        words += f". The header host was {shown(host)}: set the option virtualHost to what this broker wants"
    if client_id is not None and own.say(_IN_USE):
        return ClientIdInUse(f"{peer} refused CONNECT: clientId {client_id} is in use: {words}")
    return LoginRefused(f"{peer} refused CONNECT: {words}")


def broker_error(
    event: ErrorReceived,
    peer: str,
    what: str = "",
    secrets: Collection[str] = (),
    names: Collection[str] = (),
) -> BrokerError:
    """The exception for an ERROR frame on an established connection.

    ``what`` names the request that the ERROR seems to answer (a SUBSCRIBE, a SEND), and is empty if that is
    not known. If it is known, the exception is a DestinationRefused, unless the broker is stopping, has
    failed, has ended another subscription, or is lost to a relay. So it is if the broker says that a queue
    exists with other arguments than the request declares, because then no other request can succeed.
    ``secrets`` of CONNECT are replaced in the quotation. ``names`` are what the ERROR may quote beside the
    destination in ``what``: they say nothing about what it means.
    """
    # What the ERROR means is found in its own text, because a secret may be a part of the broker's words.
    words = _broker_words(event, secrets)
    own = _OwnWords(event, (*names, *secrets, what.partition(" to ")[2]))
    text = f"{event.frame.get('message') or ''}\n{event.detail}"[:_SEARCHED]
    hide = partial(without_secrets, secrets=secrets)
    if not what and (queue := named_queue(text)) is not None:
        what = f"SEND to /queue/{shown(hide(queue))}"
    if advice := remedy(text, what, hide):
        words = words.removesuffix(".") + advice
    gone, failed = own.say(_STOPPING) or own.say(_NO_BROKER), own.begin(_FAILED)
    if not what or own.begin(_UNASKED):
        error = BrokerError(f"the broker at {peer} reported an error and ended the connection: {words}")
    elif gone:
        error = BrokerError(f"the broker at {peer} ended the connection before it answered {what}: {words}")
    elif failed:
        error = BrokerError(f"the broker at {peer} failed while it handled {what}: {words}")
    else:
        error = DestinationRefused(f"the broker at {peer} refused {what}: {words}")
    error.passing = gone or failed or own.say(_PASSING)
    return error


def _broker_words(event: ErrorReceived, secrets: Collection[str] = ()) -> str:
    """The ``message`` header of an ERROR frame and the beginning of its body, on one line.

    ``secrets`` are replaced.
    """
    message = (event.frame.get("message") or "").strip()
    parts = ((message, _MESSAGE_LENGTH), (event.detail.strip(), _DETAIL_LENGTH))
    # Secrets are replaced first: afterwards one may be cut, or escaped so that it looks different.
    words = (shown(without_secrets(text[:_SEARCHED], secrets), most) for text, most in parts if text)
    # CoilMQ says the same in both.
    return " - ".join(dict.fromkeys(words)) or "(no reason given)"
