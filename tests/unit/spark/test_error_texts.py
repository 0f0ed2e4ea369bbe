"""spark_stomp.spark.error_texts: a user sees the sentence, and the log has the rest."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.clientserver import JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayProperty
from py4j.protocol import Py4JError, Py4JNetworkError
from support.tcp import unused_port

from spark_stomp.errors import ConnectFailed, StompError
from spark_stomp.spark.error_texts import plain_iterator, reason, without_traceback
from spark_stomp.status import read_status
from spark_stomp.status.end import JVM_ENDED


def deep(error: type[Exception]) -> int:
    try:
        raise OSError("the cause")
    except OSError as cause:
        raise error("a sentence") from cause


@without_traceback
def call(error: type[Exception], limit: int | None = None) -> int:
    return deep(error)


@plain_iterator
def rows(error: type[Exception]) -> Iterator[int]:
    yield 1
    yield deep(error)


def text_of(make: Callable[[], object]) -> list[str]:
    with pytest.raises(Exception) as caught:
        make()
    return "".join(traceback.format_exception(caught.value)).splitlines()


@pytest.mark.parametrize("make", [lambda: call(ConnectFailed), lambda: list(rows(ConnectFailed))])
def test_an_error_of_ours_has_no_way_and_no_cause(make: Callable[[], object]) -> None:
    lines = text_of(make)
    assert lines[-1] == "spark_stomp.errors.ConnectFailed: [STOMP_CONNECT_FAILED] a sentence"
    assert not [line for line in lines if "the cause" in line or "in deep" in line]


@pytest.mark.parametrize("make", [lambda: call(ValueError), lambda: list(rows(ValueError))])
def test_a_bug_keeps_everything(make: Callable[[], object]) -> None:
    lines = text_of(make)
    assert [line for line in lines if "the cause" in line]
    assert [line for line in lines if "in deep" in line]


def test_the_log_has_what_the_user_does_not_see(caplog: pytest.LogCaptureFixture) -> None:
    # PySpark's logger may have put another one in its place.
    caplog.handler.setFormatter(logging.Formatter())
    with caplog.at_level(logging.DEBUG, logger="spark_stomp"), pytest.raises(StompError):
        call(ConnectFailed)
    assert "the cause" in caplog.text


def test_spark_sees_the_parameters() -> None:
    """By them it decides what a reader can do."""
    assert list(inspect.signature(call).parameters) == ["error", "limit"]


def test_rows_before_the_error_come() -> None:
    iterator = rows(ConnectFailed)
    assert next(iterator) == 1
    with pytest.raises(ConnectFailed):
        next(iterator)


SENTENCE = "[STOMP_CONNECTION_LOST] it broke; the last attempt: [STOMP_CONNECT_FAILED] nobody there. Do this"
LIST = "[STOMP_OPTIONS_INVALID] 2 problems:\n  - url is required\n  - x is not an option"
ZERO = "ZeroDivisionError: division by zero"
OF_SPARK = (
    "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON] Traceback (most recent call last):\n"
)
PLAN = "\n SQLSTATE: 38000\n\n=== Streaming Query ===\nException in thread\n[STOMP_X] of the plan"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{OF_SPARK}spark_stomp.errors.ConnectionLost: {SENTENCE}{PLAN}", SENTENCE),
        (f"{OF_SPARK}spark_stomp.errors.OptionError: {LIST}{PLAN}", LIST),
        (f"{OF_SPARK}  File x, in y\n    return 1 / 0\n{ZERO}\n\n\tat py4j.Protocol", ZERO),
        ("java.io.EOFException\n\tat java.base", "java.io.EOFException"),
        ("no such table\nplan", "no such table"),
    ],
)
def test_the_reason_is_a_sentence(text: str, sentence: str) -> None:
    class Query:
        def exception(self) -> Exception:
            return ValueError(text)

    assert reason(ValueError(text)) == reason(Query()) == sentence


def test_a_query_that_runs_has_no_reason() -> None:
    class Query:
        def exception(self) -> None:
            return None

    assert reason(Query()) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Spark's words\nJVM: [STOMP_LOGIN_REFUSED] b refused CONNECT\n  at org", "STOMP_LOGIN_REFUSED"),
        ("Traceback\n  File x\nValueError: [WHAT] it is wrong\n", None),
    ],
)
def test_the_status_keeps_the_reason(tmp_path: Path, text: str, code: str | None) -> None:
    why = reason(RuntimeError(text), str(tmp_path))
    ended = read_status(tmp_path)["ended"]
    assert ended is not None and (ended["failure"], ended["failure_code"]) == (why, code)
    assert ended["query"] == tmp_path.name


class WithoutJvm:
    """A query whose JVM was killed, and its program."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def exception(self) -> None:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Error while sending or receiving", when="on_receive"),
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o44.awaitTermination"),
        Py4JError("Answer from Java side is empty"),
    ],
)
def test_the_jvm_has_ended(tmp_path: Path, error: Exception) -> None:
    assert reason(error, str(tmp_path)) == reason(WithoutJvm(error)) == JVM_ENDED
    ended = read_status(tmp_path)["ended"]
    assert ended is not None and (ended["failure"], ended["failure_code"]) == (JVM_ENDED, None)


def test_no_jvm_listens_any_more() -> None:
    gone = JavaParameters(port=unused_port())
    client = JavaClient(gone, PythonParameters(), GatewayProperty(None, None))
    with pytest.raises(ConnectionRefusedError) as caught:
        client._create_new_connection()
    assert reason(caught.value) == JVM_ENDED


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        Py4JError("org.x does not exist in the JVM"),
        Py4JError("An error occurred while calling o44.x. Trace:\njava.lang.NullPointerException\n"),
    ],
)
def test_another_error_is_no_end_of_the_jvm(error: Exception) -> None:
    assert reason(error) == str(error).strip().rpartition("\n")[2]
    with pytest.raises(type(error)):
        reason(WithoutJvm(error))


def test_nothing_is_kept_of_a_query_that_has_not_failed(tmp_path: Path) -> None:
    assert reason(None, str(tmp_path)) is None
    assert [*tmp_path.iterdir()] == []
