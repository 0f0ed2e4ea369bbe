"""The schema that loses nothing of the JSON bodies that were seen, as ``peek --schema`` prints it.

It is a call in Python, to be pasted. Names that a producer chose leave neither its literal nor a comment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Final, NamedTuple

from spark_stomp.arrow.json_seen import DEEPEST, Place, Seen
from spark_stomp.arrow.json_values import KINDS, Fraction, Whole
from spark_stomp.quoting import counted, listed, shown

_BEGIN: Final = "message_id STRING, destination STRING, headers MAP<STRING, STRING>,"
_END: Final = "rescued BINARY, malformed STRING"
_GUESS: Final = "so STRING is a guess"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# An object of more names is a map if most of them are in few objects, as ids are.
_MOST_NAMES: Final = 100
_MOST_REASONS: Final = 10


class NoType(Exception):
    """Why a place has no type."""


class _Line(NamedTuple):
    """A line of the schema, and the comment behind it; only a comment if it has no text."""

    text: str
    remark: str = ""
    level: int = 0


def schema_call(seen: Seen, where: str) -> str:
    """The call ``.schema(...)`` for a query that loses nothing of what was seen ``where``.

    Raises NoType: the bodies have no field that has a type.
    """
    objects, lists = seen.objects.kinds[dict], seen.lists.kinds[list]
    unfit = Counter(seen.unfit)
    if not objects and not lists:
        found = "; ".join(_reasons(unfit))
        raise NoType(
            f"no body of {shown(where)} is a JSON object or a list of them" + f": {found}" * bool(found)
        )
    in_lists = lists > objects
    if in_lists:
        unfit["the body is an object, a list was expected"] += objects
    else:
        unfit["the body is a list, fields were expected"] += lists
    try:
        body = _list(seen.lists, _struct) if in_lists else _struct(seen.objects)
    except NoType as reason:
        raise NoType(f"the bodies of {shown(where)} are {reason}") from None
    body[0] = body[0]._replace(text=f"body {body[0].text}")
    body[-1] = body[-1]._replace(text=f"{body[-1].text},")
    lines = [_Line(_BEGIN), *_counts(+unfit, max(objects, lists), where), *body, _Line(_END)]
    return "".join(['.schema("""\n', *(f"  {_literal(one)}\n" for one in lines), '""")\n'])


def _counts(unfit: Counter[str], fit: int, where: str) -> Iterator[_Line]:
    bad = unfit.total()
    begin = f"from {fit:,} of {fit + bad:,} messages" if bad else f"from {counted(fit, 'message')}"
    yield _Line("", f"{begin} of {shown(where)}{'. The others are rescued:' if bad else ''}")
    yield from (_Line("", f"  {reason}") for reason in _reasons(unfit))


def _reasons(unfit: Counter[str]) -> Iterator[str]:
    """How many bodies do not fit, for each of the commonest reasons."""
    common = unfit.most_common(_MOST_REASONS)
    yield from (f"{count:,}: {shown(reason, 200)}" for reason, count in common)
    if rest := unfit.total() - sum(count for _, count in common):
        yield f"{rest:,}: other reasons"


def _literal(line: _Line) -> str:
    """The line as Python has it between three quotation marks."""
    comment = f"-- {line.remark}" if line.remark else ""
    text = "  " * line.level + "  ".join(filter(None, (line.text, comment)))
    return shown(text.replace("\\", "\\\\").replace('"', '\\"'), 2 * len(text))


# --- types: the lines of each. The first and the last one have a text.


def _type(place: Place) -> list[_Line]:
    """VARIANT, which says least, if no other type has every value, and left out if that has not."""
    try:
        return _narrow_type(place)
    except NoType as reason:
        if not place.in_variant():
            raise
        return [_Line("VARIANT", str(reason))]


def _narrow_type(place: Place) -> list[_Line]:
    kinds = place.kinds.keys() - {NoneType}
    if not kinds:
        return [_Line("STRING", f"never a value, {_GUESS}")]
    if place.deep:
        raise NoType(f"more than {DEEPEST} lists and objects in one another")
    if kinds == {dict}:
        return _object(place)
    if kinds == {list}:
        return _list(place)
    return _leaf(place)


def _leaf(place: Place) -> list[_Line]:
    name = place.leaf()
    kinds = {Whole if kind is Fraction else kind for kind in place.kinds} - {NoneType}
    if name is None:
        raise NoType(_kinds(place) if kinds != {Whole} else "numbers that no numeric type has exactly")
    if len(kinds) > 1:
        return [_Line(name, _kinds(place))]
    return [_Line(name, "the moment, not the zone" if place.moved and name == "TIMESTAMP_LTZ" else "")]


def _object(place: Place) -> list[_Line]:
    fields = place.fields.values()
    if not fields:
        return [_Line("MAP<STRING, STRING>", f"never a field, {_GUESS}")]
    present = sum(field.kinds.total() for field in fields)
    if len(fields) > _MOST_NAMES and 2 * present < len(fields) * place.kinds[dict]:
        values = Place()
        for field in fields:
            values.join(field)
        try:
            return _around("MAP<STRING, ", _narrow_type(values), _nulls(values, "values"))
        except NoType:
            pass
    return _struct(place)


def _list(place: Place, element: Callable[[Place], list[_Line]] = _type) -> list[_Line]:
    if place.elements is None:
        return [_Line("ARRAY<STRING>", f"never an element, {_GUESS}")]
    try:
        return _around("ARRAY<", element(place.elements), _nulls(place.elements, "elements"))
    except NoType as reason:
        raise NoType(f"a list of {reason}") from None


def _around(begin: str, lines: list[_Line], remark: str = "") -> list[_Line]:
    first = lines[0]
    lines[0] = first._replace(text=begin + first.text, remark=_joined(remark, first.remark))
    lines[-1] = lines[-1]._replace(text=f"{lines[-1].text}>")
    return lines


def _struct(place: Place) -> list[_Line]:
    lines: list[_Line] = []
    left_out: list[str] = []
    last = None
    named: dict[str, list[str]] = {}
    for name in place.fields:
        named.setdefault(name.lower(), []).append(name)
    for name, field in place.fields.items():
        try:
            found = _type(field)
        except NoType as reason:
            left_out.append(f"`{shown(name)}`: {reason}")
            lines.append(_Line("", f"`{shown(name)}` is left out: {reason}. Bodies with it are rescued"))
            continue
        if last is not None:
            lines[last] = lines[last]._replace(text=f"{lines[last].text},")
        twins = _twins(name, named[name.lower()])
        remark = _joined(_absent(field, place.kinds[dict]), twins, found[0].remark)
        found[0] = found[0]._replace(text=f"{_name(name)}: {found[0].text}", remark=remark)
        lines += found
        last = len(lines) - 1
    if last is None:
        raise NoType(f"objects of {listed(left_out)}" if left_out else "objects without fields")
    return [_Line("STRUCT<"), *(line._replace(level=line.level + 1) for line in lines), _Line(">")]


# --- names and comments


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _twins(name: str, named: list[str]) -> str:
    """What to say of a name that Spark does not tell from another one."""
    others = [f"`{shown(other)}`" for other in named if other != name]
    return f"differs from {listed(others)} only in case: set spark.sql.caseSensitive=true" if others else ""


def _absent(field: Place, objects: int) -> str:
    counts = {"missing": objects - field.kinds.total(), "null": field.kinds[NoneType]}
    parts = [f"{word} in {count:,}" for word, count in counts.items() if count]
    return f"{' and '.join(parts)} of {objects:,}" if parts else ""


def _nulls(place: Place, what: str) -> str:
    nulls = place.kinds[NoneType]
    return f"null in {nulls:,} of {place.kinds.total():,} {what}" if nulls else ""


def _kinds(place: Place) -> str:
    """How many values are of each kind."""
    found = [(KINDS[kind], count) for kind, count in place.kinds.most_common() if kind is not NoneType]
    return ", ".join(counted(count, kind.partition(" ")[2]) for kind, count in found)


def _joined(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))
