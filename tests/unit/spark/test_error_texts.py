"""spark_stomp.spark.error_texts: a user sees the sentence, and the log has the rest."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Iterator

import pytest

from spark_stomp.errors import ConnectFailed, StompError
from spark_stomp.spark.error_texts import plain_iterator, plainly


def deep(error: type[Exception]) -> int:
    try:
        raise OSError("the cause")
    except OSError as cause:
        raise error("a sentence") from cause


@plainly
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
