"""A row that cannot be sent, as a message to the dead letter destination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from spark_stomp.arrow.row_headers import Entries, NameRules
from spark_stomp.arrow.row_problems import Problem, as_binary
from spark_stomp.arrow.send_rules import SendRules
from spark_stomp.errors import FrameEncodeError
from spark_stomp.protocol import Frame, encode_frame
from spark_stomp.protocol.encoder import send_frame
from spark_stomp.quoting import shown

REASON = "dead-letter-reason"
FROM = "dead-letter-from"


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
    headers = rules.headers_to(rules.dead_letter)
    for name, value in _own_headers(row, names):
        if len(headers) < rules.limits.max_headers - 6 and _carried(name, value, rules):
            headers[name] = value
    target = rules.destination or _text(row.get("destination"))
    if target:
        headers[FROM] = target if _carried(FROM, target, rules) else shown(target)
    headers[REASON] = shown(str(problem), 1000)
    frame = send_frame(rules.dead_letter, body, headers=tuple(headers.items()), receipt=receipt)
    encoded = encode_frame(frame, rules.version)
    if len(body) > rules.limits.max_body or len(encoded) > rules.limits.max_frame:
        raise FrameEncodeError(f"with {len(encoded)} bytes it is too large for a dead letter, too")
    return encoded


def _own_headers(row: Mapping[str, pa.Array], names: NameRules) -> Iterator[tuple[str, str]]:
    entries = Entries.of(row.get("headers"))
    pairs = zip(as_binary(entries.names).to_pylist(), as_binary(entries.values).to_pylist(), strict=True)
    for name, value in reversed(list(pairs)):  # of repeated ones the first counts
        if not names.is_left_out(name) and names.problem(name) is None:
            yield name.decode(), value.decode(errors="surrogateescape")
    content_type = _text(row.get("content_type"))
    if content_type is not None:
        yield "content-type", content_type


def _carried(name: str, value: str, rules: SendRules) -> bool:
    """Whether a frame can carry this header."""
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
