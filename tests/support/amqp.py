"""Values and sections of AMQP 1.0 (OASIS, October 2012) as they are encoded, for tests of what reads them."""

from __future__ import annotations


def section(code: int, value: bytes) -> bytes:
    return b"\0\x53%c%b" % (code, value)


def short(text: str | bytes, code: int = 0xA1) -> bytes:
    """A string, or with another ``code`` a symbol (A3) or octets (A0), of less than 256 octets."""
    raw = text.encode() if isinstance(text, str) else text
    return bytes([code, len(raw)]) + raw


def long(text: str | bytes, code: int = 0xB1) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return bytes([code]) + len(raw).to_bytes(4, "big") + raw


def compound(code: int, *items: bytes, more: bytes = b"") -> bytes:
    """A list (C0), map (C1) or array (E0) with sizes of one octet; ``more`` comes before the items."""
    data = more + b"".join(items)
    return bytes([code, len(data) + 1, len(items)]) + data


def wide(code: int, *items: bytes, more: bytes = b"") -> bytes:
    """The same with sizes of four octets: D0, D1 or F0."""
    data = more + b"".join(items)
    return bytes([code]) + (len(data) + 4).to_bytes(4, "big") + len(items).to_bytes(4, "big") + data
