"""The options as Spark gave them: known or not, well-formed or not, in their place or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from spark_stomp.options.definitions import OPTIONS
from spark_stomp.options.endpoint import ENDPOINTS, without_credentials
from spark_stomp.options.fields import Option, Scope
from spark_stomp.options.kinds import has_private_key
from spark_stomp.options.other_names import nearest, remedy

_PLACES: Final[dict[Scope, str]] = {
    "source": "stream reads (readStream)",
    "batch": "batch reads (read)",
    "sink": "writes",
}


class RawOptions:
    """The values of all options of one scope; ``problems`` lists what is wrong with the texts.

    ``raw[option]`` is the parsed value, or the default if it is absent, malformed or of another scope.
    ``key in raw`` is whether it was given, well-formed or not.
    """

    def __init__(self, options: Mapping[str, str], scope: Scope) -> None:
        self.scope = scope
        self.problems: list[str] = []
        self._known = {option.key.lower(): option for option in OPTIONS if scope in option.scopes}
        self._raw = self._with_path({key.lower(): value for key, value in options.items()})
        self._values = {option.key: self._read(option) for option in self._known.values()}
        self.problems.extend(self._unknown())

    @property
    def empty(self) -> bool:
        """Whether there are no options at all."""
        return not self._raw

    def __contains__(self, key: str) -> bool:
        return self.takes(key) and key.lower() in self._raw

    def __getitem__(self, option: Option) -> object:
        return self._values[option.key] if self.takes(option.key) else option.default_value

    def takes(self, key: str) -> bool:
        """Whether the scope has an option ``key``."""
        return key.lower() in self._known

    def _with_path(self, raw: dict[str, str]) -> dict[str, str]:
        """Move ``path`` (from ``load(x)`` and ``save(x)``) and ``paths`` (from ``load([x, y])``) over."""
        for alias in ("path", "paths"):
            path = raw.pop(alias, None)
            if path is not None and raw.setdefault("destination", path) != path:
                self.problems.append(
                    f"{alias} = {_safe(path)!r} and destination = {_safe(raw['destination'])!r} contradict "
                    "each other; give only one of them"
                )
        return raw

    def _read(self, option: Option) -> object:
        raw = self._raw.get(option.key.lower())
        if raw is None:
            if option.required:
                self.problems.append(f"{option.key} is required: {option.missing}")
            return option.default_value
        try:
            value: object = option.parse(raw)
        except ValueError as error:
            self.problems.append(f"{_shown(option, raw)} {_safe(str(error))}")
            return option.default_value
        if option.pending and value != option.default_value:
            self.problems.append(f"{option.key} {option.pending}")
        return value

    def _unknown(self) -> Iterator[str]:
        for key in sorted(self._raw.keys() - self._known.keys()):
            known = remedy(key, self.scope)
            elsewhere = [option for option in OPTIONS if option.key.lower() == key]
            if elsewhere:
                where = f"{_where(elsewhere)}, not of {_PLACES[self.scope]}"
                yield f"{elsewhere[0].key} is an option of {where}{f': {known}' if known else ''}"
            else:
                # The value is not shown: it may be a secret.
                yield f"{key} is no option{f': {known}' if known else self._suggestion(key)}"

    def _suggestion(self, key: str) -> str:
        found = nearest(key, (option.key for option in self._known.values()))
        return f"; did you mean {found}?" if found else ""


def misplaced(options: Mapping[str, str], scope: Scope) -> set[str]:
    """The keys, in lower case, that are options of other scopes only."""
    here = {option.key.lower() for option in OPTIONS if scope in option.scopes}
    elsewhere = {option.key.lower() for option in OPTIONS} - here
    return elsewhere.intersection(key.lower() for key in options)


def _shown(option: Option, raw: str) -> str:
    """The option with its value, or without it if the value may be a secret."""
    if option.secret or not option.kind.shown or has_private_key(raw):
        return option.key
    shown = without_credentials(raw) if option.kind is ENDPOINTS else _safe(raw)
    return f"{option.key} = {shown!r}"


def _safe(raw: str) -> str:
    """``raw`` without credentials, if it may be an address that stands in the wrong place."""
    return without_credentials(raw) if "@" in raw or "://" in raw else raw


def _where(options: list[Option]) -> str:
    scopes = frozenset[Scope]().union(*(option.scopes for option in options))
    return " and ".join(words for scope, words in _PLACES.items() if scope in scopes)
