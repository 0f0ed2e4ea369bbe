"""Decodes bodies to text by the charset of their content type, or by UTF-8 if it names none."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import Ints
from spark_stomp.errors import BodyDecodeError
from spark_stomp.quoting import quoted, shown

_CHARSET = re.compile(r""";\s*charset\s*=\s*(?:"([^"]*)"|([^\s;"]*))""", re.IGNORECASE)

# Python's codecs that are not charsets of a content type.
_NOT_CHARSETS = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "mbcs", "oem"}
)


@dataclass(frozen=True, slots=True)
class Bodies:
    """The bodies of some messages, with the headers that decode them and name their messages."""

    values: pa.Array
    content_types: pa.Array
    message_ids: pa.Array
    destinations: pa.Array


def charset_of(content_type: str | None) -> str:
    """The ``charset`` parameter of a content type (RFC 9110, 8.3.1), as sent; "utf-8" if there is none."""
    found = _CHARSET.search(content_type) if content_type else None
    return (found.group(1) or found.group(2) or "utf-8") if found else "utf-8"


OnError = Literal["error", "null", "column"]
"""What becomes of a body that cannot be decoded: an error, null, or null and a reason in ``malformed``."""


@dataclass(frozen=True, slots=True)
class BodyText:
    """The bodies as strings; with ``on_error`` "column" also the reasons for nulls, by row."""

    text: pa.Array
    reasons: Mapping[int, str]


def body_text(bodies: Bodies, on_error: OnError) -> BodyText:
    """Decode the bodies. An empty body is an empty string in any charset.

    Raises:
        BodyDecodeError: a body is not valid in its charset, or its charset is unknown, and ``on_error`` is
            "error". The text names the message.
    """
    types = bodies.content_types.dictionary_encode()
    charsets = [charset_of(name) for name in types.dictionary.to_pylist()]
    foreign = [code for code, name in enumerate(charsets) if _codec_name(name) != "utf-8"]
    codes = types.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(np.isin(codes, foreign))
    text = _as_utf8(bodies.values)
    if not rows.size and text is not None:
        return BodyText(text, {})
    return _one_by_one(bodies, rows if text is not None else None, text, on_error)


def _as_utf8(values: pa.Array) -> pa.Array | None:
    """The bodies as strings, not copied; None unless all of them are valid UTF-8."""
    text = pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return text


def _one_by_one(bodies: Bodies, rows: Ints | None, text: pa.Array | None, on_error: OnError) -> BodyText:
    """The bodies as strings. Only ``rows`` are decoded, one by one; None means all."""
    reasons: dict[int, str] = {}
    values: list[str | bytes | None] = (text if text is not None else bodies.values).to_pylist()
    for row in range(len(values)) if rows is None else rows.tolist():
        try:
            values[row] = _decode(bodies.values[row].as_py(), bodies.content_types[row].as_py())
        except _Undecodable as problem:
            if on_error == "error":
                raise _error(bodies, row, problem) from problem.__cause__
            if on_error == "column":
                reasons[row] = str(BodyDecodeError(f"the body cannot be read as string: {problem}"))
            values[row] = None
    return BodyText(pa.array(values, pa.string()), reasons)


class _Undecodable(Exception):
    """Why a body has no text."""


def _decode(data: bytes, content_type: str | None) -> str:
    if not data:
        return ""
    charset = charset_of(content_type)
    codec = _codec_name(charset)
    try:
        text = data.decode(codec)
        text.encode()  # some codecs accept lone surrogates, which no string in Spark can hold
    except LookupError:
        raise _Undecodable(f"its charset {quoted(charset)} is unknown") from None
    except UnicodeError as error:
        raise _Undecodable(f"it is not valid {shown(charset)}: {error}") from error
    return text


def _codec_name(charset: str) -> str:
    """The name of Python's codec for a charset; of any other name "none", which no codec has."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):  # ValueError: a name that no codec can have
        return "none"
    return "none" if name.replace("_", "-") in _NOT_CHARSETS else name


def _error(bodies: Bodies, row: int, problem: _Undecodable) -> BodyDecodeError:
    message_id, destination = bodies.message_ids[row].as_py(), bodies.destinations[row].as_py()
    return BodyDecodeError(
        f"the body of message {quoted(message_id)} from {quoted(destination)} cannot be read as string: "
        f"{problem}; ask for `body binary`, or set bodyDecodeErrors=null or bodyDecodeErrors=column"
    )
