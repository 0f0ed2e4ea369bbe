"""Send messages: one for each line of FILE, or of standard input.

Each asks for a receipt, and the command has succeeded once every receipt has
come. If the connection breaks, the command connects again and sends again what
was not confirmed, so that a message may arrive twice. If it fails or is
interrupted, it says how many messages were confirmed.

examples:
  echo hello | spark-stomp send stomp://localhost:61613 /queue/orders
  spark-stomp send stomp://broker:61613 /queue/scans --whole *.png -o ttl=1h
  tail -f app.log | spark-stomp send stomp://broker:61613 /topic/log
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_stomp.columns import SinkColumns
from spark_stomp.commands import FINE, UsageError
from spark_stomp.commands.connecting import add_broker_arguments, option_texts
from spark_stomp.commands.lines import lines_of, require_readable
from spark_stomp.commands.screen import Bar, add_progress_argument
from spark_stomp.logs import set_level
from spark_stomp.options import SinkOptions, parse_sink_options
from spark_stomp.quoting import counted, line
from spark_stomp.sink.encoder import row_encoder
from spark_stomp.sink.sender import Sender
from spark_stomp.status.sink import TaskFigures

_NO_COLUMNS = "a message is a line or a file, and has no columns; give headers, such as an id, with --header"
_REFUSED: Final = {
    **dict.fromkeys(("headerColumns", "dedupKey", "dedupHeader"), _NO_COLUMNS),
    **dict.fromkeys(
        ("checkpointLocation", "queryName", "statusFile", "managementUrl"), "it belongs to a query"
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker_arguments(parser)
    parser.add_argument("destination", metavar="DESTINATION", help="such as /queue/orders")
    # Without a default, argparse would also ask for FILE if only DESTINATION is missing.
    parser.add_argument(
        "files", nargs="*", default=["-"], metavar="FILE", help="- is standard input (default)"
    )
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    parser.add_argument("--whole", action="store_true", help="send each FILE as one message")
    parser.add_argument("--quiet", action="store_true", help="do not say how many messages were confirmed")
    add_progress_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    options = _options(arguments)
    files = arguments.files
    require_readable(files)
    bodies = _whole(files) if arguments.whole else lines_of(files)
    # No bar while somebody types the messages.
    shown = not (arguments.quiet or arguments.no_progress or ("-" in files and sys.stdin.isatty()))
    with Sender(options, afterwards="none of them is sent again") as sender:
        try:
            with Bar(shown=shown, total=_size(files)) as bar:
                _send(bodies, sender, options, bar)
            if not arguments.quiet:
                sys.stderr.write(line(_summary(sender.figures, options)) + "\n")
        except KeyboardInterrupt:
            sent = counted(sender.figures.confirmed, "message")
            sys.stderr.write(f"\nconfirmed until now: {sent}; more may arrive\n")
            raise
    return FINE


def _options(arguments: argparse.Namespace) -> SinkOptions:
    more, refused = {"destination": arguments.destination}, dict(_REFUSED)
    headers = dict(_header(text) for text in arguments.header)
    if headers:
        more["sendHeaders"] = json.dumps(headers)
        refused["sendHeaders"] = "--header is given; give all headers in one way"
    options = parse_sink_options(option_texts(arguments, refused, **more))
    set_level(options.connection.log_level)
    return options


def _summary(figures: TaskFigures, options: SinkOptions) -> str:
    """How many messages were confirmed. With ``onError`` some lines may be dead letters or left out."""
    dead, dropped = figures.dead_lettered, figures.dropped
    text = f"{counted(figures.confirmed - dead, 'message')} to {options.destination}, confirmed by the broker"
    if dead:
        text += f"; {dead:,} that cannot be sent, to {options.message.dead_letter_destination}"
    return f"{text}; {dropped:,} left out that cannot be sent" if dropped else text


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        # The error does not quote the text: it may be a secret.
        raise UsageError("--header takes NAME=VALUE")
    return name, value


def _size(files: Sequence[str]) -> int | None:
    """How many bytes the files have; None if one of them is a pipe, whose end is not known."""
    return None if not all(map(os.path.isfile, files)) else sum(map(os.path.getsize, files))


def _send(bodies: Iterator[list[bytes]], sender: Sender, options: SinkOptions, bar: Bar) -> None:
    columns = SinkColumns(("body",), True)
    # Connect even if there are no messages: a wrong URL or login is an error then, too.
    encoder = row_encoder(options, columns, *sender.open())
    begun = time.monotonic()

    def done_so_far() -> str:
        confirmed = sender.figures.confirmed
        rate = confirmed / (time.monotonic() - begun)
        return f"{counted(confirmed, 'message')} confirmed, {rate:,.0f} a second"

    for chunk in bodies:
        for encoded in encoder.slices(pa.record_batch({"body": pa.array(chunk, pa.binary())})):
            sender.send(encoded)
            bar.say(done_so_far())
        # With the ends of the lines.
        bar.say(done_so_far(), done=sum(map(len, chunk)) + len(chunk))
    sender.finish()


def _whole(files: Sequence[str]) -> Iterator[list[bytes]]:
    for file in files:
        yield [sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()]
