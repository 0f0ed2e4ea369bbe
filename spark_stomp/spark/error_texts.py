"""What a user sees of an error: one sentence, without our part of the traceback.

Spark shows the user Python's whole traceback, with every error that caused another one. Only the sentence
of a StompError helps the user. So the methods that Spark calls are decorated with
:func:`without_traceback` or :func:`plain_iterator`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from traceback import walk_tb
from typing import Any, Final, ParamSpec, TypeVar

from spark_stomp.errors import StompError
from spark_stomp.logs import get_log
from spark_stomp.status.end import JVM_ENDED, keep_end

P = ParamSpec("P")
T = TypeVar("T")

log = get_log(__name__)

# Our sentence ends with its line, but for a list of problems.
_SENTENCE: Final = re.compile(r"\[(STOMP_[A-Z0-9_]+)\] .*(?:\n  - .*)*")
# What py4j says, by the classes of its errors, if the JVM answers no more. Any other text may be of a JVM
# that runs.
_NO_ANSWER: Final = {
    "Py4JNetworkError": re.compile(""),
    "Py4JError": re.compile(
        r"Error while (?:sending|receiving)|Answer from Java side is empty|"
        r"An error occurred while calling \S+$"
    ),
}
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
    of the text. If Spark's JVM has ended, it says so. If the process of the source was killed, Spark knows no
    reason: ``spark-stomp why`` does.

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
    error = _error_of(of)
    if error is None:
        return None
    why, code = (JVM_ENDED, None) if _is_without_jvm(error) else _sentence(str(error))
    if checkpoint is not None:
        keep_end(checkpoint, why, code)
    return why


def _error_of(of: Any) -> Any:
    """The error of a query, or of the question; or ``of``, if that is none."""
    ask = getattr(of, "exception", None)
    try:
        return ask() if callable(ask) else of
    except Exception as error:
        if _is_without_jvm(error):
            return error
        raise


def _sentence(text: str) -> tuple[str, str | None]:
    """What matters in the text of an error, and its code."""
    ours = _SENTENCE.search(text)
    if ours:
        return ours[0], ours[1]
    raised: list[str] = _RAISED.findall(text)
    return raised[-1] if raised else text.strip().partition("\n")[0], None


def _is_without_jvm(error: Any) -> bool:
    """Whether the error says only that Spark's JVM does not answer. Spark Connect has no py4j to import."""
    if isinstance(error, ConnectionError):
        *_, raised_in = [
            None,
            *(frame.f_globals.get("__name__") for frame, _ in walk_tb(error.__traceback__)),
        ]
        return str(raised_in).startswith("py4j.")
    error_class = type(error)
    no_answer = _NO_ANSWER.get(error_class.__name__) if error_class.__module__ == "py4j.protocol" else None
    return no_answer is not None and no_answer.match(str(error)) is not None
