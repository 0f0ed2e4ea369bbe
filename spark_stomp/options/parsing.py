"""From Spark's mapping of texts to the frozen dataclasses, with every problem reported together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spark_stomp.errors import OptionError
from spark_stomp.options.fields import Scope, filled
from spark_stomp.options.raw_options import RawOptions
from spark_stomp.options.rules import contradictions, notes
from spark_stomp.options.sink_options import SinkOptions
from spark_stomp.options.source_options import SourceOptions


def parse_source_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a stream read.

    Raises:
        OptionError: with all problems: unknown, malformed, missing, contradictory, not available.
    """
    return _source_options(options, "source")


def parse_batch_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a batch read; options that only streams have are at their defaults.

    Raises:
        OptionError: as :func:`parse_source_options`.
    """
    return _source_options(options, "batch")


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a stream or batch write.

    Raises:
        OptionError: as :func:`parse_source_options`.
    """
    raw = RawOptions(options, "sink")
    parsed = filled(SinkOptions, raw.__getitem__, notes=())
    _refuse(raw, parsed)
    return replace(parsed, notes=tuple(notes(parsed)))


def _source_options(options: Mapping[str, str], scope: Scope) -> SourceOptions:
    raw = RawOptions(options, scope)
    parsed = filled(SourceOptions, raw.__getitem__, capped="maxMessages" in raw, notes=())
    _refuse(raw, parsed)
    if "prefetch" not in raw:
        parsed = replace(parsed, prefetch=_default_prefetch(parsed))
    return replace(parsed, notes=tuple(notes(parsed)))


def _refuse(raw: RawOptions, parsed: SourceOptions | SinkOptions) -> None:
    problems = [*raw.problems, *contradictions(raw, parsed)]
    if problems:
        raise OptionError(problems)


def _default_prefetch(options: SourceOptions) -> int:
    """Room for two batches, one being processed and one arriving.

    A minimum without a maximum counts like a maximum: with a smaller prefetch it could never be met.
    """
    most, least = options.max_messages_per_trigger, options.min_messages_per_trigger
    return 2 * most if most is not None else max(options.prefetch, 2 * (least or 0))
