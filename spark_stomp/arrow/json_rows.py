"""JSON bodies as structs, or lists of structs, that lose nothing: :func:`json_rows`.

The parser is the standard library's. Its hooks see what others hide: a field twice, all digits of a number.
``docs/tried.md`` says what other parsers do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import Ints, array_of, as_utf8, places, strings, validity
from spark_stomp.arrow.json_layouts import read_json_layouts
from spark_stomp.arrow.json_values import KINDS, VARIANT, Fraction, Whole, kind_of, leaf_of, misfit, written
from spark_stomp.quoting import shown

MOST_LEVELS: Final = 500
"""Lists and objects in one another. The parser calls itself for each; Python allows about 1,000 calls."""

_NO_JSON: Final = "no JSON document"
# In Unicode; a document has none (RFC 8259, section 8.1).
_MARK: Final = "\ufeff"
_SPACES: Final = " \t\r\n"
_TOO_DEEP: Final = f"the body has more than {MOST_LEVELS} lists and objects in one another"
_ESCAPED = re.compile(r"\\.", re.DOTALL)
# Names and characters of a reason that lists fields.
_MOST_NAMES, _LONGEST_NAMES = 20, 200
_NO_BRACKETS = re.compile(r"[^\[\]{}]+")
# The escapes of a text, one after the other. Half a surrogate pair is no character.
_ESCAPES = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)


class JsonRows(NamedTuple):
    """What bodies say.

    Attributes:
        values: the array of the fields, or of the lists.
        reasons: by row why a body is not in ``values`` exactly.
        others: by row a JSON object of the fields that the type does not name, if that was asked for.
    """

    values: pa.Array
    reasons: dict[int, str]
    others: dict[int, str]


def json_rows(bodies: pa.Array, data_type: pa.DataType, *, others: bool = False) -> JsonRows:
    """Decode bodies, texts or octets in UTF-8, as ``data_type``: a struct or a list of structs.

    A row without a reason has all that its body says, exactly. In one with a reason each field has what fits
    it, or null. A list with a reason is null.

    Args:
        others: for a struct, fields of the body that it does not name are no reason. Further inside they are.

    Raises:
        SchemaError: ``data_type`` has a type that JSON cannot fill exactly.
    """
    parts: list[tuple[Ints, pa.Array]] = []
    if pa.types.is_struct(data_type) and (texts := as_utf8(bodies)) is not None:
        parts = [*read_json_layouts(texts, data_type)]
    remaining = np.ones(len(bodies), bool)
    for rows, _ in parts:
        remaining[rows] = False
    rest = np.flatnonzero(remaining)
    exact = _exact(bodies if len(rest) == len(bodies) else bodies.take(array_of(rest)), data_type, others)
    if not parts:
        return exact
    order = places([*(rows for rows, _ in parts), rest])
    every = pa.concat_arrays([*(part for _, part in parts), exact.values])
    in_order = every if len(parts) == 1 and not rest.size else every.take(array_of(order))
    reasons, more = ({int(rest[row]): text for row, text in found.items()} for found in exact[1:])
    return JsonRows(in_order, reasons, more)


def _exact(bodies: pa.Array, data_type: pa.DataType, others: bool) -> JsonRows:
    node, in_lists = _node(data_type, ""), pa.types.is_list(data_type)
    named = {field.name for field in data_type} if others and not in_lists else None
    found = JsonRows(bodies, {}, {})
    for row, body in enumerate(bodies.to_pylist()):
        try:
            document = checked(parse(body), in_lists=in_lists)
            more = _others(document, named)
        except Unfit as unfit:
            node.add(None)
            found.reasons[row] = str(unfit)
            continue
        if (problem := node.add(document)) is not None:
            found.reasons[row] = problem
        elif more:
            found.others[row] = more
    values = node.array()
    if found.reasons and in_lists:
        bad = np.isin(np.arange(len(values)), list(found.reasons))
        values = pa.Array.from_buffers(
            data_type, len(values), [validity(~bad), values.buffers()[1]], children=[values.values]
        )
    return found._replace(values=values)


def _others(document: object, named: Collection[str] | None) -> str | None:
    """The fields that have no name, as a text; they are taken out of the document."""
    if named is None or type(document) is not dict:
        return None
    more = {name: document.pop(name) for name in [*document] if name not in named}
    try:
        return written(more) if more else None
    except RecursionError:
        raise Unfit(_TOO_DEEP) from None


def checked(document: object, *, in_lists: bool) -> object:
    """The document, if it is not null, nor a list that would make no row of it or of an element."""
    if document is None:
        raise Unfit("the body is null")
    if in_lists and type(document) is list:
        if not document:
            raise Unfit("the list is empty")
        if None in document:
            raise Unfit("the list has a null")
    return document


# --- documents


class Unfit(Exception):
    """Why a body is not one JSON document."""


def parse(body: bytes | str | None) -> object:
    """The document that a body is (RFC 8259), with numbers as text.

    Raises Unfit: it is none, has a field twice, is not UTF-8, has half a surrogate pair, or is too deep.
    """
    if body is None:
        raise Unfit("there is no body")
    try:
        text = (body.decode() if isinstance(body, bytes) else body).strip(_SPACES)
    except UnicodeDecodeError:
        raise Unfit("the body is not UTF-8") from None
    if not text:
        raise Unfit("the body is empty")
    if text.startswith(_MARK):
        raise Unfit("the body begins with a byte order mark")
    if text.count("[") + text.count("{") > MOST_LEVELS and _levels(text) > MOST_LEVELS:
        raise Unfit(_TOO_DEEP)
    document, end = _first(text)
    if end < len(text):
        _first(text[end:].lstrip(_SPACES), "there is text behind the JSON document")
        raise Unfit("more than one document")
    if "\\u" in text and any(found[1] for found in _ESCAPES.finditer(text)):
        raise Unfit("the body has half of a surrogate pair")
    return document


def _first(text: str, otherwise: str = _NO_JSON) -> tuple[object, int]:
    try:
        try:
            return _DECODER.raw_decode(text)
        except _Twice:
            document, _ = _DECODER_OF_TWINS.raw_decode(text)
    except RecursionError:
        raise Unfit(_TOO_DEEP) from None
    except ValueError:
        raise Unfit(otherwise) from None
    raise Unfit(f"a field twice: {shown(_path_of_twin(document))}")


def _levels(text: str) -> int:
    """How many lists and objects are in one another. Brackets in strings are none."""
    outside = "".join(_ESCAPED.sub("", text).split('"')[::2])
    brackets = np.frombuffer(_NO_BRACKETS.sub("", outside).encode(), np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    return int(np.cumsum(steps).max(initial=0))


class _Twice(Exception):
    """An object has a field twice."""


class _Twin(str):
    """The name of a field that is twice in an object, in place of the object."""

    __slots__ = ()


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found


def _object_or_twin(pairs: list[tuple[str, object]]) -> object:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            return _Twin(name)
        found[name] = value
    return found


def _path_of_twin(document: object) -> str:
    """The path of the first twin in a document that has one."""
    # Each with the names above it, as a chain: a body may have a million fields below a long name.
    remaining: list[tuple[object, Any]] = [(document, None)]
    while type(remaining[-1][0]) is not _Twin:
        one, above = remaining.pop()
        if type(one) is dict:
            remaining += [(part, (f".{name}", above)) for name, part in reversed(one.items())]
        elif type(one) is list:
            remaining += [(part, ("[]", above)) for part in reversed(one)]
    twin, above = remaining[-1]
    parts = [f".{twin}"]
    while above is not None:
        part, above = above
        parts.append(part)
    return "".join(reversed(parts)).lstrip(".")


def _refuse(name: str) -> NoReturn:
    raise Unfit(f"{name} is no number of JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Whole, parse_float=Fraction, parse_constant=_refuse
)
_DECODER_OF_TWINS: Final = json.JSONDecoder(
    object_pairs_hook=_object_or_twin, parse_int=Whole, parse_float=Fraction, parse_constant=_refuse
)


# --- columns


# Each collects the values of one place of the schema: ``add`` takes a value of a document, where None is a
# null, and returns what does not fit.
_Node: TypeAlias = "_LeafNode | _StructNode | _ListNode | _MapNode"


class _LeafNode:
    def __init__(self, data_type: pa.DataType, path: str) -> None:
        self._leaf, self._path = leaf_of(data_type, path), path
        self._read = self._leaf.read
        self._values: list[Any] = []

    def add(self, value: Any) -> str | None:
        if value is None:
            self._values.append(None)
            return None
        read = self._read(value)
        self._values.append(read)
        return None if read is not None else f"{self._path} {misfit(value, self._leaf)}"

    def array(self) -> pa.Array:
        return self._leaf.array(self._values)


class _StructNode:
    def __init__(self, data_type: pa.StructType, path: str) -> None:
        self._data_type, self._path = data_type, path or "the body"
        fields = [data_type.field(number) for number in range(data_type.num_fields)]
        self._names = {field.name for field in fields}
        self._parts = [_node(field.type, f"{path}.{field.name}".lstrip(".")) for field in fields]
        self._adds = [(field.name, part.add) for field, part in zip(fields, self._parts, strict=True)]
        self._there: list[bool | None] = []

    def add(self, value: Any) -> str | None:
        if type(value) is not dict:
            self._there.append(None)
            for _, add in self._adds:
                add(None)
            return None if value is None else f"{self._path} is {kind_of(value)}, fields were expected"
        self._there.append(True)
        problem = None
        for name, add in self._adds:
            found = add(value.get(name))
            if found is not None and problem is None:
                problem = found
        if problem is None and not value.keys() <= self._names:
            problem = f"{self._path} has other fields, {self._others(value)}"
        return problem

    def array(self) -> pa.Array:
        parts = [part.array() for part in self._parts]
        return pa.Array.from_buffers(
            self._data_type, len(self._there), [validity(self._there)], children=parts
        )

    def _others(self, value: dict[str, object]) -> str:
        names = [name for name in value if name not in self._names]
        more = f" and {len(names) - _MOST_NAMES:,} more" * (len(names) > _MOST_NAMES)
        return shown(", ".join(names[:_MOST_NAMES]), _LONGEST_NAMES) + more


class _Many:
    """The ends of lists or maps, whose elements another node has."""

    takes: type

    def __init__(self, data_type: pa.DataType, element: pa.DataType, path: str) -> None:
        self._data_type, self._path = data_type, path or "the body"
        self._elements = _node(element, f"{path}[]")
        self._ends = [0]
        self._there: list[bool | None] = []

    def add(self, value: Any) -> str | None:
        fits = type(value) is self.takes
        self._there.append(True if fits else None)
        self._ends.append(self._ends[-1] + (len(value) if fits else 0))
        if value is None:
            return None
        if not fits:
            return f"{self._path} is {kind_of(value)}, {KINDS[self.takes]} was expected"
        first = None  # only that is kept, of millions that there may be
        for problem in filter(None, map(self._elements.add, self._parts(value))):
            first = first or problem
        return first

    def array(self) -> pa.Array:
        ends = pa.py_buffer(np.array(self._ends, np.int32))
        buffers = [validity(self._there), ends]
        return pa.Array.from_buffers(self._data_type, len(self._there), buffers, children=[self._inside()])

    def _parts(self, value: Any) -> Iterable[Any]:
        """The elements of a list, or the values of a map."""
        return value  # type: ignore[no-any-return]

    def _inside(self) -> pa.Array:
        return self._elements.array()


class _ListNode(_Many):
    takes = list


class _MapNode(_Many):
    takes = dict

    def __init__(self, data_type: pa.MapType, element: pa.DataType, path: str) -> None:
        super().__init__(data_type, element, path)
        self._keys: list[str] = []

    def _parts(self, value: Any) -> Iterable[Any]:
        self._keys += value
        return value.values()  # type: ignore[no-any-return]

    def _inside(self) -> pa.Array:
        entries = pa.struct([self._data_type.key_field, self._data_type.item_field])
        parts = [strings(self._keys), super()._inside()]
        # pyarrow 15 ends the process if it does not know that no entry is null.
        return pa.Array.from_buffers(entries, len(self._keys), [None], null_count=0, children=parts)


def _node(data_type: pa.DataType, path: str) -> _Node:
    if pa.types.is_struct(data_type) and data_type != VARIANT:
        return _StructNode(data_type, path)
    if pa.types.is_list(data_type):
        return _ListNode(data_type, data_type.value_type, path)
    if pa.types.is_map(data_type):
        return _MapNode(data_type, data_type.item_type, path)
    return _LeafNode(data_type, path)
