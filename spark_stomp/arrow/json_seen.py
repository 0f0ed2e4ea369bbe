"""What JSON bodies have at each place: kinds of values, and the type that has all of them exactly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final

import pyarrow as pa

from spark_stomp.arrow.json_rows import Unfit, checked, parse
from spark_stomp.arrow.json_values import (
    TIME,
    Leaf,
    Whole,
    decimal_digits,
    finds_names,
    fits_variant,
    kind_of,
    leaf_of,
)

DEEPEST: Final = 25
"""Lists and objects in one another that are looked at. A client of Spark Connect reads a type of up to 32
objects (PySpark 4.3.0)."""

_MOST_DIGITS: Final = 38
_TIMESTAMP: Final = leaf_of(pa.timestamp("us", tz="UTC"), "")
# With spark.sql.timestampType=TIMESTAMP_NTZ a TIMESTAMP would have no zone.
_LTZ: Final = "TIMESTAMP_LTZ"
# The first that has every value is taken.
_LEAVES: Final = (
    _TIMESTAMP,
    *(leaf_of(data_type, "") for data_type in (pa.timestamp("us"), pa.date32(), pa.string())),
    *(leaf_of(data_type, "") for data_type in (pa.bool_(), pa.int64(), pa.float64())),
)


@dataclass(slots=True, eq=False)
class Place:
    """The values at one place of the bodies: of a field, or of the elements of a list.

    Attributes:
        kinds: how many values are of each kind, by the class that the parser has for it.
        fields: what the fields of the objects are.
        elements: what the elements of the lists are; None if no list has one.
        moved: whether a time has another zone than UTC.
        deep: whether lists and objects are too deep to be looked at.
    """

    kinds: Counter[type] = field(default_factory=Counter)
    fields: dict[str, Place] = field(default_factory=dict)
    elements: Place | None = None
    moved: bool = False
    deep: bool = False
    _in_variant: bool = True  # a VARIANT has what is no part of a field or an element
    _leaves: tuple[Leaf, ...] = _LEAVES
    _in_decimal: bool = True
    _before: int = 0
    _after: int = 0

    def add(self, value: object, levels: int = DEEPEST) -> None:
        """Look at a value of a document, and at so many levels of its parts."""
        self.kinds[type(value)] += 1
        if value is None:
            return
        if not isinstance(value, (dict, list)):
            self._add_leaf(value)
        elif not levels:
            self.deep = True
            self._in_variant &= fits_variant(value)
        elif isinstance(value, dict):
            self._in_variant &= finds_names(value)
            for name, one in value.items():
                self._field(name).add(one, levels - 1)
        else:
            for one in value:
                self._element().add(one, levels - 1)

    def join(self, other: Place) -> None:
        """Take over what another place has."""
        self.kinds += other.kinds
        for name, place in other.fields.items():
            self._field(name).join(place)
        if other.elements is not None:
            self._element().join(other.elements)
        self.moved |= other.moved
        self.deep |= other.deep
        self._in_variant &= other._in_variant
        self._leaves = tuple(leaf for leaf in self._leaves if leaf in other._leaves)
        self._in_decimal &= other._in_decimal
        self._before, self._after = max(self._before, other._before), max(self._after, other._after)

    def in_variant(self) -> bool:
        """Whether a VARIANT has every value exactly."""
        parts = [*self.fields.values(), *filter(None, [self.elements])]
        return self._in_variant and all(part.in_variant() for part in parts)

    def leaf(self) -> str | None:
        """The first type that has every value exactly, as Spark writes it; None if none has."""
        if self.kinds.keys() & {dict, list}:
            return None
        names = [_LTZ if leaf is _TIMESTAMP else leaf.name.upper() for leaf in self._leaves]
        digits = self._before + self._after
        if self._in_decimal and digits <= _MOST_DIGITS:
            # Whole numbers beyond BIGINT are ids sooner than measurements.
            whole = self.kinds.keys() <= {Whole, NoneType}
            names.insert(
                names.count("BIGINT") if whole else len(names), f"DECIMAL({digits or 1},{self._after})"
            )
        return names[0] if names else None

    def _field(self, name: str) -> Place:
        if (found := self.fields.get(name)) is None:
            found = self.fields[name] = Place()
        return found

    def _element(self) -> Place:
        if self.elements is None:
            self.elements = Place()
        return self.elements

    def _add_leaf(self, value: Any) -> None:
        self._in_variant &= fits_variant(value)
        if any(leaf.read(value) is None for leaf in self._leaves):
            self._leaves = tuple(leaf for leaf in self._leaves if leaf.read(value) is not None)
        parts = decimal_digits(value)
        if parts is None:
            self._in_decimal = False
        else:
            self._before, self._after = max(self._before, len(parts[0])), max(self._after, len(parts[1]))
        if _TIMESTAMP in self._leaves and (time := TIME.fullmatch(value)):
            self.moved |= {*time.group(8, 9)} - {None, "00"} != set()


class Seen:
    """All bodies that were seen.

    Attributes:
        objects: the bodies that are an object.
        lists: the bodies that are a list of objects.
        unfit: how many others there are, by the reason.
    """

    def __init__(self) -> None:
        self.objects, self.lists = Place(), Place()
        self.unfit: Counter[str] = Counter()

    def add(self, body: bytes | str | None) -> None:
        """Look at a body, a text or octets in UTF-8."""
        try:
            document = checked(parse(body), in_lists=True)
            elements = document if isinstance(document, list) else [document]
            for one in elements:
                if not isinstance(one, dict):
                    where = "the body is" if one is document else "the list has"
                    raise Unfit(f"{where} {kind_of(one)}, fields were expected")
            (self.lists if elements is document else self.objects).add(document)
        except Unfit as unfit:
            self.unfit[str(unfit)] += 1
