"""Declares an option on the dataclass field that it fills, and fills such classes.

::

    @dataclass(frozen=True, kw_only=True)
    class SinkOptions:
        receipt_timeout: float = SINK.option("receiptTimeout", TIMEOUT, "30s", "Longest wait for a receipt.")

To Python the field has no default: code that makes a ``SinkOptions`` must give it a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeVar, cast

from spark_stomp.options.kinds import Kind

T = TypeVar("T")
Scope = Literal["source", "batch", "sink"]


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        scopes: who takes it: ``source`` (``readStream``), ``batch`` (``read``), ``sink`` (``write`` and
            ``writeStream``).
        default: text as a user would write it, or None.
        note: replaces the default in the documentation if it depends on other options.
        missing: what to do if it is absent and must be given; empty if it need not.
        secret: its value appears in no error and no ``repr``.
        in_repr: False keeps the value out of the ``repr`` only.
    """

    key: str
    scopes: frozenset[Scope]
    kind: Kind[Any]
    default: str | None
    meaning: str
    note: str = ""
    missing: str = ""
    secret: bool = False
    in_repr: bool = True

    @property
    def default_value(self) -> Any:
        """The parsed default, or None; an empty tuple if it must be given, as all such are lists."""
        if self.missing:
            return ()
        return None if self.default is None else self.kind.parse(self.default)


@dataclass(frozen=True)
class Takers:
    """Who takes an option; the methods declare the field that it fills. ``more`` as in :class:`Option`."""

    scopes: frozenset[Scope]

    def required(self, key: str, kind: Kind[T], meaning: str, missing: str) -> T:
        """A field whose option must be given."""
        return cast("T", self._field(key, kind, None, meaning, note="required", missing=missing))

    def option(self, key: str, kind: Kind[T], default: str, meaning: str, **more: Any) -> T:
        """A field that always has a value."""
        return cast("T", self._field(key, kind, default, meaning, **more))

    def optional(self, key: str, kind: Kind[T], meaning: str, **more: Any) -> T | None:
        """A field that is None unless its option is given."""
        return cast("T | None", self._field(key, kind, None, meaning, **more))

    def _field(self, key: str, kind: Kind[T], default: str | None, meaning: str, **more: Any) -> Any:
        declared = Option(key, self.scopes, kind, default, meaning, **more)
        return field(metadata={"option": declared}, repr=declared.in_repr and not declared.secret)


SOURCE: Final = Takers(frozenset({"source"}))
BATCH: Final = Takers(frozenset({"batch"}))
SINK: Final = Takers(frozenset({"sink"}))
READS: Final = Takers(SOURCE.scopes | BATCH.scopes)
EVERYWHERE: Final = Takers(READS.scopes | SINK.scopes)


def group(cls: type[T]) -> T:
    """A field that holds the options of another class."""
    return cast("T", field(metadata={"group": cls}))


def options_of(cls: type[Any]) -> Iterator[Option]:
    """The options that ``cls`` and the groups in it hold, in order."""
    for part in fields(cls):
        if "group" in part.metadata:
            yield from options_of(part.metadata["group"])
        elif "option" in part.metadata:
            yield part.metadata["option"]


def filled(cls: type[T], value_of: Callable[[Option], object], **others: object) -> T:
    """A ``cls`` whose options have the values that ``value_of`` gives; ``others`` are its other fields."""
    values: dict[str, object] = {}
    for part in fields(cast("Any", cls)):
        if "group" in part.metadata:
            values[part.name] = filled(part.metadata["group"], value_of)
        elif "option" in part.metadata:
            values[part.name] = value_of(part.metadata["option"])
    return cls(**values, **others)
