"""Protocol versions, what each has, and how client and server agree on one.

STOMP 1.1 and 1.2, "Protocol Negotiation". A version is written as on the wire: ``"1.0"``, ``"1.1"``,
``"1.2"``. ``"lenient"`` is the dialect of peers older than any negotiation. It is never named on the wire: a
CONNECT or CONNECTED that names no version can mean it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from spark_stomp.errors import LocalProtocolError, VersionError
from spark_stomp.protocol.grammar import VERSIONS
from spark_stomp.quoting import shown

LENIENT = "lenient"
_OLD = frozenset({"1.0", LENIENT})
_NUMBERED = re.compile(r"[0-9]+(?:\.[0-9]+)*\Z")


def validate_versions(versions: Sequence[str]) -> None:
    """Refuse an empty list and anything that is not a known version.

    Raises:
        LocalProtocolError: naming the values that are allowed.
    """
    unknown = [version for version in versions if version not in VERSIONS]
    if unknown or not versions:
        raise LocalProtocolError(
            f"no such STOMP version: {', '.join(unknown) or '(none given)'}; "
            f"allowed are {', '.join(VERSIONS)}"
        )


def accept_version_header(versions: Iterable[str]) -> str | None:
    """The value of ``accept-version``: a comma list without spaces, newest first; None if all are lenient.

    The order means nothing to the peer (STOMP 1.2, "CONNECT or STOMP Frame").
    """
    named = sorted({version for version in versions if version != LENIENT}, key=_sort_key, reverse=True)
    return ",".join(named) or None


def parse_version_list(value: str) -> tuple[str, ...]:
    """The versions of an ``accept-version`` header, or of the ``version`` header of an ERROR.

    Leniency: spaces around the commas, as ActiveMQ and some old clients write them.
    """
    return tuple(part for part in (item.strip() for item in value.split(",")) if part)


def best_version(client: Iterable[str], server: Iterable[str]) -> str | None:
    """The highest version that both have, or None (STOMP 1.2, "Protocol Negotiation").

    Versions are compared number by number, so 1.10 is above 1.9. Anything else than numbers is ignored.
    """
    common = {version for version in client if _NUMBERED.match(version)} & set(server)
    return max(common, key=_sort_key, default=None)


def has_heartbeats(version: str) -> bool:
    """Whether the version has heart-beats: 1.1 and later do."""
    return version not in _OLD


def has_nack(version: str) -> bool:
    """Whether the version has the NACK frame: 1.1 and later do."""
    return version not in _OLD


def ack_modes(version: str) -> tuple[str, ...]:
    """The values that SUBSCRIBE's ``ack`` may take; ``client-individual`` came with 1.1."""
    return ("auto", "client") if version in _OLD else ("auto", "client", "client-individual")


def client_version(offered: Sequence[str], named: str | None) -> str:
    """The version of the session, from the client's side.

    Args:
        offered: the client's versions.
        named: CONNECTED's ``version``; None means 1.0, or the lenient dialect if that was offered.

    Raises:
        VersionError: it was not offered.
    """
    version = named or "1.0"
    if version in offered and version != LENIENT and (named or LENIENT not in offered):
        return version
    if version == "1.0" and LENIENT in offered:
        return LENIENT
    named_version = f"version:{shown(version)}" if named else "no version, which means 1.0"
    raise VersionError(f"offered STOMP {_listed(offered)}, but CONNECTED says {named_version}")


def check_refusal(offered: Sequence[str], supported: str | None, message: str) -> None:
    """Raise VersionError if an ERROR in answer to CONNECT means that no version offered is supported.

    Args:
        offered: the client's versions.
        supported: the ``version`` header of the ERROR. RabbitMQ sends it with every ERROR, so only a list
            without any of the client's versions means a refusal.
        message: the broker's short text.
    """
    theirs = parse_version_list(supported or "")
    ours = {"1.0" if version == LENIENT else version for version in offered}
    if theirs and ours.isdisjoint(theirs):
        raise VersionError(
            f"offered STOMP {_listed(offered)}, but the broker has {_listed(theirs)}: {message}"
        )


def server_version(accept_version: str | None, supported: Sequence[str], *, lenient: bool) -> str:
    """The version of the session, from the server's side.

    Args:
        accept_version: the header of CONNECT; None means 1.0.
        supported: the server's versions.
        lenient: CONNECT was of the lenient dialect.

    Raises:
        VersionError: nothing in common.
    """
    if lenient and accept_version is None and LENIENT in supported:
        return LENIENT
    offered = ("1.0",) if accept_version is None else parse_version_list(accept_version)
    version = best_version(offered, supported)
    if version is None:
        raise VersionError(f"the client offered STOMP {_listed(offered)}, supported are {_listed(supported)}")
    return version


def _listed(versions: Sequence[str]) -> str:
    return shown(", ".join(versions))


def _sort_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
