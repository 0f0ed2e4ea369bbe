"""Whether a JSON document is what its types say."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict


def misfits(value: Any, kind: Any, where: str = "") -> Iterator[str]:
    """Yield where ``value`` is not of the type ``kind``: a TypedDict, a union, a dict, a list, or a class."""
    arguments = get_args(kind)
    shape = dict if is_typeddict(kind) else get_origin(kind)
    if shape in (dict, list) and not isinstance(value, shape):
        yield where
    elif is_typeddict(kind):
        types = get_type_hints(kind)
        yield from (f"{where}.{key}" for key in types.keys() ^ value.keys())
        for key in types.keys() & value.keys():
            yield from misfits(value[key], types[key], f"{where}.{key}")
    elif shape is UnionType:
        if all([*misfits(value, one, where)] for one in arguments):
            yield where
    elif shape is dict:
        for key, one in value.items():
            yield from misfits(one, arguments[1], f"{where}.{key}")
    elif shape is list:
        for one in value:
            yield from misfits(one, arguments[0], f"{where}[]")
    elif not isinstance(value, kind):
        yield where
