"""Show the messages of a queue, oldest first, and leave them there.

RabbitMQ, Artemis and unknown brokers have to give the messages out and take
them back, which --yes allows: meanwhile no other consumer gets them, and except
on Artemis each then counts as delivered once more, so that a queue with a
delivery limit drops or dead-letters a message at its limit. A stream is shown
from -o startingOffsets=... on, at no cost.

examples:
  spark-stomp peek stomp://rabbit:61613 /queue/orders -n 3 --yes --login ada
  spark-stomp peek stomp://broker:61613 /queue/orders --bodies > orders.jsonl
"""

from __future__ import annotations

import argparse
import sys
from itertools import chain

from spark_stomp.brokers import Dialect
from spark_stomp.commands import FINE, UsageError
from spark_stomp.commands.connecting import add_broker_arguments, dialect_there, option_texts
from spark_stomp.commands.messages import REFUSED, add_message_arguments, showing
from spark_stomp.logs import set_level
from spark_stomp.options import SourceOptions, parse_batch_options
from spark_stomp.quoting import line
from spark_stomp.source.reads import browse, read_stream


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker_arguments(parser)
    parser.add_argument("destination", metavar="DESTINATION", help="such as /queue/orders")
    parser.add_argument("--yes", action="store_true", help="if the broker cannot browse, take and give back")
    add_message_arguments(parser, 1, "most messages")


def run(arguments: argparse.Namespace) -> int:
    more = {"maxMessages": str(arguments.n), "onMalformed": "column", "destination": arguments.destination}
    options = parse_batch_options(option_texts(arguments, REFUSED, **more))
    set_level(options.connection.log_level)
    none = f"{arguments.destination} has no messages"
    if not options.streams:
        dialect = dialect_there(options.connection)
        _require_allowed(dialect, options, yes=arguments.yes)
        elsewhere = "or they are un-acked at other consumers"
        none += f", {elsewhere}" if dialect.offset_header else f", {elsewhere}, or it is not there"
    with showing(arguments, options) as messages:
        streams = (read_stream(options, one) for one in options.streams)
        for batch, dialect in chain.from_iterable(streams) if options.streams else browse(options):
            messages.take(batch, dialect)
    if not messages.count:
        sys.stderr.write(line(none) + "\n")
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
