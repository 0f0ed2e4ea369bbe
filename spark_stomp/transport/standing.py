"""Ask a broker how much waits in a queue, who reads from it, and whether an alarm blocks its producers.

``brokers.standing`` says what is asked, and each broker what its answers mean.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPException
from typing import Final

from spark_stomp.brokers import Dialect
from spark_stomp.brokers.standing import (
    ByHttp,
    ByStomp,
    HttpAnswer,
    LoginNotAccepted,
    Question,
    Standing,
    TellsNothing,
)
from spark_stomp.deadline import Deadline
from spark_stomp.errors import LoginRefused, ReceiptTimeout, UnsupportedError
from spark_stomp.options import ConnectionOptions
from spark_stomp.protocol import ErrorReceived, Frame
from spark_stomp.transport.connect import at_peer, open_connection
from spark_stomp.transport.hiding import without_secrets
from spark_stomp.transport.http_get import http_get
from spark_stomp.transport.logins import password_of
from spark_stomp.transport.stream import tls_context

# Seconds for all answers.
_TIMEOUT: Final = 3.0
# Bytes of an answer of HTTP that are read.
_LARGEST: Final = 1 << 20


def ask_standing(
    options: ConnectionOptions, dialect: Dialect, destination: str, peer: str, selector: str | None = None
) -> Standing:
    """What the broker at ``peer`` tells of the queue ``destination``, asked over a connection of its own.

    With ``selector`` also how many of its messages that wants, if the broker tells. A wildcard of ActiveMQ
    has the sums of its queues.

    Raises UnsupportedError, with the reason, if the broker does not tell it, TellsNothing if it tells nothing
    of any queue, LoginNotAccepted if that is the login; BrokerError if the broker ends the connection, as
    while it stops; and what ``open_connection`` raises.
    """
    if not dialect.is_queue(destination):
        raise UnsupportedError("only queues have such figures")
    by = dialect.asks.by
    if by is None:
        raise TellsNothing(f"how to ask this broker ({dialect.name}) is not known")
    try:
        if isinstance(by, ByHttp):
            return by.standing(_fetched(options, by, destination))
        # Only one connection may have the client id: that of the query.
        options = at_peer(replace(options, client_id=None), peer)
        return by.standing(_answers(options, by, by.questions(destination, selector)), selector)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UnsupportedError("the broker's answer is not understood") from None


def _answers(
    options: ConnectionOptions, by: ByStomp, questions: Mapping[str, Question]
) -> dict[str, list[bytes]]:
    """The answers to questions, by their names: none, one, or several.

    Raises TellsNothing if the last one does not come or the broker refuses; LoginNotAccepted; and BrokerError
    if the broker ends the connection before it is asked, or for a while.
    """
    token, found = secrets.token_hex(8), {name: list[bytes]() for name in questions}
    try:
        opened = open_connection(options, login_accepted=True)
    except LoginRefused as error:
        raise LoginNotAccepted(error.message) from None
    with opened as connection:
        connection.request("SUBSCRIBE", (("id", "standing"), ("ack", "auto"), *by.replies))
        for name, (destination, headers, body) in questions.items():
            to = (("reply-to", by.replies[0][1]), ("correlation-id", token + name))
            connection.request("SEND", (("destination", destination), *to, *headers), body)
        deadline = Deadline.after(_TIMEOUT)
        while not found[[*questions][-1]]:
            if deadline.passed:
                raise TellsNothing(by.only)
            for event in connection.poll(deadline.left()):
                if isinstance(event, ErrorReceived):
                    reason = connection.error_of(event)
                    raise reason if reason.verdict == "passes" else TellsNothing(by.only)
                if isinstance(event, Frame) and (of := event.get("correlation-id", "")).startswith(token):
                    found[of.removeprefix(token)].append(event.body)
    return found


def _fetched(options: ConnectionOptions, by: ByHttp, destination: str) -> dict[str, HttpAnswer]:
    """The answers at the paths, by their names. Raises UnsupportedError, which shows no secret."""
    if options.management_url is None:
        raise TellsNothing(by.only)
    password, answers = password_of(options) or "", {}
    login = base64.b64encode(f"{options.login or ''}:{password}".encode()).decode()
    headers, deadline = {"Authorization": f"Basic {login}"}, Deadline.after(_TIMEOUT)
    for name, path in by.paths(options.virtual_host, destination).items():
        url = f"{options.management_url}{path}"
        try:
            # The password is for this address alone, so no redirect is followed.
            answer = http_get(url, headers, lambda: tls_context(options.tls), deadline, _LARGEST)
        except (OSError, ValueError, HTTPException) as error:
            # It quotes what is no answer of HTTP, and what listens there may send back what it was sent.
            why = without_secrets(str(error), (login, password))
            raise UnsupportedError(f"managementUrl cannot be asked: {why}") from None
        if answer.status not in (HTTPStatus.OK, by.accepted.get(name)):
            # A password that is refused is not sent again.
            error_class = LoginNotAccepted if answer.status == HTTPStatus.UNAUTHORIZED else UnsupportedError
            raise error_class(f"managementUrl answers {answer.status} to {path}: {by.refused(answer.status)}")
        answers[name] = answer
    return answers


def send_trial(options: ConnectionOptions, dialect: Dialect, peer: str) -> bool:
    """Send a message of which nothing is left. Returns whether the broker at ``peer`` took it, as far as its
    receipt shows."""
    if dialect.asks.trial_topic is None:
        return True
    with open_connection(at_peer(options, peer), login_accepted=True) as connection:
        receipt, topic = connection.session.new_receipt(), dialect.asks.trial_topic + secrets.token_hex(8)
        connection.request("SEND", (("destination", topic),), receipt=receipt)
        try:
            connection.await_receipts({receipt: f"SEND to {topic}"}, _TIMEOUT)
            connection.disconnect(_TIMEOUT)
        except ReceiptTimeout:
            return False
    return True
