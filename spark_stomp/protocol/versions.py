"""Protocol versions and their negotiation (STOMP 1.2, "Protocol Negotiation").

A version is written as on the wire: ``"1.0"``, ``"1.1"``, ``"1.2"``. ``"lenient"`` is the dialect of peers
that predate any negotiation: it is offered by silence and never named on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from spark_stomp.errors import LocalProtocolError

__all__ = [
    "LENIENT",
    "accept_version_header",
    "ack_modes",
    "best_version",
    "has_heartbeats",
    "has_nack",
    "parse_version_list",
    "validate_versions",
]

LENIENT = "lenient"
_KNOWN = frozenset({"1.0", "1.1", "1.2", LENIENT})
_OLD = frozenset({"1.0", LENIENT})
_NUMBERED = re.compile(r"[0-9]+(?:\.[0-9]+)*\Z")


def validate_versions(versions: Sequence[str]) -> None:
    """Refuse an empty list and anything that is not a known version.

    Raises:
        LocalProtocolError: naming the values that are allowed.
    """
    unknown = [version for version in versions if version not in _KNOWN]
    if unknown or not versions:
        raise LocalProtocolError(
            f"no such STOMP version: {', '.join(unknown) or '(none given)'}; "
            f"allowed are {', '.join(sorted(_KNOWN))}"
        )


def accept_version_header(versions: Iterable[str]) -> str | None:
    """The value of ``accept-version``: a comma list without spaces, newest first; None when all are lenient.

    The order means nothing to the peer (STOMP 1.2, "CONNECT or STOMP Frame"); the newest first reads best.
    """
    named = sorted({version for version in versions if version != LENIENT}, key=_sort_key, reverse=True)
    return ",".join(named) or None


def parse_version_list(value: str) -> tuple[str, ...]:
    """The versions of an ``accept-version`` header, or of the ``version`` header of an ERROR.

    Spaces around the commas are forgiven: ActiveMQ and some old clients write them.
    """
    return tuple(part for part in (item.strip() for item in value.split(",")) if part)


def best_version(client: Iterable[str], server: Iterable[str]) -> str | None:
    """The highest version that both have, or None (STOMP 1.2, "Protocol Negotiation").

    Versions are compared number by number, so 1.10 is above 1.9; what is no version number is ignored.
    """
    common = {version for version in client if _NUMBERED.match(version)} & set(server)
    return max(common, key=_sort_key, default=None)


def has_heartbeats(version: str) -> bool:
    """Whether the version knows heart-beats: 1.1 and later do."""
    return version not in _OLD


def has_nack(version: str) -> bool:
    """Whether the version has the NACK frame: 1.1 and later do."""
    return version not in _OLD


def ack_modes(version: str) -> tuple[str, ...]:
    """The values that SUBSCRIBE's ``ack`` may take; ``client-individual`` came with 1.1."""
    return ("auto", "client") if version in _OLD else ("auto", "client", "client-individual")


def _sort_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
