"""Hides secrets in what a broker sent.

A broker chooses the text and where it may be cut, and tokens have thousands of characters. So the time is
linear in both: each form of a secret is found in one pass (Knuth, Morris, Pratt), which also says at each
possible cut how much of the form's beginning is before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from spark_stomp.protocol.frames import escape
from spark_stomp.quoting import CUT, shown

_HIDDEN = "***"
# Where a quoted text may be cut, so that only the beginning of a secret is left: at its end, before a
# quotation mark, before punctuation, and before the mark of a cut.
_POSSIBLE_CUT = re.compile(rf"$|['\"]|[:,;] |{re.escape(CUT)}")
# Characters of the shortest beginning of a secret that is hidden; fewer reveal nothing.
_SHORTEST_PART = 3
_IN_WORD = re.compile(r"\w")


def without_secrets(text: str, secrets: Collection[str]) -> str:
    """``text`` with all ``secrets`` replaced by ``***``.

    A secret may be as it is, escaped as in a header, or as Python, Erlang or JSON prints it. Its beginning is
    also replaced, if the text or a quotation in it is cut off there. A very short one is replaced if it is a
    word of its own: inside of other words it tells nothing, and gaps in them would tell it.
    """
    forms = {form for secret in secrets for form in forms_of(secret)} - {""}
    cuts = {found.start() for found in _POSSIBLE_CUT.finditer(text)} if forms else set()
    pieces, seen = [], 0
    for begin, end in sorted({part for form in forms for part in _found(text, form, cuts)}):
        if begin >= seen:
            pieces += [text[seen:begin], _HIDDEN]
        seen = max(seen, end)
    return "".join((*pieces, text[seen:]))


def forms_of(secret: str) -> tuple[str, ...]:
    """What a broker may make of ``secret`` in a text."""
    escapes = (escape(secret, version) for version in ("1.1", "1.2"))
    # In quotation marks, as Erlang, Java and JSON print it.
    printed = (json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (False, True))
    return secret, secret.strip(), *escapes, repr(secret)[1:-1], shown(secret, len(secret)), *printed


def _found(text: str, form: str, cuts: Collection[int]) -> Iterator[tuple[int, int]]:
    """Begin and end of each place where ``form`` is, and of each of its beginnings before a possible cut."""
    if form[:_SHORTEST_PART] not in text:
        return
    shorter = _shorter(form)
    length = 0  # of the longest beginning of the form that ends here
    for end, character in enumerate(text, 1):
        while length and (length == len(form) or form[length] != character):
            length = shorter[length - 1]
        length += form[length] == character
        if (length >= _SHORTEST_PART and end in cuts) or (
            length == len(form) and (length > _SHORTEST_PART or _stands_alone(text, end - length, end))
        ):
            yield end - length, end


def _shorter(form: str) -> list[int]:
    """For each beginning of ``form``, how long its longest shorter beginning is that also ends it."""
    lengths, length = [0], 0
    for character in form[1:]:
        while length and form[length] != character:
            length = lengths[length - 1]
        length += form[length] == character
        lengths.append(length)
    return lengths


def _stands_alone(text: str, begin: int, end: int) -> bool:
    return not _IN_WORD.search(text[max(0, begin - 1) : begin] + text[end : end + 1])
