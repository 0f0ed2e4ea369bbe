"""Agreeing on a version (STOMP 1.1 and 1.2, "Protocol Negotiation")."""

from __future__ import annotations

from collections.abc import Sequence

from spark_stomp.errors import VersionError
from spark_stomp.protocol.events import ErrorReceived
from spark_stomp.protocol.versions import LENIENT, best_version, parse_version_list

__all__ = ["check_refusal", "client_version", "server_version"]

_TEXT_LENGTH = 100


def client_version(offered: Sequence[str], named: str | None) -> str:
    """What CONNECTED settles for the client.

    Args:
        offered: the client's versions.
        named: CONNECTED's ``version``; None means 1.0, or the lenient dialect where that was offered.

    Raises:
        VersionError: a version that was not offered.
    """
    version = named or "1.0"
    if version in offered and version != LENIENT and (named or LENIENT not in offered):
        return version
    if version == "1.0" and LENIENT in offered:
        return LENIENT
    said = f"version:{version[:_TEXT_LENGTH]}" if named else "no version, which means 1.0"
    raise VersionError(f"offered STOMP {_listed(offered)}, but CONNECTED says {said}")


def check_refusal(offered: Sequence[str], error: ErrorReceived) -> None:
    """Raise VersionError if this answer to CONNECT says that the broker has none of the versions offered.

    Such an ERROR names the broker's versions. RabbitMQ names them in every ERROR, so only a list without any
    of the client's own means that.
    """
    theirs = parse_version_list(error.frame.get("version") or "")
    ours = {"1.0" if version == LENIENT else version for version in offered}
    if theirs and ours.isdisjoint(theirs):
        raise VersionError(
            f"offered STOMP {_listed(offered)}, but the broker has {_listed(theirs)}: {error.message}"
        )


def server_version(accept_version: str | None, supported: Sequence[str], *, lenient: bool) -> str:
    """What the server answers to CONNECT's ``accept-version``; without that header the client speaks 1.0.

    Args:
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
    return ", ".join(versions)[:_TEXT_LENGTH]
