"""Options that are fine alone and make no sense together.

:func:`contradictions` lists what is refused; :func:`notes` what is allowed, holds back and deserves a line in
the log. A limit that the un-acknowledged window makes unreachable is of the second sort: a batch is then as
large as the window, which the delivery contract allows and never waits beyond.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from spark_stomp.options import definitions as o
from spark_stomp.options.definitions import Option
from spark_stomp.options.kinds import Headers, format_duration, format_size
from spark_stomp.options.raw_options import RawOptions

__all__ = ["contradictions", "notes"]

_TLS: Final[tuple[Option[Any], ...]] = (
    o.TLS_CA_FILE,
    o.TLS_CERT_FILE,
    o.TLS_KEY_FILE,
    o.TLS_KEY_PASSWORD,
    o.TLS_VERIFY,
)
# Headers that the connector sets itself, with the option that decides over them, if any.
_CONNECT_OWNED: Final = {
    "accept-version": "acceptVersions",
    "host": "virtualHost",
    "login": "login",
    "username": "login",
    "passcode": "password",
    "heart-beat": "heartbeat",
    "client-id": "clientId",
    "receipt": "",
}
_SUBSCRIBE_OWNED: Final = {
    "id": "",
    "destination": "destination",
    "ack": "",
    "receipt": "",
    "selector": "selector",
    "browser": "",
}
_SEND_OWNED: Final = {
    "destination": "destination",
    "receipt": "",
    "transaction": "transactional",
    "content-length": "",
}


def contradictions(given: RawOptions) -> Iterator[str]:
    """Everything that is refused about the options together."""
    yield from _credentials(given)
    yield from _tls(given)
    yield from _limits(given)
    yield from _owned(given, o.CONNECT_HEADERS, _CONNECT_OWNED)
    yield from _owned(given, o.SECRET_CONNECT_HEADERS, _CONNECT_OWNED)
    yield from _twice(given)
    if given.scope == "sink":
        yield from _owned(given, o.SEND_HEADERS, _SEND_OWNED)
        return
    yield from _owned(given, o.SUBSCRIBE_HEADERS, _SUBSCRIBE_OWNED)
    yield from _subscription(given)
    yield from _draining(given)
    if given.scope == "source":
        yield from _admission(given)
        yield from _journal(given)


def _credentials(given: RawOptions) -> Iterator[str]:
    if o.PASSWORD in given and o.LOGIN not in given:
        yield "password is given without login"


def _tls(given: RawOptions) -> Iterator[str]:
    material: list[Option[Any]] = [
        o.TLS_CA_FILE,
        o.TLS_CERT_FILE,
        o.TLS_KEY_FILE,
        o.TLS_KEY_PASSWORD,
        o.TLS_VERIFY,
    ]
    used = [option.key for option in material if option in given]
    endpoints = given[o.URL]
    if used and endpoints and not any(endpoint.tls for endpoint in endpoints):
        yield f"{', '.join(used)} needs an encrypted url (stomp+ssl:// or wss://)"
    if o.TLS_CERT_FILE not in given:
        yield from (
            f"{option.key} is given without tlsCertFile"
            for option in (o.TLS_KEY_FILE, o.TLS_KEY_PASSWORD)
            if option in given
        )
    if o.TLS_CA_FILE in given and not given[o.TLS_VERIFY]:
        yield "tlsCaFile has no use with tlsVerify = false, which trusts anybody"


def _limits(given: RawOptions) -> Iterator[str]:
    frame, body = given[o.MAX_FRAME_BYTES], given[o.MAX_BODY_BYTES]
    if body is not None and body > frame:
        yield (
            f"maxBodyBytes ({format_size(body)}) is more than maxFrameBytes ({format_size(frame)}), "
            "which holds the body too; raise maxFrameBytes"
        )


def _owned(given: RawOptions, option: Option[Headers], owners: dict[str, str]) -> Iterator[str]:
    for name, _ in given[option]:
        owner = owners.get(name.lower())
        if owner is not None:
            remedy = f"use the option {owner}" if owner else "the connector sets it"
            yield f"{option.key} must not hold the header {name}: {remedy}"


def _twice(given: RawOptions) -> Iterator[str]:
    plain = {name for name, _ in given[o.CONNECT_HEADERS]}
    for name, _ in given[o.SECRET_CONNECT_HEADERS]:
        if name in plain:
            yield f"the header {name} stands in both connectHeaders and secretConnectHeaders"


def _subscription(given: RawOptions) -> Iterator[str]:
    destinations = given[o.DESTINATIONS] or ()
    if given[o.DURABLE_NAME] and len(destinations) > 1:
        yield f"durableName names one subscription, but there are {len(destinations)} destinations"


def _draining(given: RawOptions) -> Iterator[str]:
    idle, limit = given[o.IDLE_TIMEOUT], given[o.MAX_DRAIN_TIME]
    if limit < idle:
        yield (
            f"maxDrainTime ({format_duration(limit)}) is less than idleTimeout ({format_duration(idle)}), "
            "so that no read could ever end by silence"
        )


def _admission(given: RawOptions) -> Iterator[str]:
    least, most = given[o.MIN_MESSAGES_PER_TRIGGER], given[o.MAX_MESSAGES_PER_TRIGGER]
    if least is not None and most is not None and least > most:
        yield f"minMessagesPerTrigger ({least}) is more than maxMessagesPerTrigger ({most})"
    if o.MAX_TRIGGER_DELAY in given and o.MIN_MESSAGES_PER_TRIGGER not in given:
        yield "maxTriggerDelay is given without minMessagesPerTrigger, the only thing it limits the wait for"


def _journal(given: RawOptions) -> Iterator[str]:
    if o.JOURNAL in given:
        return
    if given[o.ACK_AFTER] == "journal":
        yield "ackAfter = journal needs journal, which says where"
    if o.JOURNAL_MAX_BYTES in given:
        yield "journalMaxBytes is given without journal"


def notes(given: RawOptions, prefetch: int) -> Iterator[str]:
    """What is worth a line in the log of a stream, given its ``prefetch`` per receiver."""
    window = prefetch * given[o.RECEIVERS] * len(given[o.DESTINATIONS])
    for option in (o.MIN_MESSAGES_PER_TRIGGER, o.MAX_MESSAGES_PER_TRIGGER):
        limit = given[option]
        if limit is not None and limit > window:
            yield (
                f"{option.key} ({limit}) cannot be reached: prefetch lets at most {window} messages stand "
                f"un-acknowledged; raise prefetch ({2 * limit} lets the next batch arrive meanwhile)"
            )
    if not given[o.TLS_VERIFY]:
        yield "tlsVerify = false: anybody between here and the broker can read and change every message"
