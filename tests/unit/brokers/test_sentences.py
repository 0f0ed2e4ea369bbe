"""What each known sentence of a broker means, and that an unknown one refuses nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.brokers import DIALECTS, Dialect, dialect_named
from spark_stomp.brokers.activemq import ACTIVEMQ
from spark_stomp.brokers.known import GENERIC, sentence_of
from spark_stomp.brokers.sentences import Sentence
from spark_stomp.errors import BrokerError, DestinationRefused
from spark_stomp.protocol import ErrorReceived, Frame
from spark_stomp.receiver.status import ConnectionStatus
from spark_stomp.receiver.turns import may_be_about_a_message
from spark_stomp.transport.broker_errors import broker_error
from spark_stomp.transport.retry import may_recover

KNOWN = [dialect for dialect in DIALECTS if dialect.unknown_warning is None]
SENTENCES = [
    pytest.param(dialect, one, id=f"{dialect.name}: {one.said[:50]}")
    for dialect in DIALECTS
    for one in dialect.errors.sentences
]
WHAT = "SUBSCRIBE to /queue/a"


def error_of(said: str, dialect: Dialect, what: str = WHAT) -> BrokerError:
    """The error for an ERROR with these words, in the header ``message`` and in the body."""
    message, between, body = said.partition(" - ")
    headers = (("message", message if between else said),)
    event = ErrorReceived(Frame("ERROR", headers, body.encode()))
    return broker_error(event, "broker:1", what, dialect=dialect)


@pytest.mark.rule("4.8", "S.5")
@pytest.mark.parametrize(("dialect", "sentence"), SENTENCES)
@pytest.mark.parametrize("hidden", [False, True], ids=["its name", "without its name"])
def test_a_sentence_means_what_the_table_says(dialect: Dialect, sentence: Sentence, hidden: bool) -> None:
    error = error_of(sentence.said, GENERIC if hidden else dialect)
    assert error.verdict == sentence.verdict
    refused = sentence.verdict in {"message", "stays"} and not sentence.unasked
    assert type(error) is (DestinationRefused if refused else BrokerError)
    assert may_recover(error, login_accepted=True) is not refused


@pytest.mark.parametrize(("dialect", "sentence"), SENTENCES)
def test_one_that_answers_nothing_means_the_same_and_refuses_nothing(
    dialect: Dialect, sentence: Sentence
) -> None:
    error = error_of(sentence.said, dialect, what="")
    if type(error) is BrokerError:  # RabbitMQ names a queue that only a SEND can declare
        assert error.verdict == sentence.verdict


def test_what_the_header_quotes_does_not_hide_what_the_body_says() -> None:
    """ActiveMQ's header is the selector itself, and its body has it once more."""
    selector = "size > 10 OR kind = 'last'"
    error = error_of(f"{selector} - jakarta.jms.InvalidSelectorException: {selector}", ACTIVEMQ)
    assert type(error) is DestinationRefused


@pytest.mark.parametrize(("dialect", "sentence"), SENTENCES)
def test_each_is_found_by_its_own_pattern(dialect: Dialect, sentence: Sentence) -> None:
    """So no line of the table is there in vain."""
    others = [one for one in dialect.errors.sentences if one is not sentence]
    without = [
        one for one in others if one.verdict == sentence.verdict and one.compiled.search(sentence.said)
    ]
    assert not without, "another line with this verdict says the same"
    assert sentence.when and "\n" not in sentence.when


def known(words: str, dialect: Dialect) -> bool:
    return sentence_of(lambda pattern: pattern.search(words) is not None, dialect) is not None


@pytest.mark.rule("4.8", "S.5", "S.9")
@pytest.mark.parametrize("dialect", KNOWN, ids=lambda dialect: dialect.name)
@given(
    words=st.one_of(
        st.text(min_size=1),
        st.sampled_from(
            [
                "NOT_FOUND - queue 'q' in vhost '/' is being moved to another node",
                "PRECONDITION_FAILED - queue 'q' in vhost '/' is not ready",
                "not_found",
                "access to the metadata store timed out",
                "AMQ229999: not known",
                "java.lang.IllegalStateException: Store is closed",
            ]
        ),
    )
)
def test_an_unknown_sentence_refuses_nothing(words: str, dialect: Dialect) -> None:
    """It drops no row and ends no query before reconnectTimeout, which has begun to read."""
    if known(words, dialect):
        return
    error = error_of(words, dialect)
    assert type(error) is BrokerError
    assert error.verdict == "either"
    assert may_recover(error, login_accepted=True)
    assert not may_be_about_a_message(error, 0.0, 0)
    assert ConnectionStatus(connections=1).may_try_again(error, login_accepted=3600.0, timeout=10.0)
    # It may be a wrong setting, which ends a new query soon.
    assert not ConnectionStatus().may_try_again(error, login_accepted=3600.0, timeout=10.0)


@pytest.mark.rule("4.8")
@pytest.mark.parametrize(("dialect", "sentence"), SENTENCES)
def test_a_new_query_waits_for_what_passes(dialect: Dialect, sentence: Sentence) -> None:
    error = error_of(sentence.said, dialect)
    waits = ConnectionStatus().may_try_again(error, login_accepted=3600.0, timeout=10.0)
    assert waits is (sentence.verdict == "passes")


@pytest.mark.rule("4.11", "4.12")
@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ("{timeout,{gen_server,call,[<0.1.0>,x]}}", "passes"),
        ("{{nodedown,'rabbit@b'},{gen_server2,call,[]}}", "passes"),
        ("{{shutdown,restart},{gen_server,call,[]}}", "passes"),
        ("noconnection", "passes"),
        ("{function_clause,[]}", "message"),
        ("{{badmatch,timeout},[]}", "message"),
        ('{shutdown,{connection_closing,{server_initiated_close,530,"no"}}}', "stays"),
    ],
)
def test_a_process_that_ends_or_does_not_answer_is_no_message(reason: str, verdict: str) -> None:
    assert error_of(f"AMQP channel died - Reason: {reason}", dialect_named("rabbitmq"), "").verdict == verdict


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("Access denied for user a", True),
        ("User lacks permission: not authorized", True),
        ("destination /queue/x does not exist", True),
        ("unknown destination", True),
        ("try again later", False),
        ("database is locked", False),
    ],
)
def test_of_an_unknown_broker_the_words_of_a_refusal_are_enough(words: str, refused: bool) -> None:
    assert isinstance(error_of(words, GENERIC), DestinationRefused) is refused
    for dialect in KNOWN:
        if not known(words, dialect):
            assert type(error_of(words, dialect)) is BrokerError
