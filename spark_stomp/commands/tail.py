"""``spark-stomp tail``: shows the messages in a queue without consuming them, or follows a topic."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Final

from spark_stomp.brokers import Dialect
from spark_stomp.commands import EXIT_CODES, FINE, UsageError
from spark_stomp.commands.connecting import add_broker_arguments, option_texts
from spark_stomp.commands.terminal import Terminal
from spark_stomp.errors import StompError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.logs import set_level
from spark_stomp.options import SourceOptions, parse_batch_options
from spark_stomp.protocol import Frame
from spark_stomp.protocol.decoder import frames_in
from spark_stomp.quoting import shown, whole_number
from spark_stomp.source.browse import browse
from spark_stomp.source.stream_read import read_stream

ABOUT: Final = """\
Show the messages of a queue, oldest first, and leave them there. ActiveMQ and
the dev broker show a queue at no cost. RabbitMQ, Artemis and unknown brokers
cannot: the messages are taken and given back, which --yes allows. Meanwhile
no other consumer gets them. Except on Artemis, they are then marked as
redelivered, and each counts as delivered once more (a queue with a delivery
limit drops or dead-letters a message at its limit). A stream of RabbitMQ, with
-o startingOffsets=..., is shown at no cost."""

MORE: Final = f"""\
examples:
  spark-stomp tail stomp://localhost:61613 /queue/orders
  spark-stomp tail stomp://rabbit:61613 /queue/orders -n 3 --yes --login ada --password-file secret
  spark-stomp tail stomp://broker:61613 /queue/orders -n 1000 --bodies > orders.jsonl
  spark-stomp tail stomp://broker:61613 /topic/prices --follow --json | jq .body
  spark-stomp tail stomp://rabbit:61613 /amq/queue/log -o startingOffsets=earliest

{EXIT_CODES}"""

_REFUSED: Final = {
    "maxMessages": "-n says how many are shown",
    "bodyDecodeErrors": "bytes that are not text are shown escaped; --bodies and --json keep them",
    "idHeader": "every delivery is shown",
}
# 27 years, as the value of an option: longer than any run of the command.
_ENDLESS = "10000d"
# Most characters that are shown of a body or a reason.
_MOST_SHOWN = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker_arguments(parser)
    parser.add_argument("destination", metavar="DESTINATION", help="such as /queue/orders")
    parser.add_argument("-n", type=_count, default=10, metavar="COUNT", help="most messages (%(default)s)")
    parser.add_argument(
        "--follow", action="store_true", help="show what is published to a topic, until Ctrl-C or -n"
    )
    parser.add_argument(
        "--yes", action="store_true", help="take messages and give them back, if the broker cannot browse"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--bodies", action="store_true", help="print only the bodies, one a line, as send reads them"
    )
    form.add_argument(
        "--json", action="store_true", help="print JSON objects: destination, headers, body or body_base64"
    )


def run(arguments: argparse.Namespace) -> int:
    more = {"destination": arguments.destination, "maxMessages": str(arguments.n), "onMalformed": "column"}
    if arguments.follow:
        more |= {"allowLoss": "true", "idleTimeout": _ENDLESS, "maxDrainTime": _ENDLESS}
    options = parse_batch_options(option_texts(arguments, _REFUSED, **more))
    set_level(options.connection.log_level)
    show = _json if arguments.json else _bodies if arguments.bodies else _Shown()
    for batch, dialect in _batches(options, arguments):
        for frame in _frames(batch, options):
            show(frame, dialect, batch.malformed)
        sys.stdout.flush()
    return FINE


def _batches(options: SourceOptions, arguments: argparse.Namespace) -> Iterator[tuple[FrameBatch, Dialect]]:
    if not options.of_streams:
        try:
            yield from browse(options, _check(arguments))
        except _Refused as error:
            raise UsageError(error.message) from None
        return
    if arguments.follow:
        raise UsageError("--follow is for topics, and startingOffsets for streams")
    for stream in options.destinations:
        yield from read_stream(options, stream)


def _count(text: str) -> int:
    number = whole_number(text)
    if not number:
        raise argparse.ArgumentTypeError("must be a number from 1 on")
    return number


class _Refused(StompError):
    """What the arguments ask for is not shown by this broker. The text says what to write instead."""


def _check(arguments: argparse.Namespace) -> Callable[[Dialect, str], None]:
    def check(dialect: Dialect, destination: str) -> None:
        topic = dialect.is_topic(destination)
        if topic and not arguments.follow:
            raise _Refused(f"{destination} is a topic, which keeps no messages; --follow shows what comes")
        if arguments.follow and dialect.is_queue(destination):
            raise _Refused(
                f"--follow is for topics: {destination} is a queue, whose other consumers would get nothing"
            )
        if not topic and not dialect.browses(destination) and not arguments.yes:
            raise _Refused(_cost(dialect, destination))

    return check


def _cost(dialect: Dialect, destination: str) -> str:
    if dialect.unsubscribe_returns:
        cost = "if this command is killed meanwhile, that counts as a delivery of each"
    else:
        cost = "they are marked as redelivered, which counts as a delivery of each"
    return (
        f"this broker ({dialect.name}) cannot show {destination} without taking its messages and giving them "
        f"back. No other consumer gets them meanwhile, and {cost}. Add --yes if that is fine"
    )


def _frames(batch: FrameBatch, options: SourceOptions) -> Iterator[Frame]:
    """The frames of a batch. A malformed frame has no headers, and all its bytes as body."""
    if batch.malformed is not None:
        begin = 0
        for end in batch.ends:
            yield Frame("MESSAGE", (), bytes(batch.data[begin:end]))
            begin = end
        return
    yield from frames_in(bytes(batch.data), batch.version, options.connection.limits)


def _bodies(frame: Frame, dialect: Dialect, malformed: str | None) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(shown(_text(frame), len(frame.body)) + "\n")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(frame.body + b"\n")


def _json(frame: Frame, dialect: Dialect, malformed: str | None) -> None:
    row: dict[str, object] = {"destination": frame.get("destination"), "headers": _first(frame)}
    try:
        row["body"] = frame.body.decode()
    except UnicodeDecodeError:
        row["body_base64"] = base64.b64encode(frame.body).decode()
    if malformed is not None:
        row["malformed"] = malformed
    # ASCII, so that nothing can control the terminal. DEL is the only control character that JSON leaves.
    sys.stdout.write(json.dumps(row).replace("\x7f", "\\u007f") + "\n")


def _first(frame: Frame) -> dict[str, str]:
    """The headers; the first of repeated ones counts (STOMP 1.2, "Repeated Header Entries")."""
    return dict(reversed(frame.headers))


class _Shown:
    """Prints messages for people. None of their control characters reaches the terminal."""

    def __init__(self) -> None:
        self._terminal = Terminal(sys.stdout)
        self._number = 0

    def __call__(self, frame: Frame, dialect: Dialect, malformed: str | None) -> None:
        self._number += 1
        headers = _first(frame)
        facts = [f"{len(frame.body)} bytes"]
        sent = _time(headers.pop("timestamp", ""), dialect)
        if sent:
            facts.append(sent)
        if headers.pop("redelivered", "") == "true":
            facts.append("redelivered")
        where = shown(headers.pop("destination", ""))
        self._terminal.write([[(f"#{self._number} {where}", "strong"), (f"  {', '.join(facts)}", "dim")]])
        for name in ("subscription", "ack", "content-length"):
            headers.pop(name, None)
        lines = [f"  {shown(name)}: {shown(value, 200)}" for name, value in sorted(headers.items())]
        self._terminal.write([[(line, "dim")] for line in lines])
        if malformed is not None:
            self._terminal.write([[(f"  malformed: {shown(malformed, _MOST_SHOWN)}", "bad")]])
        self._terminal.write([[(shown(_text(frame), _MOST_SHOWN), "")]])


def _text(frame: Frame) -> str:
    return frame.body.decode(errors="backslashreplace")


def _time(stamp: str, dialect: Dialect) -> str:
    number = whole_number(stamp, most_digits=15)
    if number is None:
        return ""
    seconds = number / (1000 if dialect.timestamp_unit == "ms" else 1)
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return ""
