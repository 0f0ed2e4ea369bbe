"""Makes text of a stranger printable, one line and short, for errors and log lines; plurals; numbers that
somebody else wrote.

A broker, or whoever wrote a message, a row or a file, must not forge lines of a log, drive a terminal or fill
a disk. Three places see to that for all texts of the package, with :func:`line`: ``Log`` of
:mod:`spark_stomp.logs`, ``StompError`` and ``Terminal``. What is quoted within a sentence is cut with
:func:`shown` or :func:`quoted`, so that the rest of the sentence is seen.
"""

from __future__ import annotations

CUT = "..."
# Characters of a sentence. The longest of ours have some hundreds.
_LONGEST = 4_000
_ENDING = 1_000


def shown(text: str, most: int = 100) -> str:
    """The first ``most`` characters of ``text``; line ends, control codes and the like are escaped."""
    begin = "".join(map(_shown, text[:most]))
    return begin + CUT if len(text) > most else begin


def quoted(text: str | None, most: int = 100) -> str:
    """As :func:`shown`, between quotation marks; ``(none)`` without a text."""
    return "(none)" if text is None else f"'{shown(text, most)}'"


def line(text: str, most: int = _LONGEST) -> str:
    """All of a sentence, escaped in the same way. Of one that is too long the middle is left out: its end
    says what to do."""
    if len(text) > most:
        ending = min(_ENDING, most // 4)
        text = f"{text[: most - ending]}{CUT}{text[-ending:]}"
    return text if text.isprintable() else "".join(map(_shown, text))


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
