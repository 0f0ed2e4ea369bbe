"""What a user sees of an error: one sentence, without our part of the traceback.

Spark shows the user Python's whole traceback, with every error that caused another one. Only the sentence
of a StompError helps the user. So the methods that Spark calls are decorated with
:func:`without_traceback` or :func:`plain_iterator`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

from spark_stomp.errors import StompError
from spark_stomp.logs import get_log
from spark_stomp.status.end import keep_end

P = ParamSpec("P")
T = TypeVar("T")

log = get_log(__name__)

# Our sentence ends with its line, but for a list of problems.
_SENTENCE: Final = re.compile(r"\[(STOMP_[A-Z0-9_]+)\] .*(?:\n  - .*)*")
# The last line of a traceback of Python.
_RAISED: Final = re.compile(r"^[\w.]*(?:Error|Exception|Exit|Interrupt)\b.*", re.MULTILINE)


def without_traceback(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap ``call``, so that its StompErrors lose their traceback and causes.

    These go to the log with ``logLevel=debug``. Any other error is a bug, and keeps its traceback.
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
    """Wrap ``call``, which returns an iterator, so that its StompErrors lose their traceback and causes.

    This covers errors that are raised while the iterator is read.
    """

    @functools.wraps(call)
    def called_by_spark(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from call(*args, **kwargs)
        except StompError as error:
            log.debug("what led to the error", exc_info=True)
            raise error.with_traceback(None) from None

    return called_by_spark


def reason(of: Any, checkpoint: str | None = None) -> str | None:
    """Why a query failed, in one sentence: without the plan and the stack traces that Spark puts around it.

    ``of`` is an exception of Spark, as ``query.awaitTermination()`` raises it, or a streaming query. None for
    a query that has not failed.

    If the error is none of this package, the answer is the last line of Python's traceback, or the first line
    of the text. If the process of the source was killed, Spark knows no reason: ``spark-stomp why`` does.

    With ``checkpoint``, the location of the query's checkpoint or of its ``statusFile``, the sentence is kept
    in the status there, if the query has one, and ``spark-stomp why`` shows it. Spark tells neither source
    nor sink why a query failed.

    Example::

        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            print(reason(error, checkpoint))
            raise
    """
    ask = getattr(of, "exception", None)
    error = ask() if callable(ask) else of
    if error is None:
        return None
    text = str(error)
    ours = _SENTENCE.search(text)
    raised: list[str] = [ours[0]] if ours else _RAISED.findall(text)
    why = raised[-1] if raised else text.strip().partition("\n")[0]
    if checkpoint is not None:
        keep_end(checkpoint, why, ours and ours[1])
    return why
