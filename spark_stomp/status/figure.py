"""One figure of the status, and the parts that figures make up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar, Final, TypeAlias

from spark_stomp.quoting import shown as short

Status: TypeAlias = Mapping[str, Any]
"""A status, or a part of it, as its file has it."""

VERSION: Final = 1
"""Of the document, and of the sink's part. Further keys do not change it."""

LARGEST_NUMBER: Final = 1 << 63
"""Numbers of a status are less: counts of bytes fit into 64 bits, and seconds do by far."""


@dataclass(eq=False)
class Figure:
    """What the status says under the name of a method, whose docstring is the meaning.

    It decorates that method of a :class:`Part`. ``metric`` is its name in Prometheus if that does not follow
    from the key. ``label`` is what the table of ``spark-stomp status`` calls it, which leaves out those
    without; ``trouble`` is shown there only if it is not 0, coloured. ``column`` makes it a column of the
    receivers: where there is no room, the highest go first. ``summed``: the totals have its sum over the
    receivers.
    """

    metric: str = ""
    label: str = ""
    trouble: bool = False
    column: int = 0
    summed: bool = False
    kind: ClassVar[str | None] = None
    key: str = field(init=False)
    meaning: str = field(init=False)
    _get: Callable[[Any], Any] = field(init=False)

    def __call__(self, get: Callable[[Any], Any]) -> Figure:
        self._get = get
        self.key = get.__name__
        self.meaning = " ".join((get.__doc__ or "").split())
        return self

    def of(self, part: Part) -> Any:
        """The value, as the document has it."""
        return self._get(part)

    @property
    def metric_name(self) -> str:
        return self.metric or self.key

    def number(self, value: Any) -> float:
        """A value of the document as Prometheus wants it; ValueError or OverflowError if it is none."""
        if not isinstance(value, int | float) or not -LARGEST_NUMBER < value < LARGEST_NUMBER:
            raise ValueError("no figure")
        return int(value) if isinstance(value, bool) else value


class Gauge(Figure):
    """A number, or a truth."""

    kind = "gauge"


class Counter(Figure):
    """A number that only grows within a run."""

    kind = "counter"

    @property
    def metric_name(self) -> str:
        return f"{super().metric_name}_total"

    def number(self, value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError("no count")
        return super().number(value)


class Time(Gauge):
    """Seconds since 1970; in the document ISO 8601 in UTC."""

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
    """Figures that stand together, and what they are taken from; metrics' names begin with ``prefix``."""

    prefix: ClassVar[str] = ""

    @classmethod
    def figures(cls) -> list[Figure]:
        return [figure for figure in vars(cls).values() if isinstance(figure, Figure)]

    def shown(self) -> dict[str, Any]:
        """This part of the document."""
        return {figure.key: figure.of(self) for figure in self.figures()}

    @classmethod
    def metric_of(cls, figure: Figure) -> str:
        return f"spark_stomp_{cls.prefix}{figure.metric_name}"

    @classmethod
    def numbers(cls, shown: Status) -> Iterator[tuple[Figure, float]]:
        """What is a metric and not null. ValueError if one is no number: whoever may write the file decides
        what is in it."""
        for figure in cls.figures():
            value = shown.get(figure.key)
            if figure.kind is None or value is None:
                continue
            try:
                number = figure.number(value)
            except (ValueError, OverflowError):
                raise ValueError(f"its {figure.key} is {short(repr(value), 40)}") from None
            yield figure, number

    @classmethod
    def check(cls, shown: Status) -> None:
        """ValueError if a figure is none."""
        for _ in cls.numbers(shown):
            pass


def iso(seconds: float) -> str:
    """A time, given in seconds since 1970, as the status shows it."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")


def moment(time: str) -> float:
    """A time of the status in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()
