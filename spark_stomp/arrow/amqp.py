"""Decodes AMQP 1.0 (OASIS, October 2012): the sections of a message, and the values in them.

Brokers put bodies that they cannot turn into STOMP into a frame as they are encoded. What a body is in a row:

====================================  ================================================================
section or value                      body
====================================  ================================================================
data sections                         their octets, side by side
a value: string; binary               its text in UTF-8; its octets
a value of another type; sequences    JSON: as below; the items of all sequences are one list
no body section                       empty
====================================  ================================================================

====================================  ================================================================
type                                  JSON
====================================  ================================================================
null, boolean, integers               the same
float, double                         the same; ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` as text
string, symbol, char, uuid            text
timestamp                             text in ISO 8601, UTC; outside of years 1 to 9999 the milliseconds
binary; decimal                       its octets in Base64
list, array                           a list
map with text as keys                 an object
any other map                         a list of pairs of key and value
described value                       an object of ``descriptor`` and ``value``
====================================  ================================================================
"""

from __future__ import annotations

import base64
import json
import math
import struct
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from spark_stomp.protocol.frames import is_utf8

# Values may lie this deep in one another. More is no message, and Python's stack has an end.
_DEEPEST: Final = 64
# A message may have this many values; an item of an array counts as often as its constructor has octets. A
# value takes up to 400 bytes of memory, but may be one octet, or none in an array.
_MOST_VALUES: Final = 1_000_000
# So many more than it has octets, because items of an array may take none: a body of 40 octets with a million
# of them would take half a second.
_MOST_EXTRA: Final = 10_000
Value: TypeAlias = Any
"""A value: None, bool, int, float, str, bytes, UUID, datetime, a list of values, or a type below."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

# Octets that are not UTF-8 stay what they are if the text is a whole body, as in a body without an encoding.
_AS_THEY_ARE: Final = "surrogateescape"

# Part 3, "Message Format": the descriptors of the sections.
_SECTIONS: Final = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:properties:list": 0x73,
    "amqp:application-properties:map": 0x74,
    "amqp:data:binary": 0x75,
    "amqp:amqp-sequence:list": 0x76,
    "amqp:amqp-value:*": 0x77,
    "amqp:footer:map": 0x78,
}
_PROPERTIES, _APPLICATION, _DATA, _SEQUENCE, _VALUE, _LAST = 0x73, 0x74, 0x75, 0x76, 0x77, 0x78
_NAMES: Final = (
    "amqp-message-id",
    "user-id",
    "to",
    "subject",
    "reply-to",
    "correlation-id",
    "content-type",
    "content-encoding",
    "absolute-expiry-time",
    "creation-time",
    "group-id",
    "group-sequence",
    "reply-to-group-id",
)
"""The properties in their order, named as in the specification, but ``message-id`` as RabbitMQ does, because
that header is the broker's."""


class NotAmqp(ValueError):
    """Why octets are not AMQP 1.0."""


class Content(NamedTuple):
    """What a message says: its body as in a row, the type of that, and further headers."""

    body: bytes
    body_type: str
    headers: tuple[tuple[str, str], ...] = ()


def read_content(data: bytes) -> Content:
    """The content of a message, or of its body sections alone. Raises NotAmqp."""
    sections = list(_sections(data))
    headers = [pair for code, value in sections for pair in _headers(code, value)]
    bodies = [(code, value) for code, value in sections if _DATA <= code < _LAST]
    codes = {code for code, _ in bodies}
    if len(codes) > 1 or (codes == {_VALUE} and len(bodies) > 1):
        raise NotAmqp("it has body sections that exclude each other")
    return Content(*_body(codes.pop() if codes else None, [value for _, value in bodies]), tuple(headers))


def _sections(data: bytes) -> Iterator[tuple[int, Value]]:
    reader, last = _Reader(data), 0
    while reader.at < len(data):
        found = reader.value()
        if not isinstance(found, _Described):
            raise NotAmqp("a value stands where a section should")
        code = _SECTIONS.get(found.descriptor) if isinstance(found.descriptor, str) else found.descriptor
        if not isinstance(code, int) or code not in _SECTIONS.values() or code < last:
            raise NotAmqp("it has an unknown section, or one in the wrong place")
        if not isinstance(found.value, _CLASSES.get(code, object)):
            raise NotAmqp("a section has a value of the wrong type")
        last = code
        yield code, found.value


def _body(code: int | None, values: list[Value]) -> tuple[bytes, str]:
    if code is None:
        return b"", "nothing"
    if code == _DATA:
        return b"".join(values), "data"
    if code == _SEQUENCE:
        return _json([item for value in values for item in value]), "sequence"
    (value,) = values
    if type(value) is str:
        return value.encode(errors=_AS_THEY_ARE), "string"
    if type(value) is bytes:
        return value, "binary"
    return _json(value), _type_name(value)


def _headers(code: int, value: Value) -> Iterator[tuple[str, str]]:
    """The properties and application properties as headers; a null value is none."""
    pairs: list[tuple[Value, Value]] = []
    if code == _PROPERTIES and isinstance(value, list):
        pairs = list(zip(_NAMES, value, strict=False))
    elif code == _APPLICATION and isinstance(value, _Map):
        pairs = value.pairs
    for name, one in pairs:
        if one is not None:
            yield _text(name), _text(one)


def _text(value: Value) -> str:
    """The JSON of a value, without the quotes if it is text; octets as in any other header."""
    if type(value) is bytes:
        return value.decode("utf-8" if is_utf8(value) and b"\0" not in value else "latin-1")
    plain = _plain(value)
    text = plain if isinstance(plain, str) else _dumps(plain)
    return _encoded(text).decode()


def _type_name(value: Value) -> str:
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "boolean"
    return {int: "number", float: "number", _Map: "map", list: "list"}.get(type(value), "value")


# --- values


class _Described(NamedTuple):
    descriptor: Value
    value: Value


class _Map(NamedTuple):
    """The pairs of a map, in order."""

    pairs: list[tuple[Value, Value]]


class _Symbol(str):
    """Text that is no string: a symbol, a character."""


class _Opaque(bytes):
    """Octets of a type that is not read further."""


_CLASSES: Final[dict[int, type]] = {
    0x70: list,
    0x71: _Map,
    0x72: _Map,
    0x73: list,
    0x74: _Map,
    0x75: bytes,
    0x76: list,
    0x78: _Map,
}


def _float(data: bytes) -> float:
    # The shortest digits that mean this number: 1.1, and not 1.100000023841858.
    return float(str(np.frombuffer(data, ">f4")[0]))


def _timestamp(data: bytes) -> datetime | int:
    milliseconds = _signed(data)
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds


def _character(data: bytes) -> _Symbol:
    return _Symbol(data.decode("utf-32-be"))


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _unsigned(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _boolean(data: bytes) -> bool:
    if data not in (b"\0", b"\1"):
        raise NotAmqp("a boolean is neither true nor false")
    return data == b"\1"


# Part 1, "Types", section 1.6: code -> octets, and what they mean.
_FIXED: Final[dict[int, tuple[int, Callable[[bytes], Value]]]] = {
    0x40: (0, lambda _: None),
    0x41: (0, lambda _: True),
    0x42: (0, lambda _: False),
    0x43: (0, lambda _: 0),
    0x44: (0, lambda _: 0),
    0x45: (0, lambda _: []),
    0x50: (1, _unsigned),
    0x51: (1, _signed),
    0x52: (1, _unsigned),
    0x53: (1, _unsigned),
    0x54: (1, _signed),
    0x55: (1, _signed),
    0x56: (1, _boolean),
    0x60: (2, _unsigned),
    0x61: (2, _signed),
    0x70: (4, _unsigned),
    0x71: (4, _signed),
    0x72: (4, _float),
    0x73: (4, _character),
    0x74: (4, _Opaque),
    0x80: (8, _unsigned),
    0x81: (8, _signed),
    0x82: (8, lambda data: float(struct.unpack(">d", data)[0])),
    0x83: (8, _timestamp),
    0x84: (8, _Opaque),
    0x94: (16, _Opaque),
    0x98: (16, lambda data: uuid.UUID(bytes=data)),
}
_VARIABLE: Final[dict[int, Callable[[bytes], Value]]] = {
    0xA0: bytes,
    0xA1: lambda data: data.decode(errors=_AS_THEY_ARE),
    0xA3: lambda data: _Symbol(data.decode("ascii")),
}
_LIST, _MAP, _ARRAY = 0xC0, 0xC1, 0xE0


class _Reader:
    """Reads values of ``data`` from ``at`` on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self._values_left = min(_MOST_VALUES, len(data) + _MOST_EXTRA)

    def value(self, depth: int = 0) -> Value:
        return self._of(self._take(1)[0], depth)

    def _of(self, code: int, depth: int) -> Value:
        """The value of this code; a described one has the code 0."""
        if depth > _DEEPEST:
            raise NotAmqp(f"it has values more than {_DEEPEST} deep in one another")
        self._count(1)
        try:
            if code == 0:
                descriptor = self.value(depth + 1)
                return _Described(descriptor, self.value(depth + 1))
            if code in _FIXED:
                size, meaning = _FIXED[code]
                return meaning(self._take(size))
            # The upper half says how wide sizes are, and the lower one which type it is.
            width = 1 if code & 0x10 == 0 else 4
            short = code & ~0x10
            if short in _VARIABLE:
                return _VARIABLE[short](self._take(self._number(width)))
            if short in (_LIST, _MAP, _ARRAY):
                return self._compound(short, width, depth + 1)
        except UnicodeDecodeError:
            raise NotAmqp("a text is not in its encoding") from None
        raise NotAmqp(f"it has a value of the unknown type 0x{code:02x}")

    def _compound(self, code: int, width: int, depth: int) -> Value:
        end = self._number(width) + self.at
        count = self._number(width)
        items = self._array(count, depth) if code == _ARRAY else [self.value(depth) for _ in range(count)]
        if self.at != end:
            raise NotAmqp("a list, map or array has another size than it says")
        if code != _MAP:
            return items
        if count % 2:
            raise NotAmqp("a map has a key without a value")
        return _Map(list(zip(items[::2], items[1::2], strict=True)))

    def _array(self, count: int, depth: int) -> list[Value]:
        begin, descriptors, code = self.at, list[Value](), self._take(1)[0]
        while code == 0:
            descriptors.append(self.value(depth))
            depth += 1
            code = self._take(1)[0]
        if not all(isinstance(descriptor, str | int) for descriptor in descriptors):
            raise NotAmqp("an array has a descriptor that is neither a symbol nor a number")
        self._count(count * (self.at - begin))
        items = [self._of(code, depth) for _ in range(count)]
        for descriptor in reversed(descriptors):
            items = [_Described(descriptor, item) for item in items]
        return items

    def _count(self, values: int) -> None:
        self._values_left -= values
        if self._values_left < 0:
            raise NotAmqp("it has too many values")

    def _number(self, width: int) -> int:
        return _unsigned(self._take(width))

    def _take(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise NotAmqp("it is cut off, or has a size that is too large")
        return self.data[begin : self.at]


# --- JSON


def _json(value: Value) -> bytes:
    return _encoded(_dumps(_plain(value)))


def _dumps(plain: object) -> str:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotAmqp("a text is not in its encoding") from None


def _plain(value: Value) -> object:
    """The value as ``json`` writes it."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bytes():
            return base64.b64encode(value).decode()
        case uuid.UUID():
            return str(value)
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case _Described(descriptor, described):
            return {"descriptor": _plain(descriptor), "value": _plain(described)}
        case _Map(pairs):
            keys = [key for key, _ in pairs]
            if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
                return {str(key): _plain(one) for key, one in pairs}
            return [[_plain(key), _plain(one)] for key, one in pairs]
        case list():
            return [_plain(item) for item in value]
    return value
