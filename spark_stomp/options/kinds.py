"""How the text of an option becomes a value: one :class:`Kind` for each kind of value.

Spark passes every option as text. ``parse`` of a kind returns the value, or raises :class:`ValueError` with
the reason; the caller adds the key and the text. ``allowed`` describes the values in
docs/reference.md, which explains its words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from spark_stomp.brokers.rabbitmq import stream_name
from spark_stomp.protocol.frames import HeaderPairs

T = TypeVar("T")
W = TypeVar("W", bound=str)
Names = tuple[str, ...]

_UNITS = {
    0.001: "ms msec msecs millisecond milliseconds",
    1.0: "s sec secs second seconds",
    60.0: "m min mins minute minutes",
    3600.0: "h hr hrs hour hours",
    86400.0: "d day days",
    604800.0: "week weeks",
}
_SECONDS = {unit: seconds for seconds, units in _UNITS.items() for unit in units.split()}
_DURATIONS = "500ms, 10s, 2m or 5 seconds"
# Seconds. Timeouts of Python's locks and sockets overflow at about three times this.
_LONGEST = 100 * 365 * 86400.0
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]*)"
_DURATION = re.compile(rf"(?:interval\s+)?{_PART}(?:\s+{_PART})*", re.ASCII)
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*(b|[kmgt]?(?:i?b)?)", re.ASCII | re.IGNORECASE)
_HOST_NAME = re.compile(r"(?=.*[a-z])[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00\r\n]")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of value: how to parse it, and how the documentation describes it.

    ``shown`` is False if the text can contain a secret. No error quotes such text.
    """

    parse: Callable[[str], T]
    allowed: str
    shown: bool = True


def _text(raw: str) -> str:
    if not raw.strip():
        raise ValueError("must not be empty")
    if "\x00" in raw:
        raise ValueError("must not contain a NUL")
    return raw


def _name(raw: str) -> str:
    if _UNPRINTABLE.search(_text(raw)):
        raise ValueError("must not contain a line break")
    return raw


def _file(raw: str) -> str:
    """The path or URI of a file. Only checks that it ends with a file name."""
    scheme, colon, rest = _name(raw).partition(":")
    path = raw
    if colon and "/" not in scheme:
        # The part of a URI after its authority, such as a bucket, and before its parameters.
        path = rest.partition("?")[0]
        path = path[2:].partition("/")[2] if path.startswith("//") else path
    if path.rpartition("/")[2] in ("", ".", ".."):
        raise ValueError("must name a file, such as /data/orders.json or s3://bucket/orders.json")
    return raw


def is_pem(value: str) -> bool:
    """Whether the value of an option is PEM text, and not the path of a PEM file."""
    return value.lstrip().startswith("-----BEGIN")


def _pem(raw: str) -> str:
    if not is_pem(raw):
        return _name(raw)
    if has_private_key(raw):
        raise ValueError("has the text of a private key, which Spark would show in plans; use tlsKeySecret")
    return _pem_text(raw)


def has_private_key(raw: str) -> bool:
    """Whether a text contains a private key in PEM."""
    return "PRIVATE KEY-----" in raw


def _key_file(raw: str) -> str:
    if is_pem(raw):
        raise ValueError("is PEM text, which Spark would show in plans; use tlsKeySecret")
    return _name(raw)


def _host_name(raw: str) -> str:
    # RFC 6066, section 3: no port, no address. The certificate of an address is found without this option.
    name = _name(raw).strip()
    try:
        encoded = name.encode("idna").decode()
    except UnicodeError:
        encoded = ""
    if not _HOST_NAME.fullmatch(encoded):
        raise ValueError("must be a host name alone, such as broker.example.com")
    return name


def _pem_text(raw: str) -> str:
    if not is_pem(raw):
        raise ValueError("must be PEM text, which begins with -----BEGIN; for a path use tlsKeyFile")
    if "-----END" not in raw or not raw.isascii():
        raise ValueError("is PEM text without an -----END line, or with characters other than ASCII")
    return raw


def _boolean(raw: str) -> bool:
    try:
        return {"true": True, "false": False}[raw.strip().lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def _duration(raw: str) -> float:
    """The seconds of a duration such as ``10s``, or as Spark writes it: ``interval 1 minute``."""
    text = raw.strip().lower()
    if _DURATION.fullmatch(text) is None:
        raise ValueError(f"is not a duration; write a number with a unit, such as {_DURATIONS}")
    parts = re.findall(_PART, text, re.ASCII)
    if len(parts) == 1 and not parts[0][1] and not float(parts[0][0]):
        return 0.0
    for _, unit in parts:
        if unit not in _SECONDS:
            what = f"has the unit {unit!r}" if unit else "needs a unit"
            raise ValueError(f"{what}; write ms, s, m, h or d, as in {_DURATIONS}")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST:
        raise ValueError("must be at most 100 years (36500d)")
    return seconds


def _timeout(raw: str) -> float:
    seconds = _duration(raw)
    if seconds == 0:
        raise ValueError("must be more than 0")
    return seconds


def _size(raw: str) -> int:
    match = _SIZE.fullmatch(raw.strip())
    if match is None:
        raise ValueError(
            "is not a size; write bytes, or a whole number with k, m, g or t, such as 64k or 256m"
        )
    size = int(match[1]) * _BYTES[match[2][:1].lower()]
    if size == 0:
        raise ValueError("must be more than 0")
    return size


def integer(least: int, most: int | None = None) -> Kind[int]:
    """Whole numbers from ``least`` to ``most``; None means no upper bound."""

    def parse(raw: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", raw.strip(), re.ASCII):
            raise ValueError("must be a whole number")
        if int(raw) < least:
            raise ValueError(f"must be at least {least}")
        if most is not None and int(raw) > most:
            raise ValueError(f"must be at most {most}")
        return int(raw)

    return Kind(parse, f"≥ {least}" if most is None else f"whole number, {least} to {most}")


def choice(*words: W) -> Kind[W]:
    """One of ``words``, in upper or lower case."""

    def parse(raw: str) -> W:
        for word in words:
            if word == raw.strip().lower():
                return word
        raise ValueError(f"must be one of {', '.join(words)}")

    return Kind(parse, ", ".join(f"`{word}`" for word in words))


def choices(*words: str) -> Kind[Names]:
    """A comma-separated list of some of ``words``, each at most once, best first."""
    one = choice(*words)

    def parse(raw: str) -> Names:
        return _distinct(one.parse(part) for part in raw.split(","))

    return Kind(parse, f"comma list of {one.allowed}")


def _heartbeat(raw: str) -> tuple[int, int]:
    parts = raw.split(",")
    if len(parts) > 2:
        raise ValueError("takes one or two durations: outgoing, incoming")
    out, *rest = (round(_duration(part) * 1000) for part in parts)
    return out, rest[0] if rest else out


heartbeat_pair = Kind(_heartbeat, "outgoing, incoming, or one for both; `0` for none")


def _distinct(names: Iterable[str]) -> Names:
    found = tuple(names)
    repeated = sorted({name for name in found if found.count(name) > 1})
    if repeated:
        raise ValueError(f"names {', '.join(repeated)} more than once")
    return found


def _name_list(raw: str) -> Names:
    if not raw.lstrip().startswith("["):
        return (_name(raw),)
    names = _load_json(raw)
    if not isinstance(names, list) or not names:
        raise ValueError("must be one name or a JSON list of names that is not empty")
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError("must be a JSON list of strings, none of them empty")
    return _distinct(_name(name) for name in names)


name_list = Kind(_name_list, "names")


def _load_json(raw: str, number: Callable[[str], object] | None = None) -> object:
    try:
        return json.loads(raw, parse_int=number, parse_float=number, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON ({error.msg} at character {error.pos + 1})") from None


class _Pairs(list[tuple[str, object]]):
    """The members of a JSON object in order. Repeats are kept, so that they can be refused."""


def _headers(raw: str) -> HeaderPairs:
    # Numbers keep their spelling: a header value is text, and 1.50 must not become 1.5.
    members = _load_json(raw, number=str)
    if not isinstance(members, _Pairs):
        raise ValueError('must be a JSON object of header names and values, such as {"priority": "4"}')
    _distinct(name for name, _ in members)
    return tuple((_header_name(name), _header_value(name, value)) for name, value in members)


def _header_name(name: str) -> str:
    if not name.strip() or _UNPRINTABLE.search(name):
        raise ValueError(f"has the header name {name!r}; a name is not empty and has no NUL or line break")
    return name


def _header_value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise ValueError(f"gives header {name!r} a value that is not a string, number or boolean")
    if "\x00" in value:
        raise ValueError(f"gives header {name!r} a value with a NUL, which STOMP cannot carry")
    return value


Edge: TypeAlias = Literal["earliest", "latest"]

# Positions by number, as in the options of Spark's Kafka source.
_SPECIAL: Final[dict[int, Edge]] = {-2: "earliest", -1: "latest"}
_OFFSETS: Final = '{"orders": 1200, "audit": -2}'


@dataclass(frozen=True)
class Moment:
    """A time, in whole seconds since 1970."""

    seconds: int


@dataclass(frozen=True)
class StreamPositions:
    """A position for each stream: one for all of them, or ``by_name``, by the names in the option."""

    everywhere: Edge | Moment | None = None
    by_name: dict[str, int | Edge] = field(default_factory=dict)

    def of(self, destination: str) -> int | Edge | Moment | None:
        """The position of the stream ``destination``; None if the option does not name it."""
        if self.everywhere is not None:
            return self.everywhere
        return self.by_name.get(destination, self.by_name.get(stream_name(destination)))

    def unnamed(self, destinations: Sequence[str]) -> list[str]:
        """The streams that the option does not name, if it names any."""
        return [one for one in destinations if self.of(one) is None]

    def foreign(self, destinations: Sequence[str]) -> list[str]:
        """The names in the option that are no streams of ``destinations``."""
        known = {*destinations, *map(stream_name, destinations)}
        return [name for name in self.by_name if name not in known]


def _positions(raw: str) -> StreamPositions:
    text = raw.strip()
    for word in _SPECIAL.values():
        if text.lower() == word:
            return StreamPositions(word)
    if text.startswith("{"):
        return StreamPositions(by_name=_offsets(text))
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise ValueError(f"is a number; write an offset with the name of its stream, such as {_OFFSETS}")
    return StreamPositions(Moment(_unix_time(text)))


def _offsets(text: str) -> dict[str, int | Edge]:
    members = _load_json(text)
    if not isinstance(members, _Pairs) or not members:
        raise ValueError(f"names no stream; write {_OFFSETS}")
    _distinct(stream_name(name) for name, _ in members)
    offsets: dict[str, int | Edge] = {}
    for name, offset in members:
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < min(_SPECIAL):
            raise ValueError(
                f"has {json.dumps(offset)} for {name}: an offset is a whole number, -2 (earliest) or -1 "
                "(latest)"
            )
        offsets[name] = _SPECIAL.get(offset, offset)
    return offsets


def _unix_time(text: str) -> int:
    try:
        # Python 3.10 does not know the Z.
        time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        raise ValueError(
            f"must be earliest, latest, a time such as 2026-11-23T08:00:00Z, or offsets such as {_OFFSETS}"
        ) from None
    if time.tzinfo is None:
        raise ValueError("is a time without a zone; add one, as in 2026-11-23T08:00:00Z or ...+01:00")
    return max(0, int(time.timestamp()))


def format_duration(seconds: float) -> str:
    """``seconds`` as a user would write them in an option: ``90s``, ``500ms``."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"


def format_size(size: int) -> str:
    """``size`` in bytes as a user would write it in an option: ``64k``, ``256m``, ``1000``."""
    for unit in "tgmk":
        if size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return str(size)


def _http_url(raw: str) -> str:
    try:
        parts = urlsplit(raw.strip())
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        whole = False
    if not whole or "@" in raw or parts.query or parts.fragment:
        raise ValueError("must be like http://broker.example:15672, without login and parameters")
    return raw.strip().rstrip("/")


TEXT = Kind(_text, "text")
NAME = Kind(_name, "text")
# A URI may contain credentials, also in its parameters.
FILE = Kind(_file, "path or URI", shown=False)
PEM = Kind(_pem, "path, or PEM text", shown=False)
KEY_FILE = Kind(_key_file, "path", shown=False)
PASSWORD_FILE = Kind(_name, "path", shown=False)
HTTP_URL = Kind(_http_url, "`http://host:port`, `https://`")
HOST_NAME = Kind(_host_name, "host name")
PEM_TEXT = Kind(_pem_text, "PEM text", shown=False)
BOOLEAN = Kind(_boolean, "boolean")
TIMEOUT = Kind(_timeout, "duration")
SIZE = Kind(_size, "size")
HEADERS = Kind(_headers, "headers", shown=False)
BEGINS = Kind(_positions, "`earliest`, `latest`, a time with its zone, or JSON: `{name: offset}`")
ENDS = Kind(_positions, "`latest`, or JSON: `{name: offset}`")
