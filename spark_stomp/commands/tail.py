"""Show the newest messages of a stream of RabbitMQ, and with -f what comes then.

A topic keeps no messages: of it -f shows what comes. No message is taken from
anyone. The oldest messages of a queue are shown by spark-stomp peek.

examples:
  spark-stomp tail stomp://rabbit:61613 /amq/queue/log -n 20 --login ada
  spark-stomp tail stomp://broker:61613 /topic/prices -f --json | jq .body
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from spark_stomp.brokers import Dialect
from spark_stomp.brokers.rabbitmq import BY_NAME, stream_name
from spark_stomp.commands import FINE, UsageError
from spark_stomp.commands.connecting import add_broker_arguments, dialect_there, option_texts
from spark_stomp.commands.messages import OF_QUEUES, REFUSED, add_message_arguments, showing
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.logs import set_level
from spark_stomp.options import SourceOptions, parse_batch_options
from spark_stomp.quoting import line
from spark_stomp.source.reads import browse, tail_stream

_UNUSED = ("startingOffsets", "endingOffsets", "maxDrainTime", "allowLoss")
_ENDS: Final = "tail begins -n messages before the end of a stream, and ends there, or with -f at Ctrl-C"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker_arguments(parser)
    parser.add_argument("destination", metavar="DESTINATION", help="such as /amq/queue/log or /topic/prices")
    parser.add_argument("-f", "--follow", action="store_true", help="show what comes, until Ctrl-C")
    add_message_arguments(parser, 0, "most messages of a stream that are there already (10)")


def run(arguments: argparse.Namespace) -> int:
    more = {"destination": arguments.destination, "onMalformed": "column"}
    options = parse_batch_options(option_texts(arguments, REFUSED | dict.fromkeys(_UNUSED, _ENDS), **more))
    set_level(options.connection.log_level)
    with showing(arguments, options) as messages:
        batches = _batches(options, arguments.n, follows=arguments.follow)
        messages.say()
        for batch, dialect in batches:
            messages.take(batch, dialect)
    if arguments.n and not messages.count:
        sys.stderr.write(line(f"{arguments.destination} has no messages to show") + "\n")
    return FINE


def _batches(options: SourceOptions, count: int, *, follows: bool) -> Iterator[tuple[FrameBatch, Dialect]]:
    """What to show. Raises UsageError if the destination is no stream, and no topic to follow."""
    destination, *others = options.destinations
    if others:
        raise UsageError("tail shows one stream or one topic")
    dialect = dialect_there(options.connection)
    if dialect.offset_header is not None and destination.startswith((BY_NAME, "/queue/")):
        if options.selector is not None:
            dialect.check_selector((("selector", options.selector),))
        # By the name that declares nothing.
        return tail_stream(options, BY_NAME + stream_name(destination), count, follows=follows)
    if dialect.is_queue(destination):
        raise UsageError(f"{destination} is a queue: {OF_QUEUES}")
    if not dialect.is_topic(destination):
        raise UsageError(
            f"whether {destination} is a queue or a topic is not known on this broker ({dialect.name}), and "
            "a queue would give its messages: for a topic add -o destinationType=topic"
        )
    if not follows:
        raise UsageError(f"{destination} is a topic, which keeps no messages; -f shows what comes")
    endless = replace(options, idle_timeout=math.inf, max_drain_time=math.inf, max_messages=sys.maxsize)
    return browse(replace(endless, allow_loss=True))
