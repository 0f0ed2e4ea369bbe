"""Ask a broker how much waits in a queue, who reads from it, and whether an alarm blocks its producers.

- ActiveMQ tells it over STOMP, if its statistics plugin is on. It answers nothing about a queue that it does
  not have, so a second question follows that it always answers. The questions go to topics: without the
  plugin, nothing of them is left.
- Artemis tells it over STOMP, if the login has the right ``manage``. The answers come by a topic that all
  askers share, so that no queue is left behind.
- RabbitMQ tells it by the HTTP API of its management plugin, at ``managementUrl``.

(Seen with ActiveMQ 6.3.1, Artemis 2.56.0 and RabbitMQ 4.3.6 in November 2026.)
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from spark_stomp.brokers import Dialect
from spark_stomp.brokers.rabbitmq import stream_name
from spark_stomp.errors import LoginRefused, ReceiptTimeout, UnsupportedError
from spark_stomp.options import ConnectionOptions
from spark_stomp.protocol import ErrorReceived, Frame
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.quoting import counted, shown
from spark_stomp.transport.connect import at_peer, open_connection
from spark_stomp.transport.hiding import without_secrets
from spark_stomp.transport.http_get import http_get
from spark_stomp.transport.logins import password_of
from spark_stomp.transport.stream import tls_context

# Seconds for all answers.
_TIMEOUT: Final = 3.0
# Bytes of an answer of the HTTP API that are read.
_LARGEST: Final = 1 << 20
# The percentage of a limit of memory or disk at which producers wait.
_FULL: Final = 100
_ENTRY: Final = re.compile(r"<entry>\s*<string>(\w+)</string>\s*<\w+>([^<]*)</\w+>\s*</entry>")
_STATISTICS: Final = "/topic/ActiveMQ.Statistics."
_MANAGEMENT: Final = "activemq.management"
_REPLIES: Final = "spark_stomp.replies"
_WILDCARDS: Final = re.compile(r"[*#>]")
_NO_RIGHT: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class NotTold(UnsupportedError):
    """The broker tells nothing of any queue."""


class LoginNotAccepted(UnsupportedError):
    """The broker does not tell it, because it refuses the login of the question."""


@dataclass(frozen=True)
class Standing:
    """What a broker tells of a queue.

    - ``is_there``: whether it has the queue.
    - ``ready``, ``unacked``, ``consumers``: messages that wait, messages that consumers have, and how many
      consumers there are; None if there is no queue, or it is so new that the broker does not know.
    - ``alarm``: why the broker takes no messages for it; None if nothing is known.
    - ``scheduled``: messages that it has, and gives to nobody before their time. They are not ``ready``.
    - ``wanted``: how many of those that are ready the selector may want; None without one.
    - ``passing``: whether the broker deletes it once it is empty and nobody reads it.
    - ``forgetful``: what kind of queue it is, if it may delete messages that come back to it from a consumer
      that goes.
    """

    is_there: bool
    ready: int | None = None
    unacked: int | None = None
    consumers: int | None = None
    alarm: str | None = None
    scheduled: int = 0
    wanted: int | None = None
    passing: bool = False
    forgetful: str = ""

    def __str__(self) -> str:
        if not self.is_there:
            return "there is no such queue"
        if self.ready is None or self.unacked is None or self.consumers is None:
            return "is there, and its figures are not known yet"
        waits = "message waits" if self.ready == 1 else "messages wait"
        later = f", {self.scheduled:,} scheduled for later" if self.scheduled else ""
        return (
            f"{self.ready:,} {waits}{later}, {self.unacked:,} un-acked, {counted(self.consumers, 'consumer')}"
        )


@dataclass(frozen=True)
class Told:
    """What the broker told of a queue at ``at`` (seconds since 1970; ``asked_at``: monotonic).

    ``own`` is how many of its consumers are those of the query that asked.
    """

    standing: Standing
    at: float
    asked_at: float
    own: int
    dialect: Dialect

    @property
    def settling(self) -> float:
        """Seconds after which the figures are those of now. RabbitMQ's may be five seconds old (4.3.6)."""
        return 5.0 if self.dialect.name == "rabbitmq" else 1.0

    @property
    def withheld(self) -> int:
        """How many messages wait for a consumer that has nothing of the queue, and should get them."""
        wanted = self.standing.wanted
        return wanted if wanted is not None else self.standing.ready or 0


def waits(told: Iterable[Standing], own: int) -> str:
    """What such queues mean for a query that has ``own`` consumers there, and has nothing of them."""
    every = [*told]
    ready = sum(one.ready or 0 for one in every)
    unacked = sum(one.unacked or 0 for one in every)
    others = max(0, sum(one.consumers or 0 for one in every) - own)
    here = f"{ready:,} wait there"
    if later := sum(one.scheduled for one in every):
        here += f", {later:,} are scheduled for later"
    text = f"{here}, {counted(others, 'other consumer')}"
    if unacked and not others:
        text = f"{here}, and {unacked:,} that it gave to this query have not come"
    return "; ".join([text, *dict.fromkeys(one.alarm for one in every if one.alarm)])


def why_withheld(dialect: str, selector: str | None) -> str:
    """Why a broker may give none of the messages that wait to a consumer that has nothing: a clause."""
    why = {
        "activemq": "the queue is paused, or another consumer has it or their groups for itself (exclusive)",
        "artemis": "the queue is paused, it waits for more consumers (consumers-before-dispatch), another "
        "consumer has it or their groups for itself (exclusive), or it is paged to disk, and what others "
        "have un-acked, or a selector leaves out, is all that the broker reads of it (max-read-page-bytes, "
        "20 MB by default)",
        "rabbitmq": "another consumer has the queue for itself (x-single-active-consumer)",
    }.get(dialect, "the queue is paused, or another consumer has it for itself")
    if selector is not None and dialect == "activemq":
        why = (
            "the selector wants none of them, or those that it wants stand behind more others than ActiveMQ "
            f"looks at (maxPageSize, 200 by default; with lazyDispatch the prefetch); or {why}"
        )
    return why


def standing(
    options: ConnectionOptions, dialect: Dialect, destination: str, peer: str, selector: str | None = None
) -> Standing:
    """What the broker at ``peer`` tells of the queue ``destination``, asked over a connection of its own.

    With ``selector`` also how many of its messages that wants, if the broker tells. A wildcard of ActiveMQ
    has the sums of its queues.

    Raises UnsupportedError, with the reason, if the broker does not tell it, NotTold if it tells nothing of
    any queue, LoginNotAccepted if that is the login; BrokerError if the broker ends the connection, as while
    it stops; and what ``open_connection`` raises.
    """
    if not dialect.is_queue(destination):
        raise UnsupportedError("only queues have such figures")
    ask = {"activemq": _of_activemq, "artemis": _of_artemis, "rabbitmq": _of_rabbitmq}.get(dialect.name)
    if ask is None:
        raise NotTold(f"how to ask this broker ({dialect.name}) is not known")
    if dialect.name == "artemis" and _WILDCARDS.search(destination):
        raise UnsupportedError("the broker tells the figures of one queue, and this is a wildcard")
    try:
        # Only one connection may have the client id: that of the query.
        found = ask(at_peer(replace(options, client_id=None), peer), stream_name(destination), selector)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UnsupportedError("the broker's answer is not understood") from None
    if selector is None or found.wanted is not None:
        return found
    # ActiveMQ does not say how many. It has looked at a page of them.
    ready = found.ready or 0
    return replace(found, wanted=ready if ready > (dialect.page_size or 0) else 0)


# --- over STOMP


def _of_activemq(options: ConnectionOptions, queue: str, _: str | None) -> Standing:
    names = ",".join(f"queue://{stream_name(one)}" for one in queue.split(","))
    asked = {
        "queue": _Question(f"{_STATISTICS}Destination.{names}"),
        "broker": _Question(f"{_STATISTICS}Broker"),
    }
    only = "ActiveMQ tells it only with its plugin <statisticsBrokerPlugin/>"
    found = _answers(options, (("destination", "/temp-queue/standing"),), asked, only)
    every, (broker,) = ([dict(_ENTRY.findall(one.decode())) for one in found[name]] for name in asked)
    limits = {"memory": "memoryPercentUsage", "store": "storePercentUsage", "temp": "tempPercentUsage"}
    full = [name for name, key in limits.items() if int(broker.get(key, 0)) >= _FULL]
    alarm = f"the limit of {' and '.join(full)} is reached (systemUsage)" if full else None
    if any(int(told.get("memoryPercentUsage", 0)) >= _FULL for told in every):
        alarm = "the queue has reached its memoryLimit (producer flow control)"
    if not every:
        return Standing(is_there=False, alarm=alarm)
    unacked = sum(int(told["inflightCount"]) for told in every)
    # Each consumer of a wildcard is one of every queue.
    consumers = max(int(told["consumerCount"]) for told in every)
    return Standing(True, sum(int(told["size"]) for told in every) - unacked, unacked, consumers, alarm)


def _of_artemis(options: ConnectionOptions, queue: str, selector: str | None) -> Standing:
    address, _, name = queue.partition("::")
    which = {"field": "name", "operation": "EQUALS", "value": name or address}
    queues = (("_AMQ_ResourceName", "broker"), ("_AMQ_OperationName", "listQueues"))
    settings = (("_AMQ_ResourceName", "broker"), ("_AMQ_OperationName", "getAddressSettingsAsJSON"))
    limit = (("_AMQ_ResourceName", f"address.{address}"), ("_AMQ_Attribute", "addressLimitPercent"))
    count = (("_AMQ_ResourceName", f"queue.{name or address}"), ("_AMQ_OperationName", "countMessages"))
    # It looks at all messages of the queue to count them.
    by_selector = (
        {} if selector is None else {"wanted": _Question(_MANAGEMENT, count, json.dumps([selector]).encode())}
    )
    asked = by_selector | {
        "queues": _Question(_MANAGEMENT, queues, json.dumps([json.dumps(which), 1, 1]).encode()),
        "settings": _Question(_MANAGEMENT, settings, json.dumps([address]).encode()),
        "limit": _Question(_MANAGEMENT, limit, b"[]"),
    }
    replies = (("destination", _REPLIES), ("subscription-type", "MULTICAST"))
    only = f"Artemis tells it only to a login with the right manage on {_MANAGEMENT}"
    found = _answers(options, replies, asked, only)
    told = {name: json.loads(answers[0])[0] for name, answers in found.items()}
    listed, percent = json.loads(told["queues"])["data"], told["limit"]
    policy = str(json.loads(told["settings"]).get("addressFullMessagePolicy"))
    # With PAGE, messages that find no room in memory go to disk. With BLOCK a producer by STOMP does not wait
    # (seen with 2.56.0 in November 2026).
    full = isinstance(percent, int) and percent >= _FULL and policy in ("DROP", "FAIL")
    alarm = f"the address is full (address-full-policy {shown(policy)})" if full else None
    if not listed:
        return Standing(is_there=False, alarm=alarm)
    keys = ("messageCount", "deliveringCount", "scheduledCount", "consumerCount")
    messages, unacked, scheduled, consumers = (int(listed[0].get(key, 0)) for key in keys)
    ready, wanted = messages - unacked - scheduled, told.get("wanted")
    # Its count has what consumers have, too. A selector that is none has a text for an answer.
    known = min(max(0, wanted - unacked), ready) if isinstance(wanted, int) else None
    passing = listed[0].get("autoDelete") == "true"
    return Standing(True, ready, unacked, consumers, alarm, scheduled, known, passing, _forgetful(listed[0]))


def _forgetful(listed: Mapping[str, Any]) -> str:
    if int(listed.get("ringSize", -1)) >= 0:
        return f"a ring queue (ring-size {int(listed['ringSize'])})"
    if listed.get("purgeOnNoConsumers") == "true":
        return "a queue that is purged when nobody reads it (purge-on-no-consumers)"
    return "a last-value queue" if listed.get("lastValue") == "true" else ""


class _Question(NamedTuple):
    destination: str
    headers: HeaderPairs = ()
    body: bytes = b""


def _answers(
    options: ConnectionOptions, replies: HeaderPairs, asked: Mapping[str, _Question], only: str
) -> dict[str, list[bytes]]:
    """The answers to questions, by their names: none, one, or several. The broker answers in order, and
    always the last one.

    Raises NotTold, with ``only``, if that answer does not come or the broker refuses; LoginNotAccepted; and
    BrokerError if the broker ends the connection before it is asked, or for a while.
    """
    token, found = secrets.token_hex(8), {name: list[bytes]() for name in asked}
    try:
        opened = open_connection(options, login_accepted=True)
    except LoginRefused as error:
        raise LoginNotAccepted(error.message) from None
    with opened as connection:
        connection.request("SUBSCRIBE", (("id", "standing"), ("ack", "auto"), *replies))
        for name, (destination, headers, body) in asked.items():
            to = (("reply-to", replies[0][1]), ("correlation-id", token + name))
            connection.request("SEND", (("destination", destination), *to, *headers), body)
        deadline = time.monotonic() + _TIMEOUT
        while not found[[*asked][-1]]:
            if (left := deadline - time.monotonic()) <= 0:
                raise NotTold(only)
            for event in connection.poll(left):
                if isinstance(event, ErrorReceived):
                    reason = connection.error_of(event)
                    raise reason if reason.verdict == "passes" else NotTold(only)
                if isinstance(event, Frame) and (of := event.get("correlation-id", "")).startswith(token):
                    found[of.removeprefix(token)].append(event.body)
    return found


# --- over HTTP


def _of_rabbitmq(options: ConnectionOptions, queue: str, _: str | None) -> Standing:
    if options.management_url is None:
        raise NotTold("RabbitMQ tells it at managementUrl alone")
    alarms = _fetched(options, "health/checks/alarms").get("alarms", ())
    of = sorted({shown(str(one.get("resource"))) for one in alarms})
    alarm = f"RabbitMQ has an alarm for {' and '.join(of)}" if of else None
    told = _fetched(options, f"queues/{quote(options.virtual_host, safe='')}/{quote(queue, safe='')}")
    if told is None:
        return Standing(is_there=False, alarm=alarm)
    ready, unacked, consumers = (
        _figure(told.get(key)) for key in ("messages_ready", "messages_unacknowledged", "consumers")
    )
    return Standing(True, ready, unacked, consumers, alarm, forgetful=_dropping(told))


def _dropping(told: Mapping[str, Any]) -> str:
    """Un-acked messages are not counted by a limit of RabbitMQ. If they come back to a queue that is full by
    then, the oldest of all are dropped: they."""
    settings = dict(told.get("effective_policy_definition") or {})
    settings |= {name.removeprefix("x-"): value for name, value in dict(told.get("arguments") or {}).items()}
    limits = [name for name in ("max-length", "max-length-bytes") if name in settings]
    if not limits or told.get("type") == "stream" or settings.get("overflow", "drop-head") != "drop-head":
        return ""
    return f"a queue that drops its oldest messages when it is full ({limits[0]} {int(settings[limits[0]])})"


def _fetched(options: ConnectionOptions, what: str) -> Any:
    """The JSON object at a path of RabbitMQ's HTTP API; None if there is nothing.

    Raises UnsupportedError, which shows no secret, if it cannot be had.
    """
    password = password_of(options) or ""
    login = base64.b64encode(f"{options.login or ''}:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {login}"}
    url = f"{options.management_url}/api/{what}"
    try:
        # The password is for this address alone, so no redirect is followed.
        status, content = http_get(url, headers, lambda: tls_context(options.tls), _TIMEOUT, _LARGEST)
        if status == HTTPStatus.NOT_FOUND and what.startswith("queues"):
            return None
        alarm = status == HTTPStatus.SERVICE_UNAVAILABLE and what.startswith("health")
        if status == HTTPStatus.OK or alarm:
            if isinstance(found := json.loads(content), dict):
                return found
            raise ValueError("the answer is no JSON object")
    except (OSError, ValueError, HTTPException) as error:
        # It quotes what is no answer of HTTP, and what listens there may send back what it was sent.
        why = without_secrets(str(error), (login, password))
        raise UnsupportedError(f"managementUrl cannot be asked: {why}") from None
    why = "the login needs the tag monitoring" if status in _NO_RIGHT else "is it RabbitMQ's?"
    kind = LoginNotAccepted if status == HTTPStatus.UNAUTHORIZED else UnsupportedError
    raise kind(f"managementUrl answers {status} to /api/{what}: {why}")


def _figure(told: Any) -> int | None:
    """A figure of a queue; None if it is not known yet. Raises TypeError if it is no whole number."""
    if told is not None and type(told) is not int:
        raise TypeError(told)
    return told


def takes_messages(options: ConnectionOptions, peer: str) -> bool:
    """Whether RabbitMQ at ``peer`` takes messages, and has no alarm for memory or disk.

    A message goes to a topic to which nobody has bound a queue, so nothing of it is left. RabbitMQ confirms
    the first message of a connection even then, and reads nothing that follows its receipt, so DISCONNECT is
    not confirmed (seen with 4.3.6 in November 2026).
    """
    with open_connection(at_peer(options, peer), login_accepted=True) as connection:
        receipt, topic = connection.session.new_receipt(), f"/topic/spark_stomp.{secrets.token_hex(8)}"
        connection.request("SEND", (("destination", topic),), receipt=receipt)
        try:
            connection.await_receipts({receipt: f"SEND to {topic}"}, _TIMEOUT)
            connection.disconnect(_TIMEOUT)
        except ReceiptTimeout:
            return False
    return True
