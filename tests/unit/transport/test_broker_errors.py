"""What is told of an ERROR frame, and what is not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spark_stomp.brokers import DIALECTS, dialect_named
from spark_stomp.errors import BrokerError, ConnectFailed, DestinationRefused, LoginRefused
from spark_stomp.protocol import ErrorReceived, Frame
from spark_stomp.transport.broker_errors import broker_error, connect_refused

FORGED = "no\r\n2026-01-01 ERROR all is lost\x1b[2J"


def refusal(
    message: str | None = None, body: bytes = b"", receipt: str | None = None, what: str = "SEND to /queue/a"
) -> BrokerError:
    headers = [("message", message), ("receipt-id", receipt)]
    given = tuple((name, value) for name, value in headers if value is not None)
    return broker_error(ErrorReceived(Frame("ERROR", given, body)), "broker:1", what)


@pytest.mark.parametrize("said", [{"message": FORGED}, {"body": FORGED.encode()}])
def test_line_ends_and_control_codes_are_escaped(said: dict[str, Any]) -> None:
    event = ErrorReceived(Frame("ERROR", (("message", said.get("message", "")),), said.get("body", b"")))
    for error in (refusal(**said), connect_refused(event, "broker:1", None, "/")):
        assert str(error).isprintable()
        assert r"no\r\n2026-01-01 ERROR all is lost\x1b[2J" in str(error)


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        ("Virtual hosting is not supported or host is unknown", "STOMP_LOGIN_REFUSED", True),
        ("Bad CONNECT - Virtual host '/a' access denied", "STOMP_LOGIN_REFUSED", True),
        ("Bad CONNECT - Access refused for user 'a'", "STOMP_LOGIN_REFUSED", False),
        ("Broker not available.", "STOMP_CONNECT_FAILED", False),
        ("Failed to connect: Connection refused", "STOMP_CONNECT_FAILED", False),
        ("the broker is shutting down", "STOMP_CONNECT_FAILED", False),
        ("Virtual host stopped.", "STOMP_CONNECT_FAILED", False),
    ],
)
def test_an_error_that_answers_connect(words: str, code: str, named: bool) -> None:
    event = ErrorReceived(Frame("ERROR", (("message", words),)))
    error = connect_refused(event, "broker:1", None, "/prod")
    said = str(error)
    assert (error.verdict == "passes") == (code == "STOMP_CONNECT_FAILED")
    assert said.startswith(f"[{code}]") and words in said
    assert ("virtualHost" in said and "/prod" in said) == named


def test_what_is_said_twice_is_told_once() -> None:
    assert str(refusal("no queue", b"no queue\n")).endswith("refused SEND to /queue/a: no queue")


def test_long_words_are_cut() -> None:
    assert len(str(refusal("m" * 60_000, b"b" * 60_000))) < 700


@pytest.mark.parametrize("text", ["'", "ab", "client id "])
def test_the_time_is_linear_in_the_text_and_in_a_token(text: str) -> None:
    """Both four times as long: 16 times the time if one grew with the other."""

    def seconds(size: int) -> float:
        event = ErrorReceived(Frame("ERROR", (("message", text * size),), (text * size).encode()))
        took = []
        for _ in range(5):
            begun = time.thread_time()
            broker_error(event, "broker:1", secrets=["ab" * size], names=["ab" * size])
            took.append(time.thread_time() - begun)
        return min(took)

    assert seconds(8000) < 10 * seconds(2000)


BOOTING = "NOT_FOUND - home node 'rabbit@a' of durable queue 'q' in vhost '/' is down or inaccessible"
CANCELLED = "The server has canceled a subscription.\nNo more messages will be delivered for \"id='x'\"."
NO_REPLICA = (
    "PRECONDITION_FAILED - stream queue 'q' in vhost '/' does not have a running replica on the local node"
)


@pytest.mark.parametrize(
    ("words", "body", "refused"),
    [
        # A broker that stops, whose own code failed, or that boots; a relay that loses its broker.
        ("broker is shutting down", "", False),
        ("The broker is being stopped", "", False),
        ("BrokerStoppedException: gone", "", False),
        ("Processing error", "", False),
        ("Connection to broker closed.", "", False),
        ("not_found", BOOTING, False),
        ("precondition_failed", NO_REPLICA, False),
        # No words of a refusal.
        ("this queue was shut", "", False),
        ("precondition_failed", "", False),
        ("not_found", "NOT_FOUND - no queue 'q' in vhost '/'", True),
    ],
)
def test_a_broker_in_trouble_refuses_no_destination(words: str, body: str, refused: bool) -> None:
    error = refusal(words, body.encode(), receipt=None if body else "r-1")
    assert type(error) is (DestinationRefused if refused else BrokerError)


CLOSED = "consumer with ID ServerConsumerImpl [id=25, filter=null] disconnected by server"


@pytest.mark.parametrize(
    ("words", "body", "remedy"),
    [
        ("Server cancelled subscription", CANCELLED, "deleted"),
        ("AMQP channel died", "Reason: {function_clause, []}", "a message of another protocol"),
        ("", CLOSED, "a message into STOMP"),
    ],
)
def test_a_subscription_that_ends_answers_no_request(words: str, body: str, remedy: str) -> None:
    error = refusal(words or None, body.encode())
    assert type(error) is BrokerError and "/queue/a" not in str(error)
    assert remedy in str(error)


DIFFERS = (
    "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': "
    "received none but current is the value 'quorum' of type 'longstr'"
)


def test_a_queue_that_differs_is_refused_also_if_the_request_is_not_named() -> None:
    """RabbitMQ never says which SEND it refused, but a name that a SEND declares."""
    error = refusal("precondition_failed", DIFFERS.encode(), what="")
    assert type(error) is DestinationRefused
    assert "refused SEND to /queue/q: " in str(error) and "sendHeaders" in str(error)


def test_a_name_that_says_so_is_none_of_a_queue_that_differs() -> None:
    """A row's destination can be any text."""
    name = DIFFERS.removesuffix("'quorum' of type 'longstr'").removeprefix("PRECONDITION_FAILED - ")
    error = refusal("not_found", f"NOT_FOUND - no exchange '{name}' in vhost '/'".encode(), what="")
    assert type(error) is BrokerError and "/queue/q:" not in str(error)


@pytest.mark.parametrize("secret", ["a", "e", "-", "or", "arg", "queue", "quorum", "received none but"])
def test_a_secret_that_is_a_part_of_these_words_hides_no_remedy(secret: str) -> None:
    """Neither what it is, nor what to do."""
    event = ErrorReceived(Frame("ERROR", (("message", "precondition_failed"),), DIFFERS.encode()))
    error = broker_error(event, "broker:1", "SUBSCRIBE to /queue/q", secrets=[secret])
    has = "***" if secret == "quorum" else "quorum"
    assert type(error) is DestinationRefused
    assert "Name it /amq/queue/q, which declares nothing" in str(error)
    assert f'or set subscribeHeaders = {{"x-queue-type": "{has}"}}' in str(error)


def test_a_secret_in_a_queue_is_in_no_remedy() -> None:
    body = DIFFERS.replace("quorum", "s3cret").encode()
    error = broker_error(ErrorReceived(Frame("ERROR", (), body)), "broker:1", "", secrets=["s3cret"])
    assert "s3cret" not in str(error) and "***" in str(error)


# Names that look like what brokers say, and what they say as a name.
SAID = sorted(
    {
        one.said.split("\n")[0]
        for dialect in DIALECTS
        for one in dialect.errors.sentences
        if one.verdict == "passes"
    }
)
NAMES = sorted(
    {one.translate({ord(mark): None for mark in "\"'[]"})[:60] for one in SAID}
    | {
        *("shutdown", "stopping", "train.stopping-points", "a/shut-down/b", "my stopping"),
        *("connection_forced", "BrokerStopped", "a.BrokerStoppingException", "Failed to connect"),
        *("client already connected", "clientid in use", "AMQ339011", "x.AMQ229102"),
    }
)
# With the name quoted, in brackets, and as it is.
QUOTING = [
    "NOT_FOUND - no queue '{}' in vhost '/'",
    "ACCESS_REFUSED - access to queue '{}' in vhost '{}' refused for user '{}'",
    "User name [{}] or password is invalid",
    "User {} is not authorized to read from: queue://{}",
    'AMQ229213: User: {} does not have permission="SEND" on address "{}"',
    "Unknown: {}",
]


class TestANameInAnError:
    """A queue or a user may be called like what a broker says of itself."""

    @pytest.mark.rule("4.8", "S.5")
    @pytest.mark.parametrize("quoting", QUOTING)
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("what", ["SUBSCRIBE to /amq/queue/{}", "SEND to /queue/{}", "SEND to {}"])
    def test_decides_nothing_about_a_destination(self, name: str, quoting: str, what: str) -> None:
        text = quoting.replace("{}", name)
        for message, body in ((text, ""), ("", text), (text, text)):
            event = ErrorReceived(Frame("ERROR", (("message", message),), body.encode()))
            error = broker_error(event, "broker:1", what.format(name), names=[name])
            assert type(error) is DestinationRefused and error.verdict == "stays", message

    @pytest.mark.rule("4.8")
    @pytest.mark.parametrize("quoting", QUOTING)
    @pytest.mark.parametrize("name", NAMES)
    def test_decides_nothing_about_a_login(self, name: str, quoting: str) -> None:
        event = ErrorReceived(
            Frame("ERROR", (("message", "Bad CONNECT"),), quoting.replace("{}", name).encode())
        )
        error = connect_refused(event, "broker:1", "id-1", "/", names=[name])
        assert type(error) is LoginRefused and error.verdict is None

    @pytest.mark.parametrize("quoting", QUOTING)
    @pytest.mark.parametrize("name", ["shutdown-svc", "train.stopping-points", "a/shutdown/b"])
    def test_that_is_not_known_decides_nothing_if_it_is_more_than_these_words(
        self, name: str, quoting: str
    ) -> None:
        assert refusal(quoting.replace("{}", name), what="").verdict == "stays"

    @pytest.mark.parametrize("name", ["stop", "down", "error", "is", "e", "node", "home", "Server", "AMQ"])
    def test_that_is_a_part_of_these_words_hides_none(self, name: str) -> None:
        for sentence in SAID:
            event = ErrorReceived(Frame("ERROR", (), sentence.encode()))
            error = broker_error(event, "broker:1", f"SEND to /queue/{name}", names=[name])
            assert error.verdict == "passes" and type(error) is BrokerError
        event = ErrorReceived(Frame("ERROR", (), b"Server shutting down"))
        assert type(connect_refused(event, "broker:1", None, "/", names=[name])) is ConnectFailed

    @pytest.mark.rule("4.8", "S.5", "S.9")
    @pytest.mark.parametrize("words", ["stopping", "CONNECTION_FORCED", "process is stopped by supervisor"])
    @pytest.mark.parametrize("name", ["a' {} 'b", "a' {}", "' {} '", 'a" {} "b', "a] {} [b"])
    @pytest.mark.parametrize("prefix", ["", "/amq/queue/"])
    def test_with_quotation_marks_says_nothing_either(self, words: str, name: str, prefix: str) -> None:
        """A row's destination can have them."""
        name = name.format(words)
        for text in (f"NOT_FOUND - no queue '{name}' in vhost '/'", f"not authorized: queue://{name}"):
            error = refusal("not_found", text.encode(), what=f"SEND to {prefix}{name}")
            assert error.verdict == "stays", text

    @pytest.mark.rule("4.8", "S.5")
    @pytest.mark.parametrize("name", ["a' RESOURCE_LOCKED 'b", "a' NOT_FOUND - no queue 'b"])
    def test_with_quotation_marks_refuses_nothing(self, name: str) -> None:
        body = f"NOT_FOUND - queue '{name}' in vhost '/' is being moved".encode()
        event = ErrorReceived(Frame("ERROR", (("message", "not_found"),), body))
        error = broker_error(event, "broker:1", f"SEND to /queue/{name}", dialect=dialect_named("rabbitmq"))
        assert error.verdict == "either"

    @pytest.mark.rule("4.8", "S.5", "S.9")
    @pytest.mark.parametrize(
        ("words", "verdict"),
        [
            (
                "ACCESS_REFUSED - read access to queue '{}' in vhost '/' refused for user 'u', backend "
                "rabbit_auth_backend_http returned an error: timeout",
                "passes",
            ),
            ("ACCESS_REFUSED - queue '{}' in vhost '{}' in exclusive use", "either"),
            ("NOT_FOUND - queue '{}' in vhost '{}' process is stopped by supervisor", "passes"),
            ("NOT_FOUND - no queue '{}' in vhost '{}'", "stays"),
        ],
    )
    def test_may_be_as_long_as_the_broker_allows(self, words: str, verdict: str) -> None:
        """What an ERROR means is often said behind the names, where the quotation of it is cut."""
        name = "q" * 255
        event = ErrorReceived(Frame("ERROR", (), words.replace("{}", name).encode()))
        error = broker_error(event, "broker:1", f"SEND to /queue/{name}", dialect=dialect_named("rabbitmq"))
        assert error.verdict == verdict

    def test_of_many_parts_takes_no_longer(self) -> None:
        """A row's destination of 60,000 characters, half of them separators, kept a core busy for 90 s."""
        name = "/queue/" + "a/" * 30_000
        begun = time.thread_time()
        error = refusal("Unknown destination", f"'{name}' is unknown".encode(), what=f"SEND to {name}")
        assert error.verdict == "stays"
        assert time.thread_time() - begun < 5.0

    def test_that_is_cut_decides_nothing(self) -> None:
        name = "stopping " * 28
        error = refusal("not_found", f"NOT_FOUND - no queue '{name}' in vhost '/'".encode(), what="")
        assert error.verdict == "stays"
