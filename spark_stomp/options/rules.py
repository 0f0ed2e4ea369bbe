"""Options that are right alone but not together.

:func:`contradictions` lists what is refused. :func:`notes` lists what is allowed but worth a line in the log,
such as a batch size that the prefetch makes unreachable: a batch is then as large as the prefetch, and does
not wait for more (contract 5.2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final
from urllib.parse import urlsplit

from spark_stomp.brokers import DIALECTS
from spark_stomp.brokers.rabbitmq import BY_NAME, OFFSET, STREAM_FILTERS, declares_stream, stream_name
from spark_stomp.options.connection_options import ConnectionOptions, ReconnectOptions, TlsOptions
from spark_stomp.options.endpoint import is_loopback, redacted
from spark_stomp.options.fields import options_of
from spark_stomp.options.kinds import StreamPositions, format_duration, format_size, is_pem
from spark_stomp.options.sink_options import MessageOptions, SinkOptions
from spark_stomp.options.source_options import SourceOptions
from spark_stomp.protocol.encoder import REQUEST_OWNS, SEND_OWNS
from spark_stomp.protocol.handshake import CONNECT_OWNS

# Headers of SUBSCRIBE that the connector sets on a known broker, but not with broker = generic, and the
# option for each.
_OF_DIALECTS: Final = {
    header.lower(): option
    for dialect in DIALECTS
    for header, option in (
        (dialect.prefetch_header, "prefetch"),
        (dialect.window_header, "prefetch"),
        (dialect.subscribe_kind_header, "destinationType"),
    )
    if header is not None
}
# Headers that the connector sets, and the option for each. No option sets the connector's other headers.
_OPTION_OF_HEADER: Final = {
    "accept-version": "acceptVersions",
    "host": "virtualHost",
    "login": "login",
    "username": "login",
    "passcode": "password",
    "heart-beat": "heartbeat",
    "client-id": "clientId",
    "destination": "destination",
    "selector": "selector",
    OFFSET: "startingOffsets",
    **_OF_DIALECTS,
}

# Options that need another one, and why if that is not clear.
_NEEDS: Final = {
    "password": ("login", ""),
    "passwordFile": ("login", ""),
    "tlsKeyFile": ("tlsCertFile", ""),
    "tlsKeySecret": ("tlsCertFile", ""),
    "tlsKeyPassword": ("tlsCertFile", ""),
    "dedupHeader": ("dedupKey", ", which names the columns for this header"),
    "maxTriggerDelay": ("minMessagesPerTrigger", ": it bounds the wait for that minimum"),
    "journalMaxBytes": ("journal", ""),
}
_ONE_OF: Final = (("password", "passwordFile"), ("tlsKeyFile", "tlsKeySecret"))
# Options with which a client proves who it is.
_CREDENTIALS: Final = ("login", "password", "passwordFile", "secretConnectHeaders", "tlsCertFile")


def contradictions(given: Set[str], parsed: SourceOptions | SinkOptions) -> Iterator[str]:
    """A sentence for each contradiction between options.

    Args:
        given: the keys of the options that were given.
        parsed: the values, with defaults for malformed options and for those of another scope.
    """
    connection = parsed.connection
    for one, other in _ONE_OF:
        if one in given and other in given:
            yield f"{one} and {other} are both given; give only one of them"
    for key, (needed, why) in _NEEDS.items():
        if key in given and needed not in given:
            yield f"{key} is given without {needed}{why}"
    yield from _tls(given, connection)
    yield from _mixed(given, connection)
    yield from _management(connection)
    yield from _limits(connection)
    yield from _connect_headers(connection)
    yield from _reconnecting(parsed.reconnect)
    if isinstance(parsed, SinkOptions):
        yield from _addresses([parsed.destination or ""])
        yield from _owned("sendHeaders", parsed.send_headers, SEND_OWNS)
        yield from _messages(given, parsed.message)
    else:
        of_dialects = _OF_DIALECTS.keys() if connection.broker != "generic" else set[str]()
        owned = REQUEST_OWNS | {"selector", "browser", OFFSET} | of_dialects
        yield from _owned("subscribeHeaders", parsed.subscribe_headers, owned)
        yield from _addresses(parsed.destinations)
        yield from _reads(parsed)
        yield from _journal(given, parsed)
        if parsed.starting_offsets is not None:
            yield from _streams(given, parsed, parsed.starting_offsets)


def _reconnecting(options: ReconnectOptions) -> Iterator[str]:
    first, longest = options.first_delay, options.longest_delay
    if first > longest:
        yield (
            f"reconnectDelay ({format_duration(first)}) is more than reconnectDelayMax "
            f"({format_duration(longest)}): lower the one or raise the other"
        )


def _tls(given: Set[str], connection: ConnectionOptions) -> Iterator[str]:
    used = [option.key for option in options_of(TlsOptions) if option.key in given]
    endpoints = connection.endpoints
    if used and endpoints and not any(endpoint.tls for endpoint in endpoints):
        yield f"{', '.join(used)} needs an encrypted url (stomp+ssl:// or wss://)"
    if is_pem(connection.tls.cert_file or "") and not given & {"tlsKeyFile", "tlsKeySecret"}:
        yield "tlsCertFile is PEM text, which must not contain a key: give tlsKeySecret or tlsKeyFile too"
    if "tlsCaFile" in given and not connection.tls.verify:
        yield "tlsCaFile has no effect with tlsVerify = false, which trusts any broker"


def _mixed(given: Set[str], connection: ConnectionOptions) -> Iterator[str]:
    """With credentials, all addresses must be encrypted or none.

    Otherwise an attacker who makes the encrypted addresses fail would get the credentials as plain text.
    """
    in_clear = [str(endpoint) for endpoint in connection.endpoints if not endpoint.tls]
    credentials = [key for key in _CREDENTIALS if key in given]
    if credentials and in_clear and len(in_clear) < len(connection.endpoints):
        yield (
            f"url has addresses with and without encryption, and {', '.join(credentials)} must not go to "
            f"{', '.join(in_clear)} when an encrypted address fails; use stomp+ssl:// or wss:// for all"
        )


def _management(connection: ConnectionOptions) -> Iterator[str]:
    """The login goes to the management too."""
    url = connection.management_url or ""
    host = urlsplit(url).hostname or ""
    encrypted = any(endpoint.tls for endpoint in connection.endpoints)
    if encrypted and url.startswith("http://") and not is_loopback(host):
        yield f"managementUrl = {url!r} would send the login as plain text, which url encrypts; use https://"


def _limits(connection: ConnectionOptions) -> Iterator[str]:
    frame, body = connection.max_frame_bytes, connection.max_body_bytes
    if body is not None and body > frame:
        yield (
            f"maxBodyBytes ({format_size(body)}) is more than maxFrameBytes ({format_size(frame)}), "
            "which includes the body; raise maxFrameBytes"
        )


def _connect_headers(connection: ConnectionOptions) -> Iterator[str]:
    shown, secret = connection.connect_headers, connection.secret_connect_headers
    owned = CONNECT_OWNS | {"client-id"}
    yield from _owned("connectHeaders", shown, owned)
    yield from _owned("secretConnectHeaders", secret, owned)
    names = {name for name, _ in shown}
    for name, _ in secret:
        if name in names:
            yield f"the header {name} is in both connectHeaders and secretConnectHeaders"


def _owned(key: str, headers: Iterable[tuple[str, str]], owned: frozenset[str]) -> Iterator[str]:
    for name, _ in headers:
        if name.lower() in owned:
            option = _OPTION_OF_HEADER.get(name.lower())
            remedy = f"use the option {option}" if option else "the connector sets it"
            yield f"{key} must not contain the header {name}: {remedy}"


def _messages(given: Set[str], options: MessageOptions) -> Iterator[str]:
    names = options.header_columns or ()
    yield from _owned("headerColumns", [(name, "") for name in names], SEND_OWNS)
    yield from _owned("dedupHeader", [(options.dedup_header or "", "")], SEND_OWNS)
    if options.on_error == "deadletter" and "deadLetterDestination" not in given:
        yield "onError = deadletter needs deadLetterDestination, to which such rows go"
    if options.on_error != "deadletter" and "deadLetterDestination" in given:
        yield "deadLetterDestination is given without onError = deadletter"


def _addresses(destinations: Iterable[str]) -> Iterator[str]:
    for destination in destinations:
        if "://" in destination.partition("?")[0] and not destination.startswith("/"):
            shown = redacted(destination)
            yield f"destination = {shown!r} is an address: use url. A destination is like /queue/orders"


def _reads(options: SourceOptions) -> Iterator[str]:
    idle, limit = options.idle_timeout, options.max_drain_time
    if limit < idle:
        yield (
            f"maxDrainTime ({format_duration(limit)}) is less than idleTimeout ({format_duration(idle)}), "
            "so that silence could never end a read"
        )
    least, most = options.min_messages_per_trigger, options.max_messages_per_trigger
    if least is not None and most is not None and least > most:
        yield f"minMessagesPerTrigger ({least}) is more than maxMessagesPerTrigger ({most})"


def _journal(given: Set[str], options: SourceOptions) -> Iterator[str]:
    if options.drain and ("journal" not in given or options.ack_after != "journal"):
        yield (
            "drain = true needs journal and ackAfter = journal: a broker limits the un-acked messages, "
            "and only the journal lets them be acknowledged before the batch is done"
        )
    if options.ack_after == "journal" and "journal" not in given:
        yield "ackAfter = journal needs journal, which says where the journal is"


# Options that concern queues only, and why.
_NOT_WITH_STREAMS: Final = {
    "connections": "each stream has a connection of its own",
    "journal": "a stream keeps its messages, so every batch can be read again without one",
    "ackAfter": "nothing of a stream is deleted by an ACK",
    "drain": "AvailableNow reads all that a stream has when the run begins",
    "durableName": "a stream keeps its messages, and the position is in Spark's checkpoint",
    "failOnMissingQueue": "RabbitMQ refuses a stream that is not there",
    "idHeader": "stable_id is the name of the stream and the offset",
    "selector": "RabbitMQ has none; filter the rows",
}


def _streams(given: Set[str], options: SourceOptions, starting: StreamPositions) -> Iterator[str]:
    for key, reason in _NOT_WITH_STREAMS.items():
        if key in given and (not options.queues or key == "drain"):
            yield f"{key} does not go with streams (startingOffsets): {reason}"
    declared = declares_stream(options.subscribe_headers)
    for one in options.streams:
        if not one.startswith((BY_NAME, "/queue/") if declared else BY_NAME):
            yield (
                f"destination = {one!r} is read as a stream (startingOffsets), so it must be "
                "/amq/queue/NAME, or /queue/NAME if subscribeHeaders declares the stream (x-queue-type: "
                "stream). A queue begins with what is not acknowledged: leave startingOffsets out"
            )
    names = [stream_name(one) for one in options.streams]
    for name in sorted({one for one in names if names.count(one) > 1}):
        yield f"destination names the stream {name} twice"
    yield from _positions(options, starting, options.ending_offsets)


def _positions(
    options: SourceOptions, starting: StreamPositions, ending: StreamPositions | None
) -> Iterator[str]:
    declared = declares_stream(options.subscribe_headers)
    # In a streaming read, what has no position is a queue.
    whole = options.destinations if declared or ending is not None else options.streams
    filters = [name for name, _ in options.subscribe_headers if name in STREAM_FILTERS]
    if ending is not None and filters:
        yield (
            f"subscribeHeaders has {filters[0]}, so RabbitMQ leaves out messages, and a batch read cannot "
            "know where it ends. Leave that header out and filter the rows, or use readStream"
        )
    for key, positions in (("startingOffsets", starting), ("endingOffsets", ending)):
        if positions is None:
            continue
        for one in positions.unnamed(whole):
            yield f"{key} has no offset for {one}; name every stream"
        for one in positions.foreign(options.destinations):
            yield f"{key} names {one}, which is not in destination"
    if ending is not None and "latest" in map(starting.of, options.destinations):
        yield "startingOffsets = latest is for readStream: a batch read that begins there has no rows"
    if ending is not None and not all(
        isinstance(end, int) or end == "latest" for end in map(ending.of, options.destinations)
    ):
        yield "endingOffsets must be latest, or offsets by name"


def notes(options: SourceOptions | SinkOptions) -> Iterator[str]:
    """Sentences for the log of a query, about options that are allowed but risky or without effect."""
    yield from _in_clear(options.connection)
    if not options.connection.tls.verify:
        yield "tlsVerify = false: anyone between this machine and the broker can read and change all messages"
    if isinstance(options, SourceOptions):
        yield from _several_in_one(options.destinations)
        # Of a stream, RabbitMQ sends more before the commit (contract R.7).
        if not options.streams:
            yield from _unreachable(options)


def _several_in_one(destinations: Sequence[str]) -> Iterator[str]:
    # Spark's Kafka source takes names with commas between them.
    for one in destinations:
        if re.search(r",\s*/", one):
            listed = json.dumps(re.split(r"\s*,\s*", one))
            yield f"only ActiveMQ takes {one} for several destinations; elsewhere give a list: {listed}"


def _in_clear(connection: ConnectionOptions) -> Iterator[str]:
    in_clear = [str(endpoint) for endpoint in connection.endpoints if not (endpoint.tls or endpoint.loopback)]
    secrets = {
        "login": connection.login,
        "password": connection.password,
        "passwordFile": connection.password_file,
        "secretConnectHeaders": connection.secret_connect_headers,
    }
    given = [key for key, value in secrets.items() if value]
    if in_clear and given:
        yield (
            f"{', '.join(given)} and all messages go to {', '.join(in_clear)} as plain text, which anyone on "
            "the network can read; use stomp+ssl:// or wss://"
        )


def _unreachable(options: SourceOptions) -> Iterator[str]:
    # A receiver does not wait for more than its prefetch, however many destinations it reads.
    window = options.prefetch * options.connections
    limits = (
        ("minMessagesPerTrigger", options.min_messages_per_trigger),
        ("maxMessagesPerTrigger", options.max_messages_per_trigger),
    )
    for key, limit in limits:
        if limit is not None and limit > window:
            yield (
                f"{key} ({limit}) cannot be reached: prefetch allows at most {window} un-acked messages; "
                f"raise prefetch ({2 * limit} lets the next batch arrive meanwhile)"
            )
