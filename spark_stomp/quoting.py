"""Quotes foreign text in errors and log lines, makes plurals, and reads whole numbers from foreign text.

Foreign text comes from a broker, or from the author of a message, a row or a file. It must not forge lines of
a log, control a terminal or fill a disk. So all texts of this package pass through :func:`line`, in three
places: :mod:`spark_stomp.logs`, ``StompError`` and ``said`` of the command line. A quotation in a sentence is
cut with :func:`shown` or :func:`quoted`, so that the rest of the sentence stays visible.
"""

from __future__ import annotations

from collections.abc import Sequence

CUT = "..."
# The most characters of a text. Our own longest sentences have some hundreds.
_LONGEST = 4_000
# Characters at the end of a text that are kept if it is cut.
_ENDING = 1_000


def shown(text: str, most: int = 100) -> str:
    """The first ``most`` characters of ``text``. Line ends and other unprintable characters are escaped."""
    begin = "".join(map(_shown, text[:most]))
    return begin + CUT if len(text) > most else begin


def quoted(text: str | None, most: int = 100) -> str:
    """The first ``most`` characters of ``text``, printable, in quotation marks; ``(none)`` if it is None."""
    return "(none)" if text is None else f"'{shown(text, most)}'"


def listed(names: Sequence[str]) -> str:
    """The only name, or the first one and how many more there are. At least one name is needed."""
    first, *others = names
    return f"{first} and {len(others)} more" if others else first


def line(text: str) -> str:
    """``text`` on one line; line ends and other unprintable characters are escaped.

    If it has more than 4,000 characters, its middle is left out. The end is kept because it says what to do.
    """
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - _ENDING]}{CUT}{text[-_ENDING:]}"
    return text if text.isprintable() else "".join(map(_shown, text))


def counted(number: int, thing: str) -> str:
    """A number and a noun, such as ``1 message`` or ``2,000 messages``. The plural is made with an s."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def duration(seconds: float) -> str:
    """A duration for people, in one or two units."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    for unit, size, part, least in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} {int(seconds % size // least)} {part}"
    return f"{int(seconds)} s"


def host_port(host: str, port: int) -> str:
    """``host:port``. An IPv6 address is in brackets, as in a URL (RFC 3986, section 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def whole_number(text: str | bytes, most_digits: int = 18) -> int | None:
    """``text`` as a number; None if ``text`` is not 1 to ``most_digits`` ASCII digits."""
    # ``isdigit`` alone accepts characters that ``int`` refuses, such as a superscript two.
    if not (text.isascii() and text.isdigit()) or len(text) > most_digits:
        return None
    return int(text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
