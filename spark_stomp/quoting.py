"""What a peer said, as it may stand in an error or a log line: printable, on one line, and short; plurals;
numbers that somebody else wrote.

A broker, or whoever wrote a message, must not forge lines of a log, drive a terminal or fill a disk.
"""

from __future__ import annotations

CUT = "..."


def shown(text: str, most: int = 100) -> str:
    """The first ``most`` characters of ``text``; line ends, control codes and the like are escaped."""
    begin = "".join(map(_shown, text[:most]))
    return begin + CUT if len(text) > most else begin


def quoted(text: str | None, most: int = 100) -> str:
    """The same between quotation marks; ``(none)`` without a text."""
    return "(none)" if text is None else f"'{shown(text, most)}'"


def counted(number: int, thing: str) -> str:
    """``1 message``, ``2,000 messages``: of a thing whose plural takes an s."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def whole_number(text: str | bytes, most_digits: int = 18) -> int | None:
    """The number that ``text`` is in ASCII digits; None if it is anything else, or longer than that.

    ``isdigit`` alone lets through what ``int`` refuses, such as a superscript two.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > most_digits:
        return None
    return int(text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
