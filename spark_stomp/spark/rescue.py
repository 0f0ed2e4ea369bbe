"""JSON in a column of any DataFrame, as typed columns that lose nothing: :func:`rescue_json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql import types as t

from spark_stomp.columns import RESCUED
from spark_stomp.errors import SchemaError
from spark_stomp.spark.json_schema import is_json, json_problems, json_type
from spark_stomp.spark.versions import ARROW_UDF

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RESCUED_BODY: Final = "_rescued"
RESCUED_REASON: Final = "_rescued_reason"
# Columns on the way, which no user has.
_BODY, _DECODED, _ITEM, _WHY = "__stomp_body", "__stomp_decoded", "__stomp_item", "__stomp_why"
_VALUE, _PROBLEM, _OTHERS = "value", "problem", "others"


def rescue_json(
    messages: DataFrame,
    schema: str | t.DataType,
    *,
    body: str = "body",
    others: str | None = None,
    reason: str | None = None,
) -> DataFrame:
    """Replace the column ``body`` by the fields of its JSON, and by what did not fit.

    A column of ``schema`` has its field exactly as the body has it, or null. ``_rescued`` is the whole body,
    as it came, unless everything that it says is in these columns; ``_rescued_reason`` then says what is not.
    A null body has a reason too. docs/payloads.md says for each type what is exact.

    The source decodes its own bodies (``body STRUCT<...>``); this is for JSON that is unpacked first.

    Args:
        messages: has the column ``body``, text or binary; binary is read as UTF-8. The other columns stay.
        schema: DDL text such as ``"id BIGINT, price DOUBLE"``, or a StructType. An ARRAY of structs makes a
            row of each element of a list, with the message's other columns on each.
        body: the name of the column.
        others: the name of one more column: the fields that ``schema`` does not name, as the text of a JSON
            object. Without it a body that has such fields is rescued. Further inside, they always are.
        reason: more bodies to rescue whole: an expression of SQL over the fields and the other columns, a
            text for a row to rescue, else null. Such as ``malformed``, or ``IF(price < 0, 'below 0', NULL)``.

    Raises:
        SchemaError: ``schema`` is no struct or list of structs, is that of a source, has a type that JSON
            cannot fill exactly, or a name that another column of the result has. On Spark Connect Spark
            names the columns.

    Example::

        orders = rescue_json(messages, "id BIGINT, price DOUBLE")
        good = orders.where("_rescued_reason IS NULL").select("id", "price")
    """
    kind = t.DataType.fromDDL(schema) if isinstance(schema, str) else schema
    names = _fields(kind).fieldNames()
    rows = messages.select(_all_but(body), f.col(_named(body)).alias(_BODY))
    if not type(messages).__module__.startswith("pyspark.sql.connect."):
        _refuse_twice([*rows.columns[:-1], *names, *filter(None, [others]), RESCUED_BODY, RESCUED_REASON])
    return _in_columns(_with_decoded(rows, kind, others is not None), kind, names, others, reason)


def _in_columns(
    rows: DataFrame, kind: t.DataType, names: list[str], others: str | None, reason: str | None
) -> DataFrame:
    """The fields as columns; a row for each element of a list."""
    decoded, item, why = f.col(_DECODED), f.col(_ITEM), f.col(_WHY)
    value = f.explode_outer(decoded[_VALUE]) if isinstance(kind, t.ArrayType) else decoded[_VALUE]
    fields = [item[name].alias(name) for name in names]
    more = [decoded[_OTHERS].alias(others)] if others else []
    own = [f.expr(reason)] if reason else []
    # By select alone: a server of Connect analyses withColumn and drop at once, which pipelines do not allow.
    # The reason is a column before others depend on it: one that is computed twice may differ.
    return (
        rows.select("*", value.alias(_ITEM))
        .select("*", *fields, *more)
        .select("*", f.coalesce(*own, decoded[_PROBLEM]).alias(_WHY))
        .select(
            _all_but(_BODY, _DECODED, _ITEM, _WHY),
            f.when(why.isNotNull(), f.col(_BODY)).alias(RESCUED_BODY),
            why.alias(RESCUED_REASON),
        )
    )


def _named(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _all_but(*names: str) -> Column:
    return f.expr(f"* EXCEPT ({', '.join(map(_named, names))})")


def _fields(kind: t.DataType) -> t.StructType:
    """The struct of a document, or of each element of a list. Raises SchemaError for other types."""
    problems = [*json_problems(kind, "schema")] if is_json(kind) else ["name fields, or an ARRAY of a STRUCT"]
    if _is_of_source(kind):
        problems = [
            "it is the schema of a source: give only the type of `body`, from STRUCT< or ARRAY< on. If the "
            "documents have a field `body`, name a second one"
        ]
    if problems:
        shown = kind.simpleString()[:200]
        raise SchemaError(f"{shown} is no schema for rescue_json: {'; '.join(problems)}")
    struct: Any = kind.elementType if isinstance(kind, t.ArrayType) else kind
    return cast("t.StructType", struct)


def _is_of_source(kind: t.DataType) -> bool:
    """Whether a schema is that of a source with such a body. No document would fit it."""
    kinds = {one.name.lower(): one.dataType for one in kind} if isinstance(kind, t.StructType) else {}
    return isinstance(kinds.get(RESCUED), t.BinaryType) or ([*kinds] == ["body"] and is_json(kinds["body"]))


def _refuse_twice(names: list[str]) -> None:
    """Raise SchemaError for names that Spark, which knows no case, could not tell apart."""
    lower = [name.lower() for name in names]
    twice = sorted({name for name in names if lower.count(name.lower()) > 1})
    if twice:
        raise SchemaError(
            f"two columns of the result would have one name: {', '.join(twice)}. Rename the message's "
            "columns before, or put the fields into a STRUCT of the schema"
        )


def _with_decoded(rows: DataFrame, kind: t.DataType, others: bool) -> DataFrame:
    """The rows with one more column: the struct that :func:`_decoder` makes of each body."""
    decode = _decoder(kind, others)
    parts = {_VALUE: kind, _PROBLEM: t.StringType(), _OTHERS: t.StringType()}
    returns = t.StructType([t.StructField(name, part) for name, part in parts.items()])
    if ARROW_UDF:
        # Spark may compute what is deterministic twice: for a filter, and for the columns behind it.
        made: Any = f.arrow_udf  # the types of its hints say less than it takes
        udf = made(decode, returns).asNondeterministic()
        return rows.select("*", udf(f.col(_BODY)).alias(_DECODED))

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [*batch.columns, decode(batch.column(_BODY))]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, _DECODED])

    return rows.mapInArrow(add, t.StructType([*rows.schema.fields, t.StructField(_DECODED, returns)]))


def _decoder(kind: t.DataType, others: bool) -> Callable[[pa.Array], pa.Array]:
    arrow = json_type(kind)

    def decode(bodies: pa.Array) -> pa.Array:
        # Where the query runs, which has Arrow and this package, but need not have made the plan.
        from spark_stomp.arrow.columns import strings
        from spark_stomp.arrow.json_rows import json_rows

        if bodies.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
            raise SchemaError(f"the column of JSON is {bodies.type}: cast it to string")
        bodies = bodies.cast(pa.binary())  # a text of Spark need not be UTF-8
        found = json_rows(bodies, arrow, others=others)
        texts = [strings(map(text.get, range(len(bodies)))) for text in (found.reasons, found.others)]
        return pa.StructArray.from_arrays([found.values, *texts], names=[_VALUE, _PROBLEM, _OTHERS])

    return decode
