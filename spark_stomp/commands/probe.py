"""Connect to a broker, and say what it is and what the connector will do with it.

Each address of URL is tried. With a DESTINATION, also say how a stream read
would subscribe to it, what could be lost, and how much waits there, if the
broker tells. No queue of yours is subscribed to, sent to or consumed, except
with --scratch: that sends a few messages to an empty one, breaks connections
on purpose, and says which guarantees hold.

If one address of several fails, the exit code is that of the first one.

examples:
  spark-stomp probe stomp+ssl://broker:61614 --login ada -o tlsCaFile=ca.pem
  spark-stomp probe stomp://broker:61613 --scratch /queue/spark-stomp-probe
  spark-stomp probe stomp://broker:61613 --quiet || echo "the broker is down"
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

from rich.box import MARKDOWN, SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table

from spark_stomp.brokers import Dialect, subscription_id
from spark_stomp.commands import FAILED, FINE, UsageError, exit_code
from spark_stomp.commands.connecting import add_broker_arguments, option_texts
from spark_stomp.commands.screen import WIDTH, Bar, Screen, add_progress_argument, labelled, safe_text
from spark_stomp.commands.trial import Trial, findings, sentences
from spark_stomp.errors import StompError, UnsupportedError
from spark_stomp.logs import set_level
from spark_stomp.options import (
    ConnectionOptions,
    Endpoint,
    SourceOptions,
    parse_sink_options,
    parse_source_options,
)
from spark_stomp.quoting import line, shown
from spark_stomp.receiver import disconnect, require_streams, stream_start
from spark_stomp.receiver.subscription import ReceiverSettings, choose_subscription, risks
from spark_stomp.transport import Connection, open_connection
from spark_stomp.transport.queues import QueueMissing, ask_if_queue
from spark_stomp.transport.standing import ask_standing

Facts = Iterator[tuple[str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker_arguments(parser)
    parser.add_argument("destination", nargs="?", metavar="DESTINATION", help="as in load(...)")
    parser.add_argument(
        "--scratch",
        metavar="QUEUE",
        help="try out on this empty queue what the connector needs; takes up to a minute. If it was declared "
        "on RabbitMQ, name it /amq/queue/NAME",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    add_progress_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    texts = option_texts(arguments)
    source: SourceOptions | None = None
    if arguments.destination is not None:
        if arguments.scratch is not None:
            raise UsageError("give DESTINATION or --scratch: --scratch reads and writes its own queue")
        source = parse_source_options(texts | {"destination": arguments.destination})
    connection = parse_sink_options(texts).connection if source is None else source.connection
    set_level(connection.log_level)
    code = FINE
    for endpoint in connection.endpoints:
        parts: list[RenderableType] = [safe_text(str(endpoint), "bold")]
        try:
            parts.append(_probed(endpoint, connection, source))
            if arguments.scratch is not None:
                trial = Trial(parse_sink_options(texts), endpoint, arguments.scratch)
                with Bar(shown=not (arguments.no_progress or arguments.quiet)) as bar:
                    trial.run(bar.say)
                tried, enough = _tried(trial, markdown=not sys.stdout.isatty())
                parts += tried
                code = code or (FINE if enough else FAILED)
        except StompError as error:
            code = code or exit_code(error)
            parts.append(labelled([("", safe_text(str(error), "red"))]))
            if arguments.quiet:
                sys.stderr.write(line(f"spark-stomp: {endpoint}: {error}") + "\n")
        if not arguments.quiet:
            Screen(sys.stdout).put(*parts, widest=WIDTH)
    return code


def _probed(endpoint: Endpoint, options: ConnectionOptions, source: SourceOptions | None) -> Table:
    begun = time.monotonic()
    with open_connection(replace(options, endpoints=(endpoint,))) as connection:
        connection.require_open()
        took = time.monotonic() - begun
        facts = [*_broker(connection, options, took), *_treatment(connection.dialect)]
        if source is not None:
            facts += _destination(connection, options, source)
        disconnect(connection, ())
    return labelled((f"  {label}", safe_text(text)) for label, text in facts)


def _tried(trial: Trial, *, markdown: bool) -> tuple[list[RenderableType], bool]:
    """The output of a trial, and whether reading and writing are at least once with this broker."""
    found = findings(trial)
    table = Table("check", "holds", "what was seen", box=MARKDOWN if markdown else SIMPLE_HEAD)
    words = {True: ("yes", "green"), False: ("no", "red"), None: ("not seen", "yellow")}
    for name, one in found.items():
        table.add_row(
            name, safe_text(*words[one.holds]), one.seen.replace("|", "\\|") if markdown else one.seen
        )
    checked = [*sentences(found, trial)]
    shown = [safe_text(text, "green" if holds else "red") for text, holds in checked]
    return [table, *shown], all(holds for _, holds in checked)


def _broker(connection: Connection, options: ConnectionOptions, took: float) -> Facts:
    session, dialect = connection.session, connection.dialect
    yield "broker", "(it does not say)" if session.server is None else shown(session.server)
    how = "" if options.broker == "auto" else ", from the option broker"
    if dialect.unknown_warning is not None and not how:
        how = ": unknown to the connector, unless the option broker names its kind"
    yield "dialect", dialect.name + how
    yield "STOMP", str(session.version)
    yield "login", f"accepted as {options.login}" if options.login else "none was given"
    yield "heart-beats", _heartbeats(session.heartbeat, options.heartbeat)
    yield "TLS", _tls(connection, options)
    yield "connected in", f"{took * 1000:.0f} ms"


def _heartbeats(agreed: tuple[int, int], offered: tuple[int, int]) -> str:
    ours, theirs = (f"every {one / 1000:g} s" if one else "none" for one in agreed)
    text = f"ours {ours}, the broker's {theirs}"
    if offered[1] and not agreed[1]:
        text += "; only TCP notices its end, within two minutes"
    return text


def _tls(connection: Connection, options: ConnectionOptions) -> str:
    tls = connection.tls
    if tls is None:
        password = ", and the password" if options.login else ""
        return f"none: anyone on the network can read all messages{password}"
    if tls.expires is None:
        return f"{tls.version}, {tls.cipher}; the certificate was not checked (tlsVerify = false)"
    days = (tls.expires - datetime.now(timezone.utc)).days
    return f"{tls.version}, {tls.cipher}; certificate valid until {tls.expires:%Y-%m-%d} ({days} days)"


def _treatment(dialect: Dialect) -> Facts:
    """What the dialect means for a query. Nothing is said of an unknown broker, which may do anything."""
    if dialect.unknown_warning is not None:
        return
    window = dialect.window_header or dialect.prefetch_header
    yield "window", f"set by {window}" if window else "unlimited: no header for prefetch is known"
    if dialect.id_header is None:
        yield "stable ids", "none: a redelivered message is a second row, unless idHeader names your own id"
    else:
        yield "stable ids", f"from {dialect.id_header}: a redelivered message is recognised"
    if dialect.browse_headers is not None:
        yield "batch reads", "browse the queue, at no cost"
    else:
        cost = "" if dialect.unsubscribe_returns else ": one delivery of each"
        yield "batch reads", f"take the messages and give them back{cost}"
    yield "selectors", "work" if dialect.selectors else "are refused: this broker has none"
    if (durable := dialect.durable_topics) is not None:
        yield "durable topics", "by durableName" + (" and clientId" if durable.needs_client_id else "")
    if (limit := dialect.most_deliveries) is not None:
        yield "redelivery", f"by default a message is dropped or dead-lettered after {limit} deliveries"
    if (limit := dialect.quorum_delivery_limit) is not None:
        yield (
            "redelivery",
            f"by default quorum queues drop or dead-letter a message after {limit} redeliveries",
        )


def _destination(connection: Connection, options: ConnectionOptions, source: SourceOptions) -> Facts:
    """How a streaming read would subscribe. Raises UnsupportedError if the read would be refused."""
    dialect = connection.dialect
    for stream in source.streams:
        require_streams(dialect)
        yield stream, f"stream, id {subscription_id(stream)}"
        yield "  begins at", f"{stream_start(source, stream).header}, if the checkpoint does not say"
    for settings in ReceiverSettings.of(source):
        if settings.of_stream:
            continue
        for destination in settings.destinations:
            chosen = choose_subscription(dialect, settings, destination)
            headers = dict(chosen.headers + dialect.subscribe_headers(destination, source.prefetch))
            # The id of a queue's subscription says nothing to people, others are looked for at the broker.
            shown_id = "" if dialect.is_queue(destination) else f", id {chosen.id}"
            yield destination, f"{dialect.kind(destination)}{shown_id}"
            if dialect.is_queue(destination) and dialect.offset_header is not None:
                yield "  queue", _presence(connection, options, destination)
            if dialect.is_queue(destination):
                yield "  waiting", _waiting(connection, options, destination)
            yield "  SUBSCRIBE", json.dumps(headers) if headers else "no more headers"
        for risk in risks(dialect, settings):
            yield "  note", risk


def _waiting(connection: Connection, options: ConnectionOptions, destination: str) -> str:
    """How much waits in the queue, if the broker tells."""
    connection.beat()
    try:
        figures = ask_standing(options, connection.dialect, destination, connection.peer)
    except UnsupportedError as error:
        return f"not known: {error.message}"
    return f"{figures}; {figures.alarm}" if figures.alarm else str(figures)


def _presence(connection: Connection, options: ConnectionOptions, destination: str) -> str:
    """Whether RabbitMQ has the queue. Raises UnsupportedError if it is a stream."""
    try:
        is_there = ask_if_queue(options, destination, connection.peer)
        return "is there" if is_there else "not known: the login may not ask, or has no second connection"
    except QueueMissing:
        declares = "; the query will declare it" if destination.startswith("/queue/") else ""
        return f"there is none{declares}"
