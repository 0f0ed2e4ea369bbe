"""The type of a body that is JSON: which types of Spark it may have, and their Arrow types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as t

from spark_stomp.arrow.json_values import VARIANT
from spark_stomp.columns import LEAVES

_LEAVES: Final[dict[str, pa.DataType]] = {**LEAVES, "variant": VARIANT}
_MOST_SHOWN: Final = 200


def is_json(kind: t.DataType) -> bool:
    """Whether a body of this type is the fields of a document, or of each element of a list."""
    return isinstance(_element(kind), t.StructType)


def json_problems(kind: t.DataType, path: str = "body") -> Iterator[str]:
    """What keeps a body from having this type, a sentence for each part."""
    if isinstance(kind, t.StructType):
        names = kind.fieldNames()
        if not names:
            yield f"`{path}` has no fields"
        yield from (f"`{path}.{name}` is named twice" for name in sorted({*names}) if names.count(name) > 1)
        for field in kind.fields:
            yield from _part_problems(field.dataType, f"{path}.{field.name}", field.nullable)
    elif isinstance(kind, t.ArrayType):
        yield from _part_problems(kind.elementType, f"{path}[]", kind.containsNull)
    elif isinstance(kind, t.MapType) and kind.keyType.simpleString() == "string":
        yield from _part_problems(kind.valueType, f"{path}[]", kind.valueContainsNull)
    elif _leaf(kind) is None:
        yield (
            f"`{path}` is {kind.simpleString()[:_MOST_SHOWN]}, which no value of JSON has exactly: use "
            f"{', '.join(_LEAVES)}, decimal, a STRUCT, an ARRAY or a MAP<STRING, ...> of them, or STRING, "
            "and convert it yourself"
        )


def json_type(kind: Any) -> pa.DataType:
    """The Arrow type of a body of a type without problems."""
    if isinstance(kind, t.StructType):
        return pa.struct([pa.field(field.name, json_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, t.ArrayType):
        return pa.list_(pa.field("element", json_type(kind.elementType)))
    if isinstance(kind, t.MapType):
        return pa.map_(pa.string(), pa.field("value", json_type(kind.valueType)))
    return _leaf(kind)


def _part_problems(kind: t.DataType, path: str, nullable: bool) -> Iterator[str]:
    if not nullable:
        yield f"`{path}` cannot be NOT NULL: a body may lack it"
    yield from json_problems(kind, path)


def _leaf(kind: t.DataType) -> pa.DataType | None:
    if isinstance(kind, t.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _LEAVES.get(kind.simpleString())


def _element(kind: t.DataType) -> t.DataType:
    return kind.elementType if isinstance(kind, t.ArrayType) else kind
