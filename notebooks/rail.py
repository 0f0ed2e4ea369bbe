"""Simulated rail feeds: generated messages in the form of two public ones.

``movements``  as Network Rail's train movements: a topic for each operator; a message is a JSON array
``forecasts``  as National Rail's Darwin: one topic; a message is gzip XML, and a header says what is in it

Operators, trains and stations are invented.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from spark_stomp.devbroker import DevBroker, QueueView

LIFE: Final = timedelta(minutes=5)
"""How long after it was sent a message of either feed expires."""

DARWIN: Final = "/topic/darwin.pushport-v16"

_STOPS: Final = 8
_RUN: Final = timedelta(minutes=6)  # planned, from stop to stop
_MINUTE: Final = timedelta(minutes=1)
_NAMESPACES: Final = (
    'xmlns="http://www.thalesgroup.com/rtti/PushPort/v16" '
    'xmlns:ns2="http://www.thalesgroup.com/rtti/PushPort/Schedules/v3" '
    'xmlns:ns5="http://www.thalesgroup.com/rtti/PushPort/Forecasts/v3"'
)


@dataclass(frozen=True, order=True)
class Operator:
    """A train operator: code in its topic, number in its messages, minutes between two trains, and name."""

    code: str
    toc_id: str
    headway: float
    name: str

    @property
    def topic(self) -> str:
        """The topic with the movements of its trains."""
        return f"/topic/TRAIN_MVT_{self.code}_TOC"


OPERATORS: Final = (
    Operator("XA", "91", 2.0, "Moorland Railway"),
    Operator("XB", "92", 1.0, "Coast Line"),
    Operator("XC", "93", 1.5, "Valley Trains"),
)


@dataclass(frozen=True)
class Call:
    """One train at one stop: when it was expected, and when it came."""

    operator: Operator
    train: int
    stop: int
    planned: datetime
    actual: datetime

    @property
    def train_id(self) -> str:
        """As in the movements: ten characters."""
        return f"{self.operator.toc_id}{self.train:04d}MW02"


@dataclass(frozen=True)
class Message:
    """A message, and when the feed sends it. ``kind`` are headers of Darwin alone."""

    sent: datetime
    destination: str
    body: bytes
    kind: tuple[tuple[str, str], ...] = ()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Its headers. Times are in milliseconds since the epoch."""
        times = ("timestamp", _milliseconds(self.sent)), ("expires", _milliseconds(self.sent + LIFE))
        return [*self.kind, *times]


class SimulatedFeed:
    """Publishes messages to a dev broker of its own. ``now`` is the feed's time, and the time of that broker.

    Args:
        messages: what the feed sends, in any order; at least one.
        broker: further arguments of the :class:`DevBroker`, such as ``host`` and ``users``.
    """

    def __init__(self, messages: Iterable[Message], **broker: Any) -> None:
        self._messages = deque(sorted(messages, key=lambda message: message.sent))
        self._topics = {message.destination for message in self._messages}
        self.now = self._messages[0].sent
        self.broker = DevBroker(clock=lambda: self.now.timestamp(), **broker).start()

    def subscriptions(self) -> list[QueueView]:
        """The figures of all durable subscriptions."""
        return [view for topic in self._topics for view in self.broker.durable(topic).values()]

    def play(self, until: datetime) -> int:
        """Send what is due before ``until``, which is the time afterwards; returns how many messages.

        The time waits for a reader with durable subscriptions, so that it gets its messages before they
        expire. Raises TimeoutError if it takes none for 10 seconds.
        """
        count = 0
        while self._messages and self._messages[0].sent < until:
            message = self._messages.popleft()
            self.broker.publish(message.destination, message.body, message.headers)
            count += 1
        if self.broker.connections:
            self.broker.wait_until(self._delivered, what="a reader to take the messages")
        self.now = until
        return count

    def _delivered(self) -> bool:
        return all(view.depth == view.unacked for view in self.subscriptions())


def calls(begin: datetime, minutes: int, *, failure: tuple[int, int], seed: int = 4) -> list[Call]:
    """The calls of all trains from ``begin`` on, in order.

    The last operator has a signal failure between two minutes after ``begin``.
    """
    chance, end = random.Random(seed), begin + timedelta(minutes=minutes)
    broken = begin + timedelta(minutes=failure[0]), begin + timedelta(minutes=failure[1])
    found: list[Call] = []
    for operator in OPERATORS:
        times = broken if operator == OPERATORS[-1] else None
        # From the beginning there are trains at every stop.
        first = begin - _STOPS * _RUN
        for train in range(int((end - first) / _MINUTE / operator.headway)):
            start = first + train * operator.headway * _MINUTE
            found += _journey(operator, train, start, times, chance)
    return sorted(
        (call for call in found if begin <= call.actual < end), key=lambda call: (call.actual, call.operator)
    )


def _journey(
    operator: Operator,
    train: int,
    start: datetime,
    failure: tuple[datetime, datetime] | None,
    chance: random.Random,
) -> Iterator[Call]:
    """The calls of one train. It makes up for a delay, unless there is a ``failure``."""
    late = chance.expovariate(1.0)
    for stop in range(_STOPS):
        planned = start + stop * _RUN
        failing = failure is not None and failure[0] <= planned < failure[1]
        late = max(0.0, late + chance.gauss(1.8 if failing else -0.2, 0.7))
        yield Call(operator, train, stop, planned, planned + late * _MINUTE)


def movements(trains: Iterable[Call]) -> Iterator[Message]:
    """Of each operator a message a minute, which is a JSON array of what its trains did in that minute."""
    for (operator, minute), found in groupby(sorted(trains, key=_minute), _minute):
        sent = minute + _MINUTE
        body = [report for call in found for report in _reports(call, sent)]
        yield Message(sent, operator.topic, json.dumps(body).encode())


def _minute(call: Call) -> tuple[Operator, datetime]:
    return call.operator, call.actual.replace(second=0, microsecond=0)


def _reports(call: Call, sent: datetime) -> Iterator[dict[str, Any]]:
    """The movement (0003), and before that of a train's first stop its activation (0001)."""
    if call.stop == 0:
        yield {
            "header": {
                "msg_type": "0001",
                "msg_queue_timestamp": _milliseconds(sent),
                "source_system_id": "TRUST",
            },
            "body": {"train_id": call.train_id, "toc_id": call.operator.toc_id, "train_call_mode": "NORMAL"},
        }
    minutes = round((call.actual - call.planned) / _MINUTE)
    yield {
        "header": {
            "msg_type": "0003",
            "msg_queue_timestamp": _milliseconds(sent),
            "original_data_source": "SMART",
            "source_system_id": "TRUST",
        },
        "body": {
            "event_type": "DEPARTURE" if call.stop == 0 else "ARRIVAL",
            "train_id": call.train_id,
            "toc_id": call.operator.toc_id,
            "loc_stanox": str(32000 + call.stop),
            "planned_timestamp": _milliseconds(call.planned),
            "actual_timestamp": _milliseconds(call.actual),
            "timetable_variation": str(minutes),
            "variation_status": "LATE" if minutes else "ON TIME",
            "train_terminated": str(call.stop == _STOPS - 1).lower(),
        },
    }


def forecasts(trains: Iterable[Call]) -> Iterator[Message]:
    """A message for each update: the schedule of a train (SC), and its status at each call (TS)."""
    for number, (sent, kind, update) in enumerate(sorted(one for call in trains for one in _updates(call))):
        yield _darwin(number, sent, kind, update)


def _updates(call: Call) -> Iterator[tuple[datetime, str, str]]:
    """When each update is sent, its MessageType, and its XML."""
    if call.stop == 0:
        yield call.actual - _MINUTE, "SC", _schedule(call)
    yield call.actual, "TS", _status(call)


def _darwin(number: int, sent: datetime, kind: str, update: str) -> Message:
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?><Pport {_NAMESPACES} ts="{sent.isoformat()}" version="16.0">'
        f'<uR updateOrigin="TD">{update}</uR></Pport>'
    )
    headers = (("MessageType", kind), ("SequenceNumber", str(number)))
    # Without a time in it, the same text is always the same bytes.
    return Message(sent, DARWIN, gzip.compress(text.encode(), mtime=0), headers)


def _train(call: Call) -> str:
    """The attributes that identify a train."""
    day = call.planned.date()
    return f'rid="{day:%Y%m%d}{call.train_id[:6]}" uid="{call.operator.code}{call.train:04d}" ssd="{day}"'


def _schedule(call: Call) -> str:
    stops = "".join(
        f'<ns2:IP tpl="STOP{stop}" pta="{call.planned + stop * _RUN:%H:%M}"/>' for stop in range(_STOPS)
    )
    return f'<schedule {_train(call)} toc="{call.operator.code}">{stops}</schedule>'


def _status(call: Call) -> str:
    """When the train came, and when it is expected at the next stop."""
    late = call.actual - call.planned
    found = _location(call, 0, f'at="{call.actual:%H:%M}" src="TD"')
    if call.stop < _STOPS - 1:
        found += _location(call, 1, f'et="{call.planned + _RUN + late:%H:%M}" src="Darwin"')
    return f"<TS {_train(call)}>{found}</TS>"


def _location(call: Call, ahead: int, arrival: str) -> str:
    """A stop of the train, ``ahead`` stops after that of the call."""
    planned = call.planned + ahead * _RUN
    stop = f'tpl="STOP{call.stop + ahead}" pta="{planned:%H:%M}"'
    return f"<ns5:Location {stop}><ns5:arr {arrival}/></ns5:Location>"


def _milliseconds(moment: datetime) -> str:
    return str(round(moment.timestamp() * 1000))
