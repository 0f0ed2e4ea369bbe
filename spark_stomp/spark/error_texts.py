"""What a user sees of an error: its sentence, as the last line and without the way that it took.

Spark hands the whole trace of Python to the user, with every error that caused another one. Of our errors
only the sentence is for the user: what Spark calls is decorated with :func:`plainly` or
:func:`plain_iterator`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from spark_stomp.errors import StompError
from spark_stomp.logs import get_log

P = ParamSpec("P")
T = TypeVar("T")

log = get_log(__name__)


def plainly(call: Callable[P, T]) -> Callable[P, T]:
    """``call``, whose StompErrors come without the frames and the causes behind them.

    These go to the log, with ``logLevel=debug``. Any other error is a bug, and comes with everything.
    """

    @functools.wraps(call)
    def called_by_spark(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except StompError as error:
            log.debug("what led to the error", exc_info=True)
            raise error.with_traceback(None) from None

    return called_by_spark


def plain_iterator(call: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """As :func:`plainly`, for a function whose errors come while its iterator is read."""

    @functools.wraps(call)
    def called_by_spark(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from call(*args, **kwargs)
        except StompError as error:
            log.debug("what led to the error", exc_info=True)
            raise error.with_traceback(None) from None

    return called_by_spark
