"""A row that cannot be sent, as a message to the dead letter destination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from spark_stomp.arrow.row_headers import Entries, NameRules
from spark_stomp.arrow.row_ids import row_ids
from spark_stomp.arrow.row_problems import Problem, RowProblems, as_binary, header_text
from spark_stomp.arrow.send_rules import SendRules
from spark_stomp.errors import FrameEncodeError
from spark_stomp.protocol import Frame, encode_frame
from spark_stomp.protocol.encoder import send_frame
from spark_stomp.quoting import shown

REASON = "dead-letter-reason"
FROM = "dead-letter-from"

# A dead letter is to be kept, whatever is said of how long its message, or its queue, lives.
_EXPIRY = frozenset({"expires", "expiration"})
# What options may tell the broker of it all the same: these take nothing from it.
_KEEPING = frozenset({"persistent", "x-queue-type"})
_LASTING = frozenset({("durable", "true"), ("auto-delete", "false"), ("exclusive", "false")})
# What the row says is for the message that was meant, and only the connector says why it is here.
_NOT_ITS_OWN = _EXPIRY | {"persistent", "priority", REASON, FROM}
# Headers besides those of the row: destination, the two above, the id, receipt and content-length.
_OWN_HEADERS = 6


def dead_letter(
    row: Mapping[str, pa.Array], problem: Problem, rules: SendRules, names: NameRules, receipt: str
) -> bytes:
    """The frame of a row, which has its body as far as it has one, and those headers that a frame can carry.

    Args:
        row: the cells by column, each an array of one value.

    Raises:
        FrameEncodeError: it is too large for a frame, too.
    """
    body = _octets(row["body"]) or b""
    given, needed = rules.headers_to(rules.dead_letter), dict(rules.queue_headers)
    headers = {
        name: value
        for name, value in given.items()
        if name in needed or (name, value) in _LASTING or _is_kept(name, names)
    }
    for name, value in _own_headers(row, rules, names):
        if len(headers) < rules.limits.max_headers - _OWN_HEADERS and _carried(name, value, rules):
            headers[name] = value
    target = rules.destination or _text(row.get("destination"))
    if target:
        headers[FROM] = target if _carried(FROM, target, rules) else shown(target)
    if rules.dedup_key:
        without_key = RowProblems()
        ids = row_ids([row[key] for key in rules.dedup_key], without_key)
        if not without_key:
            headers[rules.dedup_header] = ids[0].as_py()
    headers[REASON] = shown(str(problem), 1000)
    frame = send_frame(rules.dead_letter, body, headers=tuple(headers.items()), receipt=receipt)
    encoded = encode_frame(frame, rules.version)
    if len(body) > rules.limits.max_body or len(encoded) > rules.limits.max_frame:
        raise FrameEncodeError(f"with {len(encoded)} bytes it is too large for a dead letter, too")
    return encoded


def _is_kept(name: str, names: NameRules) -> bool:
    """Whether a dead letter may have this header of ``sendHeaders``."""
    return name in _KEEPING or not (name in _EXPIRY or names.is_left_out(name.encode()))


def _own_headers(
    row: Mapping[str, pa.Array], rules: SendRules, names: NameRules
) -> Iterator[tuple[str, str]]:
    entries = Entries.of(row.get("headers"))
    pairs = zip(as_binary(entries.names).to_pylist(), as_binary(entries.values).to_pylist(), strict=True)
    for name, value in reversed(list(pairs)):  # of repeated ones the first counts
        if not names.is_left_out(name) and names.problem(name) is None and name.decode() not in _NOT_ITS_OWN:
            yield name.decode(), value.decode(errors="surrogateescape")
    for column, name in rules.columns:
        own = column in row and name not in _NOT_ITS_OWN and not names.is_left_out(name.encode())
        text = _text(header_text(row[column])) if own else None
        if text is not None:
            yield name, text


def _carried(name: str, value: str, rules: SendRules) -> bool:
    """Whether a frame can carry this header, and the broker takes it."""
    octets = value.encode(errors="surrogateescape")
    if not all(rule.allows(octets) for rule in rules.values if rule.header == name):
        return False
    try:
        line = encode_frame(Frame("SEND", ((name, value),)), rules.version)
    except FrameEncodeError:
        return False
    return len(line) <= rules.limits.max_header_line


def _octets(cell: pa.Array | None) -> bytes | None:
    found: bytes | None = None if cell is None else as_binary(cell)[0].as_py()
    return found


def _text(cell: pa.Array | None) -> str | None:
    octets = _octets(cell)
    return None if octets is None else octets.decode(errors="surrogateescape")
