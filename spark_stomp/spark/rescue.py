"""JSON bodies to typed columns that lose nothing: :func:`rescue_json`.

``from_json`` changes or drops what it does not expect, and mostly says nothing: text that is no JSON, a
second document, a field twice, fields that the schema does not name, digits beyond a type. So its result
counts only with a proof. Each row takes the first one that holds:

1. ``to_json`` of the result is the body, but for spaces. Then nothing is missing. This is cheap, and holds if
   the fields are in the order of the schema, and numbers are as Java writes them.
2. The body is parsed again as a VARIANT: strictly (RFC 8259), whole, and with the kind of each value. A walk
   over the schema takes the values out of it, and says what does not fit.

All of it is columns of Spark's own functions: no Python runs for a row.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f
from pyspark.sql import types as t

from spark_stomp.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Columns on the way, which no user has.
_BODY, _PARSED, _WALKED, _ITEM = "__stomp_body", "__stomp_parsed", "__stomp_walked", "__stomp_item"
_WHY = "__stomp_why"

_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_ZONED = _TIME + r"(Z|[+-]\d\d:?\d\d)\z"
_UNZONED = _TIME + r"\z"
# A text of such characters with a space in it. Spark reads a date or a time without it.
_SPACED_TIME = r'[\[{,:] *"[-0-9TZtz:+.]* [-0-9TZtz:+. ]*"'
# A body with more lists and objects is not looked into: functions of VARIANT call themselves for each of them
# that is in another one.
_MOST_PARTS = 250
_MANY_PARTS = (
    f"it has more than {_MOST_PARTS} lists and objects, and is not just as the columns would write it"
)
# Numbers that a VARIANT keeps as a double only: those with an exponent, and those of more than 38 digits.
_INEXACT = r"(\d+(?:\.\d+)?[eE][+-]?\d+|[\d.]{39,})"
# Characters of a number that is exact in any case: 15 digits of a DOUBLE are, and 6 of a FLOAT.
_SURE = {"double": 15, "float": 6}
# Escapes of surrogates: a whole pair, and any. A backslash that is escaped itself begins none.
_BEGIN = r"(?<!\\)((?:\\\\)*)\\u[dD]"
_PAIR = _BEGIN + r"[89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
_SURROGATE = _BEGIN + r"[89a-fA-F]"
# Texts for the numbers that JSON does not have: to_json writes them so.
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


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
        SchemaError: ``schema`` is no struct or list of structs, or has a type that JSON cannot fill exactly.

    Example::

        orders = rescue_json(messages, "id BIGINT, price DOUBLE")
        good = orders.where("_rescued_reason IS NULL").select("id", "price")
    """
    kind = t.DataType.fromDDL(schema) if isinstance(schema, str) else schema
    names = _fields(kind).fieldNames()
    problem = f.col(_WALKED)["problem"]
    # The reason is a column before others depend on it: one that is computed twice may differ.
    return (
        _items(messages, kind, body, others)
        .select(
            "*",
            *(f.col(_ITEM)[name].alias(name) for name in names),
            *([f.when(problem.isNull(), f.col(_WALKED)["others"]).alias(others)] if others else []),
        )
        .select("*", (f.coalesce(f.expr(reason), problem) if reason else problem).alias(_WHY))
        .select(
            _all_but(_BODY, _PARSED, _WALKED, _ITEM, _WHY),
            f.when(f.col(_WHY).isNotNull(), f.col(_BODY)).alias("_rescued"),
            f.col(_WHY).alias("_rescued_reason"),
        )
    )


def _allow_deep_plans() -> None:
    """Lift protobuf's limit of 100 levels in this process: the plan of a nested schema has more.

    The client of Spark Connect parses each part of a plan that it copies (protobuf 7.36.2, November 2026).
    """
    with suppress(ImportError, AttributeError):
        import_module("google._upb._message").SetAllowOversizeProtos(True)


def _items(messages: DataFrame, kind: t.DataType, body: str, others: str | None) -> DataFrame:
    """The messages with their bodies, and a struct of the fields for each row to be."""
    if type(messages).__module__.startswith("pyspark.sql.connect."):
        _allow_deep_plans()
    text = f.col(_BODY).cast("string")
    # By select alone: a server of Connect analyses withColumn and drop at once, which pipelines do not allow.
    rows = (
        messages.select(_all_but(body), f.col(_named(body)).alias(_BODY))
        .select("*", f.from_json(text, kind.json()).alias(_PARSED))
        .select("*", f.when(_same(text, kind), None).otherwise(_walked(text, kind, others)).alias(_WALKED))
    )
    item = f.when(f.col(_WALKED).isNull(), f.col(_PARSED)).otherwise(f.col(_WALKED)["value"])
    if isinstance(kind, t.ArrayType):
        item = f.explode_outer(item)
    return rows.select("*", item.alias(_ITEM))


def _named(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _all_but(*names: str) -> Column:
    return f.expr(f"* EXCEPT ({', '.join(map(_named, names))})")


def _shown(kind: t.DataType) -> str:
    return kind.simpleString()[:200]


def _fields(kind: t.DataType) -> t.StructType:
    """The struct of a document, or of each element of a list. Raises SchemaError for other types."""
    struct = kind.elementType if isinstance(kind, t.ArrayType) else kind
    if not isinstance(struct, t.StructType) or not struct.fields:
        raise SchemaError(
            f"{_shown(kind)} is no schema for rescue_json: name fields, or an ARRAY of a STRUCT"
        )
    _check(kind, "")
    return struct


def _check(kind: t.DataType, path: str) -> None:
    """Raise SchemaError for a type that no JSON value has exactly."""
    if isinstance(kind, t.StructType):
        for field in kind.fields:
            _check(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(kind, t.ArrayType):
        _check(kind.elementType, f"{path}[]")
    elif isinstance(kind, t.MapType) and isinstance(kind.keyType, t.StringType):
        _check(kind.valueType, f"{path}[]")
    elif type(kind) not in _LEAVES:
        known = ", ".join(sorted(leaf.typeName() for leaf in _LEAVES if leaf is not t.DecimalType))
        raise SchemaError(
            f"rescue_json cannot fill {path} ({_shown(kind)}) exactly: use {known}, decimal, a STRUCT, "
            "an ARRAY or a MAP<STRING, ...> of them, or STRING, and convert it yourself"
        )


def _same(text: Column, kind: t.DataType) -> Column:
    """Whether the parsed columns, written as JSON, are the text but for spaces.

    Then the text says nothing else: what is written has each field of the columns once, and between tokens
    spaces mean nothing. A map has a key twice if the text has, so this is false if the schema has one.
    """
    if "map<" in kind.simpleString():
        return f.lit(False)
    written = f.to_json(f.col(_PARSED))

    def equal(ours: Column, theirs: Column) -> Column:
        return ours.cast("binary") == theirs.cast("binary")

    space = f.lit(" ")
    alike = equal(f.replace(written, space), f.replace(text, space))
    if "date" in kind.simpleString() or "timestamp" in kind.simpleString():
        alike &= ~text.rlike(_SPACED_TIME)
    same = equal(written, text) | alike
    if not isinstance(kind, t.ArrayType):
        return same
    return same & (f.size(f.col(_PARSED)) > 0) & ~f.exists(f.col(_PARSED), f.isnull)


def _let(value: Column, then: Callable[[Column], Column]) -> Column:
    """``then(value)``, with ``value`` computed once."""
    return f.get(f.transform(f.array(value), then), f.lit(0))


def _walked(text: Column, kind: t.DataType, others: str | None) -> Column:
    """A struct of ``value`` (a ``kind``), ``problem`` and ``others``, by a strict parse of the whole body."""

    def failed(problem: str) -> Column:
        return _outcome(f.lit(None).cast(kind), f.lit(problem))

    def walk(items: Column) -> Column:
        document = f.try_variant_get(items, "$[0]", "variant")
        whole = f.coalesce(f.try_variant_get(items, "$[1]", "bigint") == end, f.lit(False))
        return (
            f.when(~whole, failed("no JSON document, or more than one, or a field is there twice"))
            .when(f.is_variant_null(document), failed("the body is null"))
            .otherwise(_let(document, lambda value: walker.top(value, kind, others)))
        )

    walker = _Walker(text)
    # The parser stops behind the first document, and says nothing of what follows. In a list whose second and
    # last element is made from the text, nothing follows the document.
    end = f.xxhash64(text)
    items = f.try_parse_json(f.concat(f.lit("["), text, f.lit(","), end.cast("string"), f.lit("]")))
    return (
        f.when(text.isNull(), failed("there is no body"))
        .when(f.btrim(text, f.lit(" \t\r\n")) == "", failed("the body is empty"))
        .when(~f.is_valid_utf8(text), failed("the body is not UTF-8"))
        .when(_has_half_a_pair(text), failed("the body has half of a surrogate pair"))
        .when(f.length(f.regexp_replace(text, r"[^\[{]", "")) > _MOST_PARTS, failed(_MANY_PARTS))
        .otherwise(_let(items, walk))
    )


def _has_half_a_pair(text: Column) -> Column:
    """Whether the text has the escape of a surrogate alone, which is no character.

    Spark 4.0 and 4.1 make a question mark of it.
    """
    return f.regexp_replace(text, _PAIR, "$1").rlike(_SURROGATE)


def _outcome(value: Column, problem: Column, others: Column | None = None) -> Column:
    rest = f.lit(None).cast("string") if others is None else others
    return f.struct(value.alias("value"), problem.cast("string").alias("problem"), rest.alias("others"))


class _Walker:
    """The walk over a schema and a VARIANT of the body: columns of structs of ``value`` and ``problem``."""

    def __init__(self, text: Column) -> None:
        self._text = text

    def top(self, document: Column, kind: t.DataType, others: str | None) -> Column:
        """What the document gives. A list with a problem, such as being empty, has no elements."""
        if isinstance(kind, t.StructType):
            return self._struct(document, kind, "", others)

        def checked(walked: Column) -> Column:
            none = f.when(f.size(walked["value"]) == 0, "the list is empty")
            null = f.when(f.exists(walked["value"], f.isnull), "the list has a null")
            problem = f.coalesce(walked["problem"], none, null)
            return _outcome(f.when(problem.isNull(), walked["value"]), problem)

        return _let(self._walk(document, kind, ""), checked)

    def _walk(self, value: Column, kind: t.DataType, path: str) -> Column:
        if isinstance(kind, t.StructType):
            return self._struct(value, kind, path, None)
        if isinstance(kind, t.ArrayType):
            return self._array(value, kind, path)
        if isinstance(kind, t.MapType):
            return self._map(value, kind, path)
        return _let(value, lambda value: self._leaf(value, kind, path))

    def _leaf(self, value: Column, kind: t.DataType, path: str) -> Column:
        def taken(said: Column) -> Column:
            leaf = _LEAVES[type(kind)](_Said(value, said["kind"], said["shown"], self._text), kind)
            exact = f.coalesce(leaf.exact, f.lit(False))
            return _let(f.struct(leaf.value.alias("value"), exact.alias("exact")), outcome)

        def outcome(leaf: Column) -> Column:
            misfit = f.when(~leaf["exact"], _misfit(value, kind, path))
            return _outcome(f.when(leaf["exact"], leaf["value"]), misfit)

        said = f.struct(f.schema_of_variant(value).alias("kind"), value.cast("string").alias("shown"))
        return _let(said, taken)

    def _struct(self, value: Column, kind: t.StructType, path: str, others: str | None) -> Column:
        names, document = f.array(*map(f.lit, kind.fieldNames())), value

        def fields(found: Column) -> Column:
            parts = [
                self._walk(
                    f.try_element_at(found, f.lit(field.name)),
                    field.dataType,
                    f"{path}.{field.name}".lstrip("."),
                )
                for field in kind.fields
            ]
            return _let(
                f.struct(*(part.alias(f"_{n}") for n, part in enumerate(parts))), lambda w: outcome(w, found)
            )

        def outcome(walked: Column, found: Column) -> Column:
            value = f.struct(
                *(walked[f"_{n}"]["value"].alias(name) for n, name in enumerate(kind.fieldNames()))
            )
            problems = [walked[f"_{n}"]["problem"] for n in range(len(kind.fields))]
            more = f.array_except(f.map_keys(found), names)
            if others is None:
                unnamed = f.concat_ws(", ", f.lit(f"{path or 'the body'} has other fields"), more)
                return _outcome(value, f.coalesce(*problems, f.when(f.size(more) > 0, unnamed)))
            rest = f.map_filter(found, lambda name, _: f.array_contains(more, name))
            cut = f.when(
                ~_exact_numbers(document, self._text), f"a number has more digits than {others} can have"
            )
            return _outcome(
                value,
                f.coalesce(*problems, f.when(f.size(more) > 0, cut)),
                f.when(f.size(more) > 0, f.to_json(rest)),
            )

        found = f.try_variant_get(value, "$", "map<string,variant>")
        return _let(
            found,
            lambda found: f.when(found.isNull(), self._none(value, kind, path)).otherwise(fields(found)),
        )

    def _array(self, value: Column, kind: t.ArrayType, path: str) -> Column:
        def outcome(walked: Column) -> Column:
            return f.when(walked.isNull(), self._none(value, kind, path)).otherwise(
                _outcome(f.transform(walked, lambda one: one["value"]), _first_problem(walked))
            )

        found = f.try_variant_get(value, "$", "array<variant>")
        return _let(f.transform(found, lambda one: self._walk(one, kind.elementType, f"{path}[]")), outcome)

    def _map(self, value: Column, kind: t.MapType, path: str) -> Column:
        def outcome(walked: Column) -> Column:
            return f.when(walked.isNull(), self._none(value, kind, path)).otherwise(
                _outcome(
                    f.transform_values(walked, lambda _, one: one["value"]),
                    _first_problem(f.map_values(walked)),
                )
            )

        found = f.try_variant_get(value, "$", "map<string,variant>")
        return _let(
            f.transform_values(found, lambda _, one: self._walk(one, kind.valueType, f"{path}[]")), outcome
        )

    @staticmethod
    def _none(value: Column, kind: t.DataType, path: str) -> Column:
        return _outcome(f.lit(None).cast(kind), _misfit(value, kind, path))


def _first_problem(walked: Column) -> Column:
    return f.get(f.filter(walked["problem"], lambda problem: problem.isNotNull()), f.lit(0))


def _misfit(value: Column, kind: t.DataType, path: str) -> Column:
    """That the value is no ``kind``; null if there is none, or JSON's null. It quotes nothing of the body."""
    said = f.lower(f.regexp_extract(f.schema_of_variant(value), r"^\w+", 0))
    problem = f.concat(f.lit(f"{path or 'the body'} is "), said, f.lit(f" that does not fit {_shown(kind)}"))
    return f.when(value.isNotNull() & ~f.is_variant_null(value), problem)


class _Said(NamedTuple):
    """A value of the body: what ``schema_of_variant`` calls it, as text, and the whole body."""

    value: Column
    kind: Column
    shown: Column
    text: Column

    @property
    def is_plain(self) -> Column:
        """Whether it is a number that the VARIANT has digit by digit."""
        return (self.kind == "BIGINT") | self.kind.startswith("DECIMAL")


class _Leaf(NamedTuple):
    value: Column
    exact: Column


def _text(said: _Said, kind: t.DataType) -> _Leaf:
    return _Leaf(said.shown, said.kind == "STRING")


def _boolean(said: _Said, kind: t.DataType) -> _Leaf:
    return _Leaf(f.try_variant_get(said.value, "$", "boolean"), said.kind == "BOOLEAN")


def _integer(said: _Said, kind: t.DataType) -> _Leaf:
    value = f.try_variant_get(said.value, "$", kind.simpleString())
    return _Leaf(value, (said.kind == "BIGINT") & value.isNotNull())


def _decimal(said: _Said, kind: t.DataType) -> _Leaf:
    value = f.try_variant_get(said.value, "$", kind.simpleString())
    return _Leaf(value, said.is_plain & (value.cast("variant").cast("string") == said.shown))


def _floating(said: _Said, kind: t.DataType) -> _Leaf:
    """Exact if it is printed as the number that the body has.

    So many characters are always right: a DOUBLE has 15 digits, a FLOAT 6.
    """
    name = kind.simpleString()
    value = f.when(
        said.is_plain | (said.kind == "DOUBLE") | said.shown.isin(*_NO_NUMBERS),
        f.try_variant_get(said.value, "$", name),
    )
    printed = value.cast("string").try_cast("decimal(38,18)").cast("variant").cast("string")
    plain = (f.length(said.shown) <= _SURE[name]) | (printed == said.shown)
    exponent = (value.cast("string") == said.value.cast("double").cast("string")) & _has_digits(said.text)
    exact = f.when(said.is_plain, plain).when(said.kind == "DOUBLE", exponent)
    return _Leaf(value, exact.otherwise((said.kind == "STRING") & value.isNotNull()))


def _exact_numbers(value: Column, text: Column) -> Column:
    """Whether the VARIANT has all numbers of the body. Doubles may be rounded, and mixed lists hide them."""
    return ~f.schema_of_variant(value).rlike("DOUBLE|VARIANT") | _has_digits(text)


def _has_digits(text: Column) -> Column:
    """Whether the numbers that a VARIANT has as a double only are printed with the digits of the body."""

    def digits(number: Column) -> Column:
        mantissa = f.split_part(f.lower(number), f.lit("e"), f.lit(1))
        return f.btrim(f.replace(mantissa, f.lit("."), f.lit("")), f.lit("0"))

    numbers = f.regexp_extract_all(text, f.lit(_INEXACT), f.lit(1))
    same = f.forall(numbers, lambda one: digits(one) == digits(f.abs(one.try_cast("double")).cast("string")))
    return f.coalesce(same, f.lit(False))


def _date(said: _Said, kind: t.DataType) -> _Leaf:
    value = said.shown.try_cast("date")
    return _Leaf(value, (said.kind == "STRING") & (value.cast("string") == said.shown))


def _timestamp(said: _Said, kind: t.DataType) -> _Leaf:
    value = said.shown.try_cast(kind.simpleString())
    form = _ZONED if isinstance(kind, t.TimestampType) else _UNZONED
    return _Leaf(value, (said.kind == "STRING") & said.shown.rlike(form) & value.isNotNull())


def _variant(said: _Said, kind: t.DataType) -> _Leaf:
    return _Leaf(said.value, _exact_numbers(said.value, said.text))


_LEAVES: Final[dict[type[t.DataType], Callable[[_Said, t.DataType], _Leaf]]] = {
    t.StringType: _text,
    t.BooleanType: _boolean,
    **dict.fromkeys((t.ByteType, t.ShortType, t.IntegerType, t.LongType), _integer),
    t.DecimalType: _decimal,
    **dict.fromkeys((t.FloatType, t.DoubleType), _floating),
    t.DateType: _date,
    **dict.fromkeys((t.TimestampType, t.TimestampNTZType), _timestamp),
    t.VariantType: _variant,
}
"""For each type of a schema: what a value would be in it, and whether that is all that the value says."""
