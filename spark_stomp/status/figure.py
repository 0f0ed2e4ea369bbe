"""The figures of the status, and the parts of the document that they make up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar, Final, TypeAlias

from spark_stomp.quoting import shown as short

Status: TypeAlias = Mapping[str, Any]
"""A status, or a part of it, as it is in its file."""

VERSION: Final = 1
"""The version of the document, and of the sink's part. New keys do not change it."""

LARGEST_NUMBER: Final = 1 << 63
"""All numbers of a status are below this, and above its negative: counts of bytes fit into 64 bits."""


@dataclass(eq=False)
class Figure:
    """One figure of the status. Decorates a method of a :class:`Part`.

    The method's name is the key, its docstring is the meaning, and what it returns is the value.

    - ``metric``: the name in Prometheus, if it does not follow from the key.
    - ``label``: the name in the table of ``spark-stomp status``. Without a label it is not in the table.
    - ``trouble``: the table shows it only if it is not 0, and in colour.
    - ``column``: its place among the columns of the receivers' table; 0 if it is no column. On a narrow
      terminal the columns with the highest numbers are left out.
    - ``summed``: the totals have its sum over all receivers.
    - ``passing``: it changes with time alone. Then a change is no reason to write the file.
    """

    metric: str = ""
    label: str = ""
    trouble: bool = False
    column: int = 0
    summed: bool = False
    passing: bool = False
    metric_type: ClassVar[str | None] = None
    key: str = field(init=False)
    meaning: str = field(init=False)
    get: Callable[[Any], Any] = field(init=False)

    def __call__(self, get: Callable[[Any], Any]) -> Figure:
        self.get = get
        self.key = get.__name__
        self.meaning = " ".join((get.__doc__ or "").split())
        return self

    def of(self, part: Part) -> Any:
        """The value of this figure in ``part``, as the status document shows it."""
        return self.get(part)

    @property
    def metric_name(self) -> str:
        return self.metric or self.key

    def number(self, value: Any) -> float:
        """A value of the document as a number for Prometheus.

        Raises ValueError or OverflowError if it is not a number in range.
        """
        if not isinstance(value, int | float) or not -LARGEST_NUMBER < value < LARGEST_NUMBER:
            raise ValueError("no figure")
        return int(value) if isinstance(value, bool) else value


class Gauge(Figure):
    """A number that may grow and shrink, or a boolean."""

    metric_type = "gauge"


class Counter(Figure):
    """A number that only grows within a run."""

    metric_type = "counter"

    @property
    def metric_name(self) -> str:
        return f"{super().metric_name}_total"

    def number(self, value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError("no count")
        return super().number(value)


class Word(Gauge):
    """One of a few words. Its metric is 1, and has the word as the label ``on``."""

    def number(self, value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError("no word")
        return 1


class Time(Gauge):
    """A time: seconds since 1970 in Prometheus, ISO 8601 in UTC in the document."""

    @property
    def metric_name(self) -> str:
        return f"{self.key.removesuffix('_at')}_timestamp_seconds"

    def of(self, part: Part) -> Any:
        value = super().of(part)
        return iso(value) if isinstance(value, float) else value

    def number(self, value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError("no time")
        return moment(value)


class Part:
    """A part of the status. A subclass holds the data, and declares the figures that are taken from it.

    The names of their metrics begin with ``spark_stomp_`` and ``prefix``.
    """

    prefix: ClassVar[str] = ""

    @classmethod
    def figures(cls) -> list[Figure]:
        return [figure for figure in vars(cls).values() if isinstance(figure, Figure)]

    def shown(self) -> dict[str, Any]:
        """This part of the status document: a mapping from the key of each figure to its value."""
        return {figure.key: figure.of(self) for figure in self.figures()}

    @classmethod
    def metric_of(cls, figure: Figure) -> str:
        return f"spark_stomp_{cls.prefix}{figure.metric_name}"

    @classmethod
    def numbers(cls, shown: Status) -> Iterator[tuple[Figure, float]]:
        """Yield each figure of ``shown`` that is a metric and not null, with its value as a number.

        Raises ValueError if a value is not a number: any program may have written the status file.
        """
        for figure in cls.figures():
            value = shown.get(figure.key)
            if figure.metric_type is None or value is None:
                continue
            try:
                number = figure.number(value)
            except (ValueError, OverflowError):
                raise ValueError(f"its {figure.key} is {short(repr(value), 40)}") from None
            yield figure, number

    @classmethod
    def check(cls, shown: Status) -> None:
        """Raise ValueError if a metric in ``shown`` is no number."""
        for _ in cls.numbers(shown):
            pass


def iso(seconds: float) -> str:
    """A time in seconds since 1970 as the status shows it: ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")


def moment(time: str) -> float:
    """The inverse of :func:`iso`: seconds since 1970. Raises ValueError if ``time`` is not ISO 8601."""
    return datetime.fromisoformat(time).timestamp()
