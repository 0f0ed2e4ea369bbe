"""Show the messages of a queue, oldest first, and leave them there.

RabbitMQ, Artemis and unknown brokers have to give the messages out and take
them back, which --yes allows: meanwhile no other consumer gets them, and except
on Artemis each then counts as delivered once more, so that a queue with a
delivery limit drops or dead-letters a message at its limit. A stream is shown
from -o startingOffsets=... on, at no cost.

--schema prints the schema for a query that loses nothing of their JSON bodies,
to be pasted into it. In place of URL and DESTINATION it takes --file.

examples:
  spark-stomp peek stomp://rabbit:61613 /queue/orders -n 3 --yes --login ada
  spark-stomp peek stomp://broker:61613 /queue/orders --bodies > orders.jsonl
  spark-stomp peek --schema --file orders.jsonl
"""

from __future__ import annotations

import argparse
import sys
from itertools import chain, islice
from typing import Final

import pyarrow as pa

from spark_stomp.arrow import decode_frames
from spark_stomp.arrow.json_seen import Seen
from spark_stomp.brokers import Dialect
from spark_stomp.columns import MALFORMED, Projection
from spark_stomp.commands import FAILED, FINE, UsageError
from spark_stomp.commands.connecting import add_broker_arguments, dialect_there, option_texts
from spark_stomp.commands.lines import lines_of, require_readable
from spark_stomp.commands.messages import REFUSED, Messages, add_message_arguments, showing
from spark_stomp.commands.schema import NoType, schema_call
from spark_stomp.commands.screen import Bar
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.logs import set_level
from spark_stomp.options import SourceOptions, parse_batch_options
from spark_stomp.quoting import counted, line
from spark_stomp.source.reads import RowSettings, browse, read_stream

_SHOWN: Final = 10
# What ActiveMQ shows at most.
_OF_SCHEMA: Final = 400
_TEXTS: Final = Projection(("body", MALFORMED), pa.schema([("body", pa.string()), (MALFORMED, pa.string())]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker_arguments(parser, url_needed=False)
    parser.add_argument("destination", nargs="?", metavar="DESTINATION", help="such as /queue/orders")
    parser.add_argument("--yes", action="store_true", help="if the broker cannot browse, take and give back")
    most = f"most messages ({_SHOWN}; with --schema {_OF_SCHEMA}, of a FILE all)"
    schema = "print the schema that loses nothing of the bodies"
    add_message_arguments(parser, 1, most, None, schema=schema)
    parser.add_argument(
        "--file",
        nargs="+",
        default=[],
        metavar="FILE",
        help="with --schema: look at a body on each line of these; - is standard input",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.file:
        return _of_files(arguments)
    if arguments.destination is None:
        raise UsageError("URL and DESTINATION are needed, or --schema and --file")
    count = arguments.n or (_OF_SCHEMA if arguments.schema else _SHOWN)
    more = {"maxMessages": str(count), "onMalformed": "column", "destination": arguments.destination}
    if arguments.schema:
        more["bodyDecodeErrors"] = "column"
    options = parse_batch_options(option_texts(arguments, REFUSED, **more))
    set_level(options.connection.log_level)
    none = f"{arguments.destination} has no messages"
    if not options.streams:
        dialect = dialect_there(options.connection)
        _require_allowed(dialect, options, yes=arguments.yes)
        elsewhere = "or they are un-acked at other consumers"
        none += f", {elsewhere}" if dialect.offset_header else f", {elsewhere}, or it is not there"
    with showing(arguments, options, _Bodies if arguments.schema else Messages) as messages:
        streams = (read_stream(options, one) for one in options.streams)
        for batch, dialect in chain.from_iterable(streams) if options.streams else browse(options):
            messages.take(batch, dialect)
    if not messages.count:
        sys.stderr.write(line(none) + "\n")
        return FAILED if arguments.schema else FINE
    return messages.end()


class _Bodies(Messages):
    """Looks at bodies as a query reads them, and prints their schema at the end."""

    def __init__(self, arguments: argparse.Namespace, options: SourceOptions, bar: Bar) -> None:
        super().__init__(arguments, options, bar)
        self._seen = Seen()

    def take(self, batch: FrameBatch, dialect: Dialect) -> None:
        rules = RowSettings.of(self.options, _TEXTS).rules(dialect)
        for body, malformed in zip(*decode_frames(batch, _TEXTS, rules).to_pydict().values(), strict=True):
            if malformed is None:
                self._seen.add(body)
            else:
                self._seen.unfit[malformed] += 1
        self.count += len(batch.ends)
        self.say()

    def end(self) -> int:
        if self.count == self.options.max_messages:
            note = f"the schema is of the first {counted(self.count, 'message')}; -n takes more"
            sys.stderr.write(line(note) + "\n")
        return _print_schema(self._seen, self.arguments.destination)


def _of_files(arguments: argparse.Namespace) -> int:
    files, seen = arguments.file, Seen()
    if not arguments.schema:
        raise UsageError("--file goes with --schema")
    if arguments.url or arguments.option or arguments.login or arguments.password_file or arguments.yes:
        raise UsageError(
            "--file asks no broker: leave out URL, DESTINATION, -o, --login, --password-file, --yes"
        )
    require_readable(files)
    # No bar while somebody types the bodies.
    with Bar(shown=not (arguments.no_progress or ("-" in files and sys.stdin.isatty()))) as bar:
        bar.say(f"reading {', '.join(files)}")
        for body in islice(chain.from_iterable(lines_of(files)), arguments.n):
            seen.add(body)
    return _print_schema(seen, ", ".join("standard input" if one == "-" else one for one in files))


def _print_schema(seen: Seen, where: str) -> int:
    try:
        sys.stdout.write(schema_call(seen, where))
    except NoType as reason:
        sys.stderr.write(line(f"there is no schema: {reason}") + "\n")
        return FAILED
    return FINE


def _require_allowed(dialect: Dialect, options: SourceOptions, *, yes: bool) -> None:
    """Raise UsageError for a topic, or if looking has a price."""
    for one in options.destinations:
        if dialect.is_topic(one):
            raise UsageError(
                f"{one} is a topic, which keeps no messages; spark-stomp tail -f shows what comes"
            )
        if not yes and not dialect.browses(one):
            cost = "they are marked as redelivered, which counts as a delivery of each"
            if dialect.unsubscribe_returns:
                cost = "if this command is killed meanwhile, that counts as a delivery of each"
            raise UsageError(
                f"this broker ({dialect.name}) cannot show {one} without taking its messages and giving them "
                f"back. No other consumer gets them meanwhile, and {cost}. Add --yes if that is fine"
            )
