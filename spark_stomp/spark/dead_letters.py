"""Rows that a query cannot use, sent away before their batch is committed: :func:`dead_letters`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_stomp.columns import MALFORMED, RESCUED
from spark_stomp.errors import OptionError, SchemaError
from spark_stomp.spark.rescue import RESCUED_BODY, RESCUED_REASON

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Write = Callable[[DataFrame, int], None]

# A header, and the column of the source that has it: what says where the message came from.
_ORIGIN: Final = {"dead-letter-origin": "destination", "dead-letter-id": "stable_id"}
_REASON: Final = "dead-letter-reason"
# Options that only dead_letters sets.
_OWN: Final = {"headercolumns": "headerColumns", "destination": "destination"}
# What would make the broker discard the dead letter, and what it may not take again.
_LEFT_OUT: Final = ("expires", "expiration", "priority")
_WHY: Final = "__stomp_why"
# Of rows whose JSON the source has decoded: the reason, and the whole body.
_OF_SOURCE: Final = (MALFORMED, RESCUED)
_NOT_RESCUED: Final = (
    "`_rescued` is null in a row that rescue_json has not rescued. Give the reason to rescue_json, which "
    "then rescues the whole body, and none to dead_letters; or name in `body` a column that has all of it"
)


def dead_letters(
    write: Write, destination: str, *, reason: str = RESCUED_REASON, body: str | None = None, **options: str
) -> Write:
    """A function for ``foreachBatch``: rows with a reason go to ``destination``, the others to ``write``.

    The batch is computed once. ``write`` is called when the broker has confirmed every dead letter, and Spark
    commits the batch after that. If anything dies in between, the batch and its dead letters come again.

    A dead letter has the body as it came, and the row's ``headers`` but its priority and what makes it
    expire. It has ``dead-letter-reason``, ``dead-letter-origin`` (the row's ``destination``) and, of a column
    ``stable_id``, ``dead-letter-id``. A header that cannot be sent is left out, and the reason then names it.

    Args:
        write: takes the other rows and the number of the batch, as any function of ``foreachBatch``.
        destination: where dead letters go.
        reason: an expression of SQL: a text for a dead letter, null for any other row. What it says may
            depend on the row alone. Rows of ``rescue_json``, or with ``rescued`` and ``malformed``, have one.
        body: with a ``reason``, the column that has the whole body.
        options: of the sink, such as ``url`` and ``login``, but not ``headerColumns``.

    Raises:
        OptionError: there is a ``reason``, and no ``body``; or an option that ``dead_letters`` sets.
        SchemaError: in the query, if its rows lack ``headers`` or ``destination``, or ``body`` is
            ``_rescued``, which is null in a dead letter that ``rescue_json`` has not rescued.

    Example::

        rescued = rescue_json(orders, "price DOUBLE", reason="IF(price < 0, 'a price below 0', NULL)")
        send = dead_letters(write, "/queue/orders.dead", url="stomp://127.0.0.1:61613")
        rescued.writeStream.foreachBatch(send).option("checkpointLocation", "checkpoint").start()
    """
    _check(reason, body, options)
    sink = {"onError": "deadletter", "deadLetterDestination": destination} | options
    sink["destination"] = destination

    def send_then_write(batch: DataFrame, number: int) -> None:
        origin = _origin(batch.columns)
        why, whole = _reason_and_body(reason, body, batch.columns)
        # Both parts go by one column of what is kept: a reason that is computed again may be another one.
        rows = batch.select("*", f.expr(why).alias(_WHY)).persist()
        try:
            dead = rows.where(f.col(_WHY).isNotNull())
            if not dead.isEmpty():
                letters = _letters(dead, whole, origin).write.format("stomp").mode("append")
                letters.options(**sink, headerColumns=json.dumps([*origin, _REASON])).save()
            write(rows.where(f.col(_WHY).isNull()).drop(_WHY), number)
        finally:
            rows.unpersist()

    return send_then_write


def _reason_and_body(reason: str, body: str | None, given: Collection[str]) -> tuple[str, str | None]:
    """The expression of the reason, and the column with the whole body, of rows with these columns."""
    if reason == RESCUED_REASON and {RESCUED_REASON, *_OF_SOURCE} & {*given} == {*_OF_SOURCE}:
        return MALFORMED, body or RESCUED
    return reason, body


def _check(reason: str, body: str | None, options: Collection[str]) -> None:
    if body is None and reason != RESCUED_REASON:
        raise OptionError(f"dead_letters has a reason and no body: {_NOT_RESCUED}")
    for name in options:
        if name.lower() in _OWN:
            raise OptionError(
                f"dead_letters does not take {name}: it sets {' and '.join(_OWN.values())} itself. A dead "
                "letter has the row's headers; add what else it is to have to the column headers"
            )


def _letters(dead: DataFrame, body: str | None, origin: dict[str, str]) -> DataFrame:
    if body == RESCUED_BODY:
        # What was rescued, and is null, is of a message without a body.
        rescued = f.col(RESCUED_REASON).isNotNull() if RESCUED_REASON in dead.columns else f.lit(False)
        if not dead.where(f.col(RESCUED_BODY).isNull() & ~rescued).isEmpty():
            raise SchemaError(f"a dead letter would have no body: {_NOT_RESCUED}")
    headers = f.map_filter("headers", lambda name, _: ~name.isin(*_LEFT_OUT)).alias("headers")
    return dead.select(f.col(body or RESCUED_BODY).alias("body"), headers, *_columns(origin, f.col(_WHY)))


def _origin(columns: Collection[str]) -> dict[str, str]:
    missing = {"headers", "destination"} - set(columns)
    if missing:
        raise SchemaError(
            f"the rows of the query lack {' and '.join(sorted(missing))}: dead letters need them to be sent "
            "back. Name them in .schema(...), and keep them in every select"
        )
    return {header: column for header, column in _ORIGIN.items() if column in columns}


def _columns(origin: dict[str, str], why: Column) -> list[Column]:
    """The headers that the dead letter has of its own; a header has no control characters."""
    reason = f.left(f.regexp_replace(why, r"\p{Cntrl}", "?"), f.lit(500))
    return [*(f.col(column).alias(header) for header, column in origin.items()), reason.alias(_REASON)]
