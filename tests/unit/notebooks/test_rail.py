"""notebooks/rail.py: the form of the messages, and when they expire."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta, timezone
from xml.etree import ElementTree

import pytest
from rail import (
    DARWIN,
    OPERATORS,
    Call,
    Message,
    calls,
    forecasts,
    movements,
)

SIX = datetime(2026, 3, 2, 6, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
FORECASTS = "{http://www.thalesgroup.com/rtti/PushPort/Forecasts/v3}"
PPORT = "{http://www.thalesgroup.com/rtti/PushPort/v16}"


@pytest.fixture(scope="module")
def trains() -> list[Call]:
    return calls(SIX, 30, failure=(5, 20))


def test_trains_run_all_the_time_and_only_a_failure_delays_them(trains: list[Call]) -> None:
    assert trains == calls(SIX, 30, failure=(5, 20)) != calls(SIX, 30, failure=(5, 20), seed=1)
    assert all(SIX <= call.actual < SIX + 30 * MINUTE and call.actual >= call.planned for call in trains)
    for operator in OPERATORS:
        late = [call.actual - call.planned for call in trains if call.operator == operator]
        assert (max(late) > 8 * MINUTE) == (operator == OPERATORS[-1])


def test_a_message_of_movements_is_what_an_operator_did_in_a_minute(trains: list[Call]) -> None:
    found = list(movements(trains))
    assert {message.destination for message in found} == {operator.topic for operator in OPERATORS}
    by_stop = {(call.train_id, str(32000 + call.stop)): call for call in trains}
    for message in found:
        for one in json.loads(message.body):
            assert int(one["header"]["msg_queue_timestamp"]) == message.sent.timestamp() * 1000
            if one["header"]["msg_type"] == "0003":
                body = one["body"]
                call = by_stop.pop((body["train_id"], body["loc_stanox"]))
                assert message.destination == call.operator.topic
                assert message.sent - MINUTE <= call.actual < message.sent
                assert float(body["actual_timestamp"]) == round(call.actual.timestamp() * 1000)
                late = round((call.actual - call.planned) / MINUTE)
                assert (body["timetable_variation"], body["variation_status"] == "LATE") == (
                    str(late),
                    late > 0,
                )
    assert by_stop == {}


def test_a_train_is_activated_before_its_first_movement(trains: list[Call]) -> None:
    reports = [one for message in movements(trains) for one in json.loads(message.body)]
    activated = {one["body"]["train_id"] for one in reports if one["header"]["msg_type"] == "0001"}
    departed = {one["body"]["train_id"] for one in reports if one["body"].get("event_type") == "DEPARTURE"}
    assert activated == departed == {call.train_id for call in trains if call.stop == 0}


def test_a_forecast_is_gzip_xml_that_its_header_names(trains: list[Call]) -> None:
    found = list(forecasts(trains))
    assert {message.destination for message in found} == {DARWIN}
    numbers = [dict(message.headers)["SequenceNumber"] for message in found]
    assert numbers == [str(number) for number in range(len(found))]
    status = [message for message in found if dict(message.headers)["MessageType"] == "TS"]
    assert len(status) == len(trains)
    for message, call in zip(status, trains, strict=True):
        root = ElementTree.fromstring(gzip.decompress(message.body))
        assert (root.tag, datetime.fromisoformat(root.attrib["ts"])) == (f"{PPORT}Pport", message.sent)
        (train,) = root.findall(f"{PPORT}uR/{PPORT}TS")
        first, *others = train.findall(f"{FORECASTS}Location/{FORECASTS}arr")
        assert train.attrib["ssd"] == "2026-03-02"
        assert first.attrib["at"] == f"{call.actual:%H:%M}"
        assert ["et" in other.attrib for other in others] == [True] * (call.stop < 7)
    schedules = [message for message in found if message not in status]
    assert len(schedules) == sum(call.stop == 0 for call in trains)
    assert all(b"<schedule " in gzip.decompress(message.body) for message in schedules)


def test_times_are_headers() -> None:
    message = Message(SIX, DARWIN, b"", (("MessageType", "TS"),))
    since = round(SIX.timestamp() * 1000)
    assert dict(message.headers) == {
        "MessageType": "TS",
        "timestamp": str(since),
        "expires": str(since + 300_000),
    }
