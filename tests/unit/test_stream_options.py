"""The options of streams: positions, defaults, and what does not go with them."""

from __future__ import annotations

import re
from typing import ClassVar

import pytest
from support.options import problems

from spark_stomp.brokers.rabbitmq import stream_name
from spark_stomp.options import SourceOptions, parse_batch_options, parse_source_options, reads_streams
from spark_stomp.options.kinds import Moment, StreamPositions

STREAM = "/amq/queue/a"
BASE = {"url": "stomp://broker", "destination": STREAM}
DECLARED = {"destination": "/queue/a", "subscribeHeaders": '{"x-queue-type": " Stream"}'}


def source(**options: str) -> SourceOptions:
    return parse_source_options({**BASE, **options})


def batch(**options: str) -> SourceOptions:
    return parse_batch_options({**BASE, **options})


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", "earliest"),
        (" Latest ", "latest"),
        ("2026-11-23T08:00:00Z", Moment(1_795_420_800)),
        ("2026-11-23T09:30:00.999+01:30", Moment(1_795_420_800)),
        ("1960-01-01T00:00:00z", Moment(0)),
        ('{"a": 7}', 7),
        ('{"/amq/queue/a": 0}', 0),
        ('{"a": -2}', "earliest"),
        ('{"a": -1}', "latest"),
    ],
)
def test_a_position(text: str, position: object) -> None:
    starting = source(startingOffsets=text).starting_offsets
    assert starting is not None and starting.of(STREAM) == position


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be earliest, latest, a time"),
        ("first", "must be earliest, latest, a time"),
        ("1200", "is a number; write an offset with the name"),
        ("-1", "is a number"),
        ("2026-11-23T08:00:00", "is a time without a zone"),
        ("2026-11-23", "is a time without a zone"),
        ("{", "is not valid JSON"),
        ("{}", "names no stream"),
        ('{"a": 1, "/amq/queue/a": 2}', "names a more than once"),
        ('{"a": -3}', "has -3 for a: an offset is a whole number"),
        ('{"a": true}', "has true for a"),
        ('{"a": 1.0}', "has 1.0 for a"),
        ('{"a": "1"}', 'has "1" for a'),
    ],
)
def test_no_position(text: str, words: str) -> None:
    (problem,) = problems(source, startingOffsets=text)
    assert problem.startswith("startingOffsets") and words in problem


def test_the_name_of_a_stream_is_that_of_its_queue() -> None:
    assert [stream_name(one) for one in ("/amq/queue/a/b", "/queue/a", "a")] == ["a/b", "a", "a"]


class TestDefaults:
    """They are those of Spark's Kafka source."""

    def test_a_queue_has_no_position(self) -> None:
        assert source().starting_offsets is batch().starting_offsets is batch().ending_offsets is None

    def test_a_declared_stream_is_read_from_its_end_or_as_a_batch_from_its_beginning(self) -> None:
        assert source(**DECLARED).starting_offsets == StreamPositions("latest")
        read = batch(**DECLARED)
        assert read.starting_offsets == StreamPositions("earliest")
        assert read.ending_offsets == StreamPositions("latest")

    def test_what_is_given_counts(self) -> None:
        assert source(**DECLARED, startingOffsets='{"a": 5}').starting_offsets == StreamPositions(
            by_name={"a": 5}
        )
        read = batch(endingOffsets='{"a": 5}')
        assert read.ending_offsets == StreamPositions(by_name={"a": 5})
        assert read.starting_offsets == StreamPositions("earliest")

    def test_each_stream_has_a_connection(self) -> None:
        names = ",".join(f'"/amq/queue/{number}"' for number in range(6))
        assert source(destination=f"[{names}]", startingOffsets="latest").connections == 6

    def test_the_schema_asks_whether_it_is_a_read_of_streams(self) -> None:
        assert reads_streams({**BASE, "startingOffsets": "latest"})
        assert reads_streams({**BASE, "endingOffsets": "latest"})
        assert not reads_streams(BASE)
        assert not reads_streams({**BASE, "startingOffsets": "1"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"connections": "2"}, "connections does not go with streams .*: each stream has a connection"),
        ({"selector": "x = 1"}, "selector does not go with streams .*: RabbitMQ has none"),
        ({"journal": "/tmp/j"}, "journal does not go with streams"),
        ({"durableName": "d"}, "durableName does not go with streams"),
        ({"idHeader": "id"}, "idHeader does not go with streams"),
        ({"destination": "/queue/a"}, "destination = '/queue/a' is read as a stream"),
        ({**DECLARED, "destination": "/topic/a"}, "destination = '/topic/a' is read as a stream"),
        (
            {**DECLARED, "destination": '["/queue/a", "/queue/b"]', "startingOffsets": '{"a": 1}'},
            "no offset for .*b;",
        ),
        ({"startingOffsets": '{"a": 1, "b": 1}'}, "startingOffsets names b, which is not in destination"),
        ({"subscribeHeaders": '{"x-stream-offset": "first"}'}, "x-stream-offset.* startingOffsets"),
        ({"endingOffsets": "latest"}, "endingOffsets is an option of batch reads"),
    ],
)
def test_does_not_go_with_streams(options: dict[str, str], words: str) -> None:
    (problem,) = problems(source, **{"startingOffsets": "earliest", **options})
    assert re.search(words, problem)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets = latest is for readStream"),
        ({"startingOffsets": '{"a": -1}'}, "startingOffsets = latest is for readStream"),
        ({"endingOffsets": "earliest"}, "endingOffsets must be latest, or offsets by name"),
        ({"endingOffsets": "2026-11-23T08:00:00Z"}, "endingOffsets must be latest, or offsets by name"),
        ({"endingOffsets": '{"a": -2}'}, "endingOffsets must be latest, or offsets by name"),
        ({"endingOffsets": '{"b": 2, "a": 1}'}, "endingOffsets names b"),
        (
            {"destination": '["/amq/queue/a", "/queue/b"]', "startingOffsets": '{"a": 1}'},
            "no offset for /queue/b",
        ),
        (
            {"subscribeHeaders": '{"x-stream-filter": "red"}', "endingOffsets": "latest"},
            "subscribeHeaders has x-stream-filter",
        ),
    ],
)
def test_does_not_go_with_a_batch_read(options: dict[str, str], words: str) -> None:
    (problem,) = problems(batch, **options)
    assert words in problem


class TestQueuesAndStreams:
    """The destinations that ``startingOffsets`` does not name are queues."""

    both: ClassVar = {
        "destination": '["/queue/q", "/amq/queue/a", "/topic/t"]',
        "startingOffsets": '{"a": 7}',
    }

    def test_are_told_apart_by_the_names(self) -> None:
        options = source(**self.both)
        assert (options.queues, options.streams) == (("/queue/q", "/topic/t"), ("/amq/queue/a",))
        everywhere = {"destination": '["/amq/queue/a", "/amq/queue/b"]', "startingOffsets": "latest"}
        assert source(**everywhere).queues == ()
        assert source().streams == ()

    def test_have_their_options(self) -> None:
        given = {"journal": "/tmp/j", "ackAfter": "journal", "idHeader": "id", "durableName": "d"}
        options = source(**self.both, **given, maxMessagesPerTrigger="5")
        assert (options.connections, options.prefetch) == (2, 10)
        assert source(**self.both, connections="3").connections == 3

    def test_do_not_drain_together(self) -> None:
        given = {"drain": "true", "journal": "/tmp/j", "ackAfter": "journal"}
        (problem,) = problems(source, **self.both, **given)
        assert problem.startswith("drain does not go with streams")

    def test_are_two_kinds_of_names(self) -> None:
        (problem,) = problems(source, **{**self.both, "startingOffsets": '{"/queue/q": 7}'})
        assert problem.startswith("destination = '/queue/q' is read as a stream")


def test_acks_and_drains_of_queues_do_not_go_with_streams() -> None:
    found = problems(source, startingOffsets="latest", journal="/tmp/j", ackAfter="journal", drain="true")
    assert [problem.partition(" ")[0] for problem in found] == ["journal", "ackAfter", "drain"]
