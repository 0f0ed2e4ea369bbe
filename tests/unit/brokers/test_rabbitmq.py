"""What the words of RabbitMQ are understood as, and which remedy follows."""

from __future__ import annotations

import time
from functools import partial

import pytest

from spark_stomp.brokers.rabbitmq import RABBITMQ
from spark_stomp.brokers.rabbitmq_errors import of_difference, queue_that_differs
from spark_stomp.protocol import ErrorReceived, Frame
from spark_stomp.transport.broker_errors import broker_error

# Nothing is secret here.
remedy = partial(of_difference, hide=str)
# As RabbitMQ 3.10.8 says it.
DIFFERS = (
    "PRECONDITION_FAILED - inequivalent arg '{}' for queue '{}' in vhost '/': received {} but current is {}"
)
TTL = DIFFERS.format("x-message-ttl", "a", "none", "the value '5' of type 'long'")


@pytest.mark.parametrize(
    ("words", "queue", "do"),
    [
        (("x-message-ttl", "a", "none", "the value '5' of type 'long'"), "a", '{"x-message-ttl": "5"}'),
        (("x-queue-type", "a", "the value 'x' of type 'longstr'", "none"), "a", "Leave x-queue-type out of "),
        (("durable", "a", "'true'", "'false'"), "a", "/amq/queue/a, which declares nothing"),
        # Names and values are whatever a client chose.
        (("durable", "it's \n", "'true'", "'false'"), "it's \n", "/amq/queue/it's \\n, which"),
        (("durable", "a current is 'b", "'true'", "'false'"), "a current is 'b", "a current is 'b, which"),
        (
            ("x-max-length", "a", "none", "the value 'it's' of type 'longstr'"),
            "a",
            '{"x-max-length": "it\'s"}',
        ),
    ],
)
def test_a_difference(words: tuple[str, ...], queue: str, do: str) -> None:
    text = DIFFERS.format(*words) + "\n"
    assert queue_that_differs(text) == queue
    assert do in remedy(text, "SUBSCRIBE to /queue/a")


def test_the_option_is_that_of_the_request() -> None:
    assert 'or set subscribeHeaders = {"x-message-ttl": "5"}' in remedy(TTL, "SUBSCRIBE to /queue/a")
    for what in ("SEND to /queue/a", ""):
        said = remedy(TTL, what)
        assert 'or set sendHeaders = {"x-message-ttl": "5"}' in said
        assert "confirms and drops messages if no such queue exists" in said


def test_a_stream_is_read_by_its_offsets_and_written_by_its_name() -> None:
    words = DIFFERS.format("x-queue-type", "a", "none", "'stream'")
    assert "/amq/queue/a, with startingOffsets" in remedy(words, "SUBSCRIBE to /queue/a")
    assert "startingOffsets" not in remedy(words, "SEND to /queue/a")


def test_no_header_is_recommended_that_the_reader_refuses() -> None:
    words = DIFFERS.format("x-expires", "a", "none", "the value '5' of type 'long'")
    said = remedy(words, "SUBSCRIBE to /queue/a")
    assert "subscribeHeaders" not in said


def test_words_of_others_have_no_remedy() -> None:
    for words in ("", "no", "User: a is not authorized to read from queue://b"):
        assert remedy(words, "SUBSCRIBE to /queue/a") == ""


def test_what_a_client_chose_is_shown_on_one_line() -> None:
    words = DIFFERS.format("x-max-length", "a\n\x1b" * 200, "none", "the value '\"\n' of type 'longstr'")
    said = remedy(words, "SUBSCRIBE to /queue/a")
    assert said.isprintable() and len(said) < 1_000


def test_words_that_are_made_to_be_searched_for_long_are_not() -> None:
    # Without limits the first takes minutes.
    begin = "inequivalent arg 'a' for queue '"
    for words in (begin + "' in vhost '" * 4_000 + "': received " * 4_000, "access to queue '" * 50_000):
        started = time.process_time()
        assert remedy(words, "SUBSCRIBE to /queue/a") == ""
        assert time.process_time() - started < 1


@pytest.mark.parametrize("between", ["", " ", "\n" + " " * 20])
def test_an_operator_who_closes_the_connection_is_named(between: str) -> None:
    """However Erlang wraps the reason."""
    reason = f'{{server_initiated_close,{between}320,{between}<<"we are sorry">>}}'
    event = ErrorReceived(Frame("ERROR", (("message", "AMQP channel died"),), f"Reason: {reason}".encode()))
    error = broker_error(event, "b:1", dialect=RABBITMQ)
    assert error.verdict == "passes"
    assert "we are sorry" in str(error) and "An operator has closed the connection" in str(error)
