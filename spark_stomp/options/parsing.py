"""Parses Spark's mapping of texts into the frozen dataclasses. All problems are reported in one error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from spark_stomp.brokers.rabbitmq import declares_stream
from spark_stomp.errors import OptionError
from spark_stomp.options.endpoint import ENDPOINTS, redacted
from spark_stomp.options.fields import Option, Scope, filled, options_of
from spark_stomp.options.kinds import KEY_FILE, PASSWORD_FILE, PEM, StreamPositions, has_private_key
from spark_stomp.options.other_names import nearest, remedy
from spark_stomp.options.rules import contradictions, notes
from spark_stomp.options.sink_options import SinkOptions
from spark_stomp.options.source_options import MOST_CONNECTIONS, SourceOptions

Parsed = TypeVar("Parsed", SourceOptions, SinkOptions)

OPTIONS: Final = tuple(dict.fromkeys((*options_of(SourceOptions), *options_of(SinkOptions))))
"""All options, in the order in which they are documented."""

_PLACES: Final[dict[Scope, str]] = {
    "source": "stream reads (readStream)",
    "batch": "batch reads (read)",
    "sink": "writes",
}
# Bytes that a task of a batch read may hold. An executor may run many tasks.
_READ_AHEAD: Final = 32 << 20
_TABLE: Final = (
    "a table keeps no options: name them in each statement, FROM name WITH (url = '...', "
    "destination = '...'), or use CREATE TEMPORARY VIEW name USING stomp OPTIONS (...)"
)


def parse_source_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a stream read.

    Raises:
        OptionError: lists all problems: options that are unknown, malformed, missing or contradictory.
    """
    return _source_options(options, "source")


def parse_batch_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a batch read. Options that only streams take have their defaults.

    Raises:
        OptionError: lists all problems: options that are unknown, malformed, missing or contradictory.
    """
    return _source_options(options, "batch")


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a stream or batch write.

    Raises:
        OptionError: lists all problems: options that are unknown, malformed, missing or contradictory.
    """
    texts = _Texts(options, "sink")
    parsed = filled(SinkOptions, texts.value_of, notes=(), given_texts=texts.given_texts)
    # It names a durable subscription, and at some brokers one connection at a time may have it: that of the
    # source, if both have the same options.
    parsed = replace(parsed, connection=replace(parsed.connection, client_id=None))
    return _checked(texts, parsed)


def _source_options(options: Mapping[str, str], scope: Scope) -> SourceOptions:
    texts = _Texts(options, scope)
    capped = "maxMessages" in texts.given
    parsed = filled(SourceOptions, texts.value_of, capped=capped, notes=(), given_texts=texts.given_texts)
    if scope == "batch" and "maxBufferedBytes" not in texts.given:
        parsed = replace(parsed, max_buffered_bytes=_READ_AHEAD)
    if parsed.starting_offsets or parsed.ending_offsets or declares_stream(parsed.subscribe_headers):
        parsed = _with_positions(parsed, scope)
    if parsed.queues and "prefetch" not in texts.given:
        parsed = replace(parsed, prefetch=_default_prefetch(parsed))
    if not parsed.queues:
        parsed = replace(parsed, connections=max(1, len(parsed.streams)))
    elif "connections" not in texts.given:
        # Some brokers allow only one connection at a time with the same client id.
        most = MOST_CONNECTIONS if parsed.connection.client_id is None else 1
        parsed = replace(parsed, connections=min(len(parsed.queues), most))
    return _checked(texts, parsed)


def _with_positions(options: SourceOptions, scope: Scope) -> SourceOptions:
    """The options of a read of streams, with the defaults of Spark's Kafka source."""
    earliest, latest = StreamPositions("earliest"), StreamPositions("latest")
    is_batch = scope == "batch"
    return replace(
        options,
        starting_offsets=options.starting_offsets or (earliest if is_batch else latest),
        ending_offsets=(options.ending_offsets or latest) if is_batch else None,
    )


def _checked(texts: _Texts, parsed: Parsed) -> Parsed:
    problems = [*texts.problems, *contradictions(texts.given, parsed)]
    if problems:
        raise OptionError(problems)
    return replace(parsed, notes=tuple(notes(parsed)))


def _default_prefetch(options: SourceOptions) -> int:
    """Messages for two batches: one that Spark processes, and one that arrives meanwhile.

    A minimum without a maximum counts as the size of a batch: a smaller prefetch could never reach it.
    """
    most, least = options.max_messages_per_trigger, options.min_messages_per_trigger
    return 2 * most if most is not None else max(options.prefetch, 2 * (least or 0))


def check_read(options: Mapping[str, str]) -> None:
    """Check the options at ``load()``, where Spark does not say whether the read is a stream or a batch.

    Accepts options of a stream read, of a batch read, or of a write: a temporary view may be written to with
    INSERT INTO.

    Raises:
        OptionError: the options fit none of them. It lists what is wrong for the kind of read that fits best.
    """
    if "provider" in (keys := {key.lower() for key in options}):  # CREATE TABLE without columns
        if any(key.startswith("option.") for key in keys):
            raise OptionError(_TABLE)
        return
    stream, batch = _problems(parse_source_options, options), _problems(parse_batch_options, options)
    if stream and batch and not _is_for_a_write(options):
        is_batch = len(_misplaced(options, "source")) > len(_misplaced(options, "batch"))
        raise OptionError(batch if is_batch else stream)


def reads_streams(options: Mapping[str, str]) -> bool:
    """Whether the options, of a stream read or a batch read, name streams of RabbitMQ."""
    for parse in (parse_source_options, parse_batch_options):
        with suppress(OptionError):
            return bool(parse(options).streams)
    return False


def _is_for_a_write(options: Mapping[str, str]) -> bool:
    of_writes_only = _misplaced(options, "source") & _misplaced(options, "batch")
    keys = {key.lower() for key in options}
    return bool(
        of_writes_only and keys & {"destination", "path"} and not _problems(parse_sink_options, options)
    )


def _problems(parse: Callable[[Mapping[str, str]], object], options: Mapping[str, str]) -> tuple[str, ...]:
    try:
        parse(options)
    except OptionError as error:
        return error.problems
    return ()


def _misplaced(options: Mapping[str, str], scope: Scope) -> set[str]:
    """The keys, in lower case, that are options of other scopes but not of this one."""
    elsewhere = {option.key.lower() for option in OPTIONS} - _keys(scope).keys()
    return elsewhere.intersection(key.lower() for key in options)


def _keys(scope: Scope) -> dict[str, Option]:
    """The options of a scope, by their keys in lower case, as Spark passes them."""
    return {option.key.lower(): option for option in OPTIONS if scope in option.scopes}


class _Texts:
    """The texts that Spark passed, parsed for one scope.

    Attributes:
        given: the keys of the options of this scope that were given, well-formed or not.
        problems: what is wrong with single options.
        given_texts: each option that was given, with its text, or None in place of what may be a secret.
    """

    def __init__(self, options: Mapping[str, str], scope: Scope) -> None:
        self.problems: list[str] = []
        self._scope = scope
        self._known = _keys(scope)
        raw = self._with_path({key.lower(): value for key, value in options.items()})
        self.given = frozenset(option.key for key, option in self._known.items() if key in raw)
        self.given_texts = tuple(
            (option.key, _text_to_show(option, raw[key])) for key, option in self._known.items() if key in raw
        )
        self._values = {option.key: self._read(option, raw.get(key)) for key, option in self._known.items()}
        self.problems.extend(self._unknown(key) for key in sorted(raw.keys() - self._known.keys()))
        if not raw:
            self.problems.append(_TABLE)

    def value_of(self, option: Option) -> object:
        """The parsed value, or the default if the option is absent, malformed or of another scope."""
        return self._values.get(option.key, option.default_value)

    def _with_path(self, raw: dict[str, str]) -> dict[str, str]:
        """Rename ``path`` (from ``load(x)``, ``save(x)``) and ``paths`` (``load([x, y])``) to destination."""
        for alias in ("path", "paths"):
            path = raw.pop(alias, None)
            if path is not None and raw.setdefault("destination", path) != path:
                self.problems.append(
                    f"{alias} = {_safe(path)!r} and destination = {_safe(raw['destination'])!r} contradict "
                    "each other; give only one of them"
                )
        return raw

    def _read(self, option: Option, raw: str | None) -> object:
        if raw is None:
            if option.missing:
                self.problems.append(f"{option.key} is required: {option.missing}")
            return option.default_value
        try:
            # A text that was read from a file may begin with a byte order mark.
            return option.kind.parse(raw.removeprefix("\ufeff"))
        except ValueError as error:
            self.problems.append(f"{_shown(option, raw)} {_safe(str(error))}")
            return option.default_value

    def _unknown(self, key: str) -> str:
        known = remedy(key, self._scope)
        elsewhere = [option for option in OPTIONS if option.key.lower() == key]
        if elsewhere:
            where = f"{_where(elsewhere)}, not of {_PLACES[self._scope]}"
            return f"{elsewhere[0].key} is an option of {where}{f': {known}' if known else ''}"
        # The value is not shown: it may be a secret.
        if known:
            return f"{key} is not an option: {known}"
        if meant := nearest(key, (option.key for option in self._known.values())):
            return f"{key} is not an option; did you mean {meant}?"
        meant = nearest(key, (option.key for option in OPTIONS))
        of = _where([option for option in OPTIONS if option.key == meant])
        return f"{key} is not an option" + (f"; did you mean {meant}, of {of}?" if meant else "")


def _shown(option: Option, raw: str) -> str:
    """The option with its value, or its key alone if the value may be a secret."""
    if option.secret or not option.kind.shown or has_private_key(raw):
        return option.key
    shown = redacted(raw) if option.kind is ENDPOINTS else _safe(raw)
    return f"{option.key} = {shown!r}"


def _text_to_show(option: Option, raw: str) -> str | None:
    """The text of an option for the status; None if it may be a secret, or leads nowhere elsewhere."""
    # A URI may have a secret, a path of this machine has none.
    may_be_path = option.kind in (PEM, KEY_FILE, PASSWORD_FILE) or not option.in_repr
    is_path = may_be_path and raw.startswith("/")
    hidden = option.secret or not (is_path or (option.in_repr and option.kind.shown))
    in_url = option.kind is ENDPOINTS and redacted(raw) != raw
    return None if hidden or in_url or has_private_key(raw) else raw


def _safe(raw: str) -> str:
    """``raw``, redacted if it may be an address that was given to the wrong option."""
    return redacted(raw) if "@" in raw or "://" in raw else raw


def _where(options: list[Option]) -> str:
    scopes = {scope for option in options for scope in option.scopes}
    return " and ".join(words for scope, words in _PLACES.items() if scope in scopes)
