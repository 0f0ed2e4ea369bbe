"""What is asked about a queue, and what the answers of each broker mean."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spark_stomp.brokers import dialect_named
from spark_stomp.brokers.standing import PASSING, ByHttp, ByStomp, HttpAnswer, Standing
from spark_stomp.errors import UnsupportedError

# By broker and by what was there, the answers of RabbitMQ 4.3.6, ActiveMQ 6.3.1 and Artemis 2.56.0 about a
# queue of 30 messages with one consumer, recorded in November 2026.
RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "standings.json").read_text("utf-8")
)
SELECTOR = "kind = 'a'"


def read(broker: str, answers: dict[str, Any], selector: str | None = None) -> Standing:
    by = dialect_named(broker).asks.by
    if isinstance(by, ByHttp):
        return by.standing({name: HttpAnswer(code, text.encode()) for name, (code, text) in answers.items()})
    assert by is not None
    return by.standing({name: [one.encode() for one in bodies] for name, bodies in answers.items()}, selector)


@pytest.mark.parametrize(
    ("broker", "held"),
    [
        ("rabbitmq", Standing(True, 20, 10, 1)),
        ("activemq", Standing(True, 20, 10, 1)),
        ("artemis", Standing(True, 0, 30, 1)),
    ],
)
def test_what_was_recorded(broker: str, held: Standing) -> None:
    assert read(broker, RECORDED[broker]["held"]) == held
    assert read(broker, RECORDED[broker]["absent"]) == Standing(is_there=False)
    if selected := RECORDED[broker].get("selected"):
        assert read(broker, selected, SELECTOR).wanted == 0


def asked(broker: str, destination: str, selector: str | None = None) -> dict[str, tuple[object, ...]]:
    by = dialect_named(broker).asks.by
    assert isinstance(by, ByStomp)
    return {name: tuple(one) for name, one in by.questions(destination, selector).items()}


class TestActiveMQ:
    def held(self, *, broker: dict[str, int] | None = None, **figures: int) -> dict[str, Any]:
        recorded = RECORDED["activemq"]["held"]
        return {
            "queue": [changed(recorded["queue"][0], figures)],
            "broker": [changed(recorded["broker"][0], broker or {})],
        }

    def test_several_queues_are_asked_for_at_once(self) -> None:
        names = asked("activemq", "/queue/a,/queue/b.*")["queue"]
        assert names == ("/topic/ActiveMQ.Statistics.Destination.queue://a,queue://b.*", (), b"")

    def test_each_consumer_of_a_wildcard_is_one_of_every_queue(self) -> None:
        answers = self.held()
        answers["queue"] *= 2
        assert read("activemq", answers) == Standing(True, 40, 20, 1)

    def test_limits(self) -> None:
        full = {"memoryPercentUsage": 100, "storePercentUsage": 101, "tempPercentUsage": 99}
        found = read("activemq", self.held(broker=full))
        assert found.alarm == "the limit of memory and store is reached (systemUsage)"
        found = read("activemq", self.held(broker=full, memoryPercentUsage=120))
        assert found.alarm == "the queue has reached its memoryLimit (producer flow control)"

    @pytest.mark.parametrize(("size", "wanted"), [(210, 0), (211, 201)])
    def test_what_a_selector_may_want_is_behind_a_page_of_others(self, size: int, wanted: int) -> None:
        found = read("activemq", self.held(size=size), SELECTOR)
        assert (found.ready, found.wanted, found.withheld) == (size - 10, wanted, wanted)


def changed(text: str, figures: dict[str, int]) -> str:
    """An answer of ActiveMQ with other figures."""
    for name, value in figures.items():
        text, count = re.subn(rf"(<string>{name}</string><\w+>)[^<]*", rf"\g<1>{value}", text)
        assert count == 1
    return text


class TestArtemis:
    def held(
        self, limit: object = 0, policy: str = "PAGE", *, kept: int = 0, **figures: str
    ) -> dict[str, Any]:
        recorded = RECORDED["artemis"]["held"]
        listed = json.loads(json.loads(recorded["queues"][0])[0])
        assert figures.keys() <= listed["data"][0].keys()
        listed["data"][0] |= figures
        settings = json.loads(json.loads(recorded["settings"][0])[0])
        settings |= {"addressFullMessagePolicy": policy, "autoDeleteQueuesMessageCount": kept}
        return {
            "queues": [json.dumps([json.dumps(listed)])],
            "settings": [json.dumps([json.dumps(settings)])],
            "limit": [json.dumps([limit])],
        }

    def test_a_queue_is_asked_for_by_its_own_name(self) -> None:
        resource = ("_AMQ_ResourceName", "queue.b")
        to, headers, body = asked("artemis", "/queue/a::b", SELECTOR)["wanted"]
        assert (to, headers, body) == (
            "activemq.management",
            (resource, ("_AMQ_OperationName", "countMessages")),
            b"[\"kind = 'a'\"]",
        )
        with pytest.raises(UnsupportedError, match="a wildcard"):
            asked("artemis", "/queue/a.#")

    def test_limits(self) -> None:
        assert read("artemis", self.held(100)).alarm is None
        assert read("artemis", self.held(100, "BLOCK")).alarm is None
        assert read("artemis", self.held(99, "FAIL")).alarm is None
        found = read("artemis", self.held(100, "FAIL"))
        assert found.alarm == "the address is full (address-full-policy FAIL)"

    def test_what_is_not_due_does_not_wait(self) -> None:
        found = read("artemis", self.held(deliveringCount="4", scheduledCount="25", autoDelete="true"))
        assert found == Standing(True, 1, 4, 1, scheduled=25, passing=True)
        assert str(found) == "1 message waits, 25 scheduled for later, 4 un-acked, 1 consumer"

    @pytest.mark.parametrize(
        ("counted", "wanted"), [(0, 0), (3, 0), (5, 1), (50, 26), ("AMQ229020: Invalid filter", 26)]
    )
    def test_what_a_selector_wants(self, counted: object, wanted: int) -> None:
        """Artemis counts what consumers have, too."""
        answers = self.held(deliveringCount="4") | {"wanted": [json.dumps([counted])]}
        assert read("artemis", answers, SELECTOR).wanted == wanted

    @pytest.mark.parametrize(
        ("figures", "kept", "kind"),
        [
            ({"ringSize": "5"}, 0, "a ring queue (ring-size 5)"),
            ({"ringSize": "-1", "lastValue": "true"}, 0, "a last-value queue"),
            ({"lastValue": "false", "lastValueKey": "k"}, 0, "a last-value queue"),
            ({"lastValue": "false", "lastValueKey": ""}, 0, ""),
            ({"autoDelete": "true", "autoCreated": "true"}, -1, PASSING),
            ({"autoDelete": "true", "autoCreated": "true"}, 0, ""),
            ({"autoDelete": "true", "autoCreated": "false"}, -1, ""),
        ],
    )
    def test_what_may_not_come_again(self, figures: dict[str, str], kept: int, kind: str) -> None:
        found = read("artemis", self.held(kept=kept, **figures))
        assert found.forgetful == kind
        assert str(found).endswith(f"1 consumer, {kind}" if kind else "1 consumer")


class TestRabbitMQ:
    def held(self, queue: object = None, alarms: object = None) -> dict[str, Any]:
        recorded = RECORDED["rabbitmq"]["held"]
        return {
            "alarms": recorded["alarms"] if alarms is None else [503, json.dumps(alarms)],
            "queue": recorded["queue"] if queue is None else [200, json.dumps(queue)],
        }

    def test_names_are_quoted(self) -> None:
        by = dialect_named("rabbitmq").asks.by
        assert isinstance(by, ByHttp)
        assert by.paths("/", "/amq/queue/a b/c")["queue"] == "/api/queues/%2F/a%20b%2Fc"

    @pytest.mark.parametrize(
        ("tells", "read_as"),
        [
            ({"messages_delayed": 7}, {"scheduled": 7}),
            ({"auto_delete": False}, {}),
            ({"auto_delete": True}, {"forgetful": PASSING}),
        ],
    )
    def test_what_comes_later_or_not_again(self, tells: dict[str, Any], read_as: dict[str, Any]) -> None:
        figures = {"messages_ready": 4, "messages_unacknowledged": 3, "consumers": 2}
        assert read("rabbitmq", self.held(figures | tells)) == Standing(True, 4, 3, 2, **read_as)

    def test_an_alarm(self) -> None:
        alarms = {"alarms": [{"node": "n", "resource": "memory"}, {"resource": "disk"}]}
        assert read("rabbitmq", self.held(alarms=alarms)).alarm == "RabbitMQ has an alarm for disk and memory"

    def test_a_queue_that_is_new(self) -> None:
        assert (
            str(read("rabbitmq", self.held({"name": "a"}))) == "is there, and its figures are not known yet"
        )

    @pytest.mark.parametrize("figures", [{"messages_ready": "5"}, {"consumers": 1.5}, {"consumers": True}])
    def test_figures_that_are_no_whole_numbers(self, figures: object) -> None:
        with pytest.raises(TypeError):
            read("rabbitmq", self.held(figures))

    @pytest.mark.parametrize("content", ["<html>", "[]", "5"])
    def test_an_answer_of_something_else(self, content: str) -> None:
        with pytest.raises(UnsupportedError, match="managementUrl cannot be asked"):
            read("rabbitmq", self.held() | {"queue": [200, content]})


def test_why_nothing_comes_while_messages_wait() -> None:
    asks = dialect_named("activemq").asks
    assert asks.why_withheld(None) == asks.withheld
    assert asks.why_withheld(SELECTOR) == f"{asks.unselected}; or {asks.withheld}"
    rabbitmq = dialect_named("rabbitmq").asks
    assert rabbitmq.why_withheld(SELECTOR) == rabbitmq.withheld
