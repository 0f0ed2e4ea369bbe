"""Rows to SEND frames as plainly as the rules are, which the encoder by columns is compared with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from spark_stomp.arrow import SendRules, receipt_id
from spark_stomp.errors import RowNotText, RowTooLarge, RowUnencodable, RowWithoutKey, SinkRowError
from spark_stomp.protocol import Frame, encode_frame
from spark_stomp.protocol.grammar import grammar_of

__all__ = ["Cells", "plain_frame"]

# Strings as octets, a map as a list of pairs of them.
Cells = dict[str, Any]
_OWNED = ("destination", "transaction", "receipt", "content-length")


def plain_frame(cells: Cells, rules: SendRules, number: int, now: float) -> bytes | type[SinkRowError]:
    """The frame of a row, or the error that it must not be sent for; of several problems any one counts."""
    body = cells["body"]
    target = cells.get("destination") if rules.destination is None else rules.destination.encode()
    if body is None or not target:
        return SinkRowError
    if rules.text and (not _is_utf8(body) or b"\0" in body):
        return RowUnencodable if _is_utf8(body) else RowNotText
    try:
        headers = dict(_headers(cells, rules, target.decode(errors="ignore"), now))
        lines = [(name.decode(), value.decode()) for name, value in headers.items()]
        text = target.decode()
    except _Refused as refused:
        return refused.error
    except UnicodeDecodeError:
        return RowNotText
    return _encoded([("destination", text), *lines, ("receipt", receipt_id(number))], body, rules)


class _Refused(Exception):
    def __init__(self, error: type[SinkRowError]) -> None:
        self.error = error


def _encoded(lines: list[tuple[str, str]], body: bytes, rules: SendRules) -> bytes | type[SinkRowError]:
    version, limits = rules.version, rules.limits
    escaped = () if grammar_of(version).raw >= {"SEND"} else grammar_of(version).escapes
    needed = "\0\r\n\\" if rules.unescaped else "\0\r\n"
    forbidden = [character for character in needed if character not in escaped]
    for name, value in lines:
        if any(character in name + value for character in forbidden) or (":" in name and not escaped):
            return RowUnencodable
    headers = lines if rules.text else [*lines, ("content-length", str(len(body)))]
    frame = encode_frame(Frame("SEND", tuple(headers), body), version)
    head = frame[: len(frame) - len(body) - 1].split(b"\n")[1:-2]
    limit = limits.max_header_line
    too_long = len(headers) + rules.text > limits.max_headers or any(len(line) > limit for line in head)
    if too_long or len(body) > limits.max_body or len(frame) > limits.max_frame:
        return RowTooLarge
    return frame


def _headers(cells: Cells, rules: SendRules, target: str, now: float) -> Iterator[tuple[bytes, bytes]]:
    """Name and value of each header in order; raises _Refused."""
    own = {header: _text(cells[column]) for column, header in rules.columns if column in cells}
    options = rules.headers_to(target)
    order = [*dict(rules.queue_headers), *dict(rules.headers)]
    if rules.ttl is not None:
        order.append(rules.ttl.header)
        base = round(now * 1000) if rules.ttl.absolute else 0
        if rules.ttl.milliseconds is not None:
            options.setdefault(rules.ttl.header, str(base + rules.ttl.milliseconds))
        if cells.get("ttl") is not None:
            if not 0 < cells["ttl"] <= 2**62:
                raise _Refused(SinkRowError)
            own[rules.ttl.header] = str(base + cells["ttl"]).encode()
    order += [header for _, header in rules.columns]
    if rules.dedup_key:
        order.append(rules.dedup_header)
        own[rules.dedup_header] = _digest([_text(cells[key]) for key in rules.dedup_key])
    order += [rule.header for rule in rules.values]
    given = dict(_entries(cells, rules, order))
    for name in dict.fromkeys(order):
        value = own.get(name)
        if value is None:
            value = given.get(name.encode())
        if value is not None and not all(rule.allows(value) for rule in rules.values if rule.header == name):
            raise _Refused(SinkRowError)
        if value is None and name in options:
            value = options[name].encode()
        if value is not None:
            yield name.encode(), value
    yield from ((name, value) for name, value in given.items() if name.decode() not in order)


def _entries(cells: Cells, rules: SendRules, fields: list[str]) -> Iterator[tuple[bytes, bytes]]:
    for name, value in cells.get("headers") or ():
        if value is None:
            continue
        known = name.decode(errors="surrogateescape")
        if known in rules.left_out or known.lower() in _OWNED:
            continue
        name.decode()
        if not name:
            raise _Refused(SinkRowError)
        if known not in fields and name != name.strip(b" \t"):
            raise _Refused(RowUnencodable)
        yield name, value


def _digest(texts: list[bytes | None]) -> bytes:
    if all(text is None for text in texts):
        raise _Refused(RowWithoutKey)
    marked = b"".join(b"-" if text is None else b"%d:%b" % (len(text), text) for text in texts)
    return hashlib.blake2b(marked, digest_size=16).hexdigest().encode()


def _text(value: Any) -> bytes | None:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def _is_utf8(octets: bytes) -> bool:
    return octets.decode(errors="ignore").encode() == octets
