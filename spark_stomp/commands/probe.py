"""``spark-stomp probe``: says what the broker is, and what the connector will do with it."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Final

from spark_stomp.brokers import Dialect, dialect_of, plain_subscription
from spark_stomp.commands import EXIT_CODES, FAILED, FINE, UsageError, exit_code
from spark_stomp.commands.connecting import add_broker_arguments, option_texts
from spark_stomp.commands.terminal import Line, Terminal
from spark_stomp.commands.trial import Trial, findings, sentences, table
from spark_stomp.errors import StompError
from spark_stomp.logs import set_level
from spark_stomp.options import (
    ConnectionOptions,
    Endpoint,
    SourceOptions,
    parse_sink_options,
    parse_source_options,
)
from spark_stomp.quoting import line, shown
from spark_stomp.receiver import begin_of, require_streams
from spark_stomp.receiver.subscription import ReceiverSettings, choose_subscription, risks
from spark_stomp.transport import Connection, open_connection

Facts = Iterator[tuple[str, str]]

ABOUT: Final = """\
Connect to a broker, and say what it is and what the connector will do with it.
Each address of URL is tried. With a DESTINATION, also say how a stream read
would subscribe to it, and what could be lost. Nothing is subscribed to, sent
or consumed, except with --scratch: that sends a few messages to an empty queue
of yours, breaks connections on purpose, and says which guarantees hold."""

MORE: Final = f"""\
examples:
  spark-stomp probe stomp://localhost:61613
  spark-stomp probe stomp+ssl://broker:61614 --login ada --password-file secret -o tlsCaFile=ca.pem
  spark-stomp probe stomp://a:61613,stomp://b:61613 /topic/prices -o durableName=prices -o clientId=etl
  spark-stomp probe stomp://broker:61613 --scratch /queue/spark-stomp-probe
  spark-stomp probe stomp://broker:61613 --quiet || echo "the broker is down"

{EXIT_CODES}

If one address of several fails, the exit code is that of the first one that does."""

# Columns for the label of a line, and of the longest sentence.
_LABEL, _WIDTH = 16, 100


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


def run(arguments: argparse.Namespace) -> int:
    texts = option_texts(arguments)
    source: SourceOptions | None = None
    if arguments.destination is not None:
        if arguments.scratch is not None:
            raise UsageError("give DESTINATION or --scratch: --scratch reads and writes its own queue")
        source = parse_source_options(texts | {"destination": arguments.destination})
    connection = parse_sink_options(texts).connection if source is None else source.connection
    set_level(connection.log_level)
    terminal, code = Terminal(sys.stdout), FINE
    for endpoint in connection.endpoints:
        lines: list[Line] = [[(str(endpoint), "strong")]]
        try:
            lines += _probed(endpoint, connection, source)
            if arguments.scratch is not None:
                trial = Trial(parse_sink_options(texts), endpoint, arguments.scratch)
                tried, enough = _tried(trial, markdown=not terminal.interactive)
                lines += tried
                code = code or (FINE if enough else FAILED)
        except StompError as error:
            code = code or exit_code(error)
            lines.append([("  ", ""), (str(error), "bad")])
            if arguments.quiet:
                sys.stderr.write(line(f"spark-stomp: {endpoint}: {error}") + "\n")
        if not arguments.quiet:
            terminal.write(lines)
    return code


def _probed(endpoint: Endpoint, options: ConnectionOptions, source: SourceOptions | None) -> list[Line]:
    begun = time.monotonic()
    with open_connection(replace(options, endpoints=(endpoint,))) as connection:
        took = time.monotonic() - begun
        dialect = dialect_of(connection.session.server, options)
        facts = [*_broker(connection, options, dialect, took), *_treatment(dialect)]
        if source is not None:
            facts += _destination(dialect, source)
        connection.disconnect()
    return [[(f"  {label:<{_LABEL - 1}} ", "dim"), (text, "")] for label, text in facts]


def _tried(trial: Trial, *, markdown: bool) -> tuple[list[Line], bool]:
    """What a trial shows, and whether no message is lost with this broker."""
    trial.run()
    found = findings(trial)
    said = [*sentences(found, trial)]
    lines: list[Line] = [[("", "")]]
    lines += [[(text, "" if fine else "bad")] for text, fine in table(found, markdown=markdown)]
    lines.append([("", "")])
    for text, holds in said:
        lines += [[(part, "good" if holds else "bad")] for part in textwrap.wrap(text, _WIDTH)]
    return lines, all(holds for _, holds in said)


def _broker(connection: Connection, options: ConnectionOptions, dialect: Dialect, took: float) -> Facts:
    session = connection.session
    yield "broker", "(it does not say)" if session.server is None else shown(session.server)
    how = "" if options.broker == "auto" else ", from the option broker"
    if dialect.name == "generic" and not how:
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
        return "none: anyone on the network can read all messages" + (
            ", and the password" if options.login else ""
        )
    if tls.expires is None:
        return f"{tls.version}, {tls.cipher}; the certificate was not checked (tlsVerify = false)"
    days = (tls.expires - datetime.now(timezone.utc)).days
    return f"{tls.version}, {tls.cipher}; certificate valid until {tls.expires:%Y-%m-%d} ({days} days)"


def _treatment(dialect: Dialect) -> Facts:
    """What the dialect means for a query. Nothing is said of an unknown broker, which may do anything."""
    if dialect.name == "generic":
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
    if dialect.redelivery_limit is not None:
        limit = dialect.redelivery_limit
        yield "redelivery", f"by default a message is dropped or dead-lettered after {limit} deliveries"
    if dialect.count_limit is not None:
        limit = dialect.count_limit
        yield (
            "redelivery",
            f"quorum queues drop or dead-letter a message after {limit} redeliveries by default",
        )


def _destination(dialect: Dialect, source: SourceOptions) -> Facts:
    """How a streaming read would subscribe. Raises UnsupportedError if the read would be refused."""
    if source.of_streams:
        require_streams(dialect)
        for stream in source.destinations:
            yield stream, f"stream, id {plain_subscription(stream).id}"
            yield "  begins at", f"{begin_of(source, stream)}, if the checkpoint does not say"
        return
    for settings in ReceiverSettings.of(source):
        for destination in settings.destinations:
            chosen = choose_subscription(dialect, settings, destination)
            headers = dict(chosen.headers + dialect.subscribe_headers(destination, source.prefetch))
            yield destination, f"{dialect.kind(destination)}, id {chosen.id}"
            yield "  SUBSCRIBE", json.dumps(headers) if headers else "no more headers"
        for risk in risks(dialect, settings):
            yield "  note", risk
