"""Options as fields of dataclasses: how to declare one on the field that it fills, and how to fill a class.

::

    @dataclass(frozen=True, kw_only=True)
    class SinkOptions:
        receipt_timeout: float = SINK.option("receiptTimeout", TIMEOUT, "30s")

The docstring below the field says what the option is for, in one or two sentences for docs/reference.md. The
field has no Python default: code that makes a ``SinkOptions`` must give it a value.
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
        key: its name, in camelCase.
        scopes: who takes it: ``source`` (``readStream``), ``batch`` (``read``), ``sink`` (``write`` and
            ``writeStream``).
        kind: what values it has, and how its text is parsed.
        default: text as a user would write it, or None.
        note: the default in docs/reference.md, if it depends on other options.
        missing: what to do if a required option is not given; empty if the option is not required.
        secret: whether its value is kept out of errors and of the ``repr``.
        in_repr: False keeps the value out of the ``repr``, but not out of errors.
    """

    key: str
    scopes: frozenset[Scope]
    kind: Kind[Any]
    default: str | None
    note: str = ""
    missing: str = ""
    secret: bool = False
    in_repr: bool = True

    @property
    def default_value(self) -> Any:
        """The parsed default, or None. An empty tuple for a required option: all of these are lists."""
        if self.missing:
            return ()
        return None if self.default is None else self.kind.parse(self.default)


@dataclass(frozen=True)
class Takers:
    """Who takes an option. The methods declare the field that it fills; ``more`` goes to :class:`Option`."""

    scopes: frozenset[Scope]

    def required(self, key: str, kind: Kind[T], missing: str) -> T:
        """A field whose option must be given; ``missing`` tells the user what to do."""
        return cast("T", self._field(key, kind, None, note="required", missing=missing))

    def option(self, key: str, kind: Kind[T], default: str, **more: Any) -> T:
        """A field that always has a value."""
        return cast("T", self._field(key, kind, default, **more))

    def optional(self, key: str, kind: Kind[T], **more: Any) -> T | None:
        """A field that is None unless its option is given."""
        return cast("T | None", self._field(key, kind, None, **more))

    def _field(self, key: str, kind: Kind[T], default: str | None, **more: Any) -> Any:
        declared = Option(key, self.scopes, kind, default, **more)
        return field(metadata={"option": declared}, repr=declared.in_repr and not declared.secret)


SOURCE: Final = Takers(frozenset({"source"}))
BATCH: Final = Takers(frozenset({"batch"}))
SINK: Final = Takers(frozenset({"sink"}))
READS: Final = Takers(SOURCE.scopes | BATCH.scopes)
STREAMS_AND_WRITES: Final = Takers(SOURCE.scopes | SINK.scopes)
EVERYWHERE: Final = Takers(READS.scopes | SINK.scopes)


def group(cls: type[T]) -> T:
    """A field that holds the options of another class."""
    return cast("T", field(metadata={"group": cls}))


def options_of(cls: type[Any]) -> Iterator[Option]:
    """The options of ``cls`` and of the groups in it, in order."""
    for part in fields(cls):
        if "group" in part.metadata:
            yield from options_of(part.metadata["group"])
        elif "option" in part.metadata:
            yield part.metadata["option"]


def filled(cls: type[T], value_of: Callable[[Option], object], **others: object) -> T:
    """A new ``cls``. ``value_of`` returns the value of an option; ``others`` are the other fields."""
    values: dict[str, object] = {}
    for part in fields(cast("Any", cls)):
        if "group" in part.metadata:
            values[part.name] = filled(part.metadata["group"], value_of)
        elif "option" in part.metadata:
            values[part.name] = value_of(part.metadata["option"])
    return cls(**values, **others)
