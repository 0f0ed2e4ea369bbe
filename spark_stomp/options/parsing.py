"""From Spark's mapping of texts to the frozen dataclasses, with every problem reported together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from spark_stomp.errors import OptionError
from spark_stomp.options.fields import Scope, filled
from spark_stomp.options.raw_options import RawOptions, misplaced
from spark_stomp.options.rules import contradictions, notes
from spark_stomp.options.sink_options import SinkOptions
from spark_stomp.options.source_options import SourceOptions

_TABLE: Final = (
    "a table keeps no options: name them in each statement, FROM name WITH (url = '...', "
    "destination = '...'), or use CREATE TEMPORARY VIEW name USING stomp OPTIONS (...)"
)


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


def check_read(options: Mapping[str, str]) -> None:
    """Refuse, at ``load()``, what no read can take: Spark does not tell there whether it is a stream.

    Spark calls it for a temporary view too, whose options may be those of a write (INSERT INTO).

    Raises:
        OptionError: as :func:`parse_source_options`.
    """
    if "provider" in (keys := {key.lower() for key in options}):  # CREATE TABLE without columns
        if any(key.startswith("option.") for key in keys):
            raise OptionError(_TABLE)
        return
    stream, batch = _problems(options, "source"), _problems(options, "batch")
    if stream and batch and not _is_for_a_write(options):
        raise OptionError(_of_either(options, stream, batch))


def _is_for_a_write(options: Mapping[str, str]) -> bool:
    of_writes_only = misplaced(options, "source") & misplaced(options, "batch")
    keys = {key.lower() for key in options}
    return bool(of_writes_only and keys & {"destination", "path"} and not _problems(options, "sink"))


def _of_either(
    options: Mapping[str, str], stream: tuple[str, ...], batch: tuple[str, ...]
) -> tuple[str, ...]:
    """The problems of the kind of read that the options are for; of both kinds if there are options of both.
    If they do not tell: those of a stream, each with what a batch read has to add to it."""
    not_of_stream, not_of_batch = len(misplaced(options, "source")), len(misplaced(options, "batch"))
    if not_of_stream != not_of_batch:
        return batch if not_of_stream > not_of_batch else stream
    if not_of_stream:
        return tuple(dict.fromkeys(stream + batch))
    return tuple(next((other for other in batch if other.startswith(one)), one) for one in stream)


def _problems(options: Mapping[str, str], scope: Scope) -> tuple[str, ...]:
    try:
        parse_sink_options(options) if scope == "sink" else _source_options(options, scope)
    except OptionError as error:
        return error.problems
    return ()


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
    if raw.empty:
        problems.append(_TABLE)
    if problems:
        raise OptionError(problems)


def _default_prefetch(options: SourceOptions) -> int:
    """Room for two batches, one being processed and one arriving.

    A minimum without a maximum counts like a maximum: with a smaller prefetch it could never be met.
    """
    most, least = options.max_messages_per_trigger, options.min_messages_per_trigger
    return 2 * most if most is not None else max(options.prefetch, 2 * (least or 0))
