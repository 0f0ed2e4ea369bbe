"""Rows that cannot be sent, as messages to the dead letter destination."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from spark_stomp.errors import RowTooLarge, SinkRowError
from spark_stomp.quoting import shown
from spark_stomp.sink.rows import OWN_HEADERS, Row, RowFrames
from spark_stomp.sink.rules import SendRules

REASON = "dead-letter-reason"
FROM = "dead-letter-from"

# Headers that make a message expire. A dead letter never expires, whatever options or the row say.
_EXPIRY = frozenset({"expires", "expiration"})
# Options may set these headers on a dead letter. The broker acts on them, but they do not make it discard
# the message.
_KEEPING = frozenset({"persistent", "x-queue-type", "durable", "auto-delete", "exclusive"})
# Headers that are not taken from the row. Expiry, persistence and priority were meant for the message, not
# for the dead letter. Only the connector sets REASON and FROM.
_NOT_OF_THE_ROW = _EXPIRY | {"persistent", "priority", REASON, FROM}
# How many headers a dead letter has besides the row's: OWN_HEADERS, REASON, FROM and the id.
_OWN_HEADERS = OWN_HEADERS + 3


class DeadLetters:
    """Makes dead letters. ``frames`` decides which headers a frame can carry."""

    def __init__(self, rules: SendRules, frames: RowFrames) -> None:
        self._rules = rules
        self._frames = frames

    def frame(self, row: Row, problem: SinkRowError, receipt: str) -> bytes:
        """The dead letter of a row: its body, if it has one, and those of its headers that a frame can carry.

        Args:
            row: the row that cannot be sent.
            problem: why it cannot be sent.
            receipt: the receipt that the frame asks for.

        Raises:
            SinkRowError: the row is too large for a dead letter, too.
        """
        rules, limits = self._rules, self._rules.limits
        body = row.body or b""
        headers = self._of_options()
        for name, value in self._of_row(row):
            if len(headers) < limits.max_headers - _OWN_HEADERS and self._carried(name, value):
                headers[name] = value
        target = rules.destination or (row.destination or b"").decode(errors="surrogateescape")
        if target:
            headers[FROM] = target if self._carried(FROM, target) else shown(target)
        if row.key is not None:
            headers[rules.dedup_header] = row.key
        headers[REASON] = shown(str(problem), 1000)
        own = [*headers.items(), ("receipt", receipt), ("content-length", str(len(body)))]
        encoded = self._frames.encoded([("destination", rules.dead_letter)], own, body)
        if len(body) > limits.max_body or len(encoded) > limits.max_frame:
            raise RowTooLarge(f"with {len(encoded)} bytes it is too large for a dead letter, too")
        return encoded

    def _of_options(self) -> dict[str, str]:
        """Headers of every message, but none that could make the broker lose the dead letter."""
        rules = self._rules
        needed = rules.queue_headers if rules.is_queue(rules.dead_letter) else ()
        given = dict(needed) | dict(rules.headers)
        always = {name for name, _ in rules.queue_headers} | _KEEPING
        return {
            name: value
            for name, value in given.items()
            if name in always or not (name in _EXPIRY or rules.is_left_out(name))
        }

    def _of_row(self, row: Row) -> Iterator[tuple[str, str]]:
        """Yield the row's headers that a dead letter may have. If a name comes twice, the last counts."""
        for name, value in reversed(row.entries):  # of a repeated name the first entry counts: yield it last
            with suppress(SinkRowError):
                entry = self._frames.entry(name, value)
                if entry is not None and entry[0] not in _NOT_OF_THE_ROW:
                    yield entry
        for header, data in row.columns.items():
            if header not in _NOT_OF_THE_ROW and not self._rules.is_left_out(header):
                with suppress(SinkRowError):
                    yield header, self._frames.column(header, data)

    def _carried(self, name: str, value: str) -> bool:
        """Whether a frame can carry this header, and the broker accepts its value."""
        try:
            self._frames.check_value(name, value)
            self._frames.encoded([(name, value)], [], b"")
        except SinkRowError:
            return False
        return True
