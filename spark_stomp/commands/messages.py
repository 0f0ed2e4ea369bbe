"""How ``peek`` and ``tail`` show messages: for people, as JSON, or their bodies alone."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from itertools import pairwise
from typing import Final

from rich.text import Text

from spark_stomp.arrow.content import OpenFrame, open_frame
from spark_stomp.brokers import Dialect
from spark_stomp.commands import FINE, UsageError
from spark_stomp.commands.screen import Bar, Screen, add_progress_argument, json_line, json_text, safe_text
from spark_stomp.errors import DestinationRefused, UnsupportedError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import Frame, read_message
from spark_stomp.quoting import counted, shown, whole_number

REFUSED: Final = {
    "maxMessages": "-n says how many are shown",
    "bodyDecodeErrors": "bytes that are not text are shown escaped; --bodies and --json keep them",
    "idHeader": "every delivery is shown",
}
OF_QUEUES: Final = (
    "to show its newest messages, the broker would have to deliver all before them once more, which a "
    "delivery limit counts. spark-stomp peek shows its oldest ones"
)
_OF_STREAMS: Final = (
    "spark-stomp tail shows its newest messages, peek -o startingOffsets=... those from there on"
)
# Most characters that are shown of a body or a reason.
_MOST_SHOWN = 500


def add_message_arguments(
    parser: argparse.ArgumentParser, least: int, newest: str, default: int | None = 10, **forms: str
) -> None:
    """Add the arguments that say how many messages are shown, at least ``least``, and in which form.

    ``forms`` has the meanings of further forms by their names.
    """

    def count(text: str) -> int:
        number = whole_number(text)
        if number is None or number < least:
            raise argparse.ArgumentTypeError(f"must be a number from {least} on")
        return number

    parser.add_argument("-n", type=count, default=default, metavar="COUNT", help=newest)
    form = parser.add_mutually_exclusive_group()
    forms |= {"bodies": "print only the bodies, as send reads them"}
    forms |= {"json": "print a JSON object on a line for each message"}
    for name, meaning in forms.items():
        form.add_argument(f"--{name}", action="store_true", help=meaning)
    add_progress_argument(parser)


@contextmanager
def showing(
    arguments: argparse.Namespace, options: SourceOptions, messages_class: type[Messages] | None = None
) -> Iterator[Messages]:
    """Shows messages while the ``with`` lasts, and in the terminal how many there were.

    What the broker refuses is said in words of the commands.
    """
    what = arguments.destination
    try:
        with Bar(shown=not arguments.no_progress) as bar:
            yield (messages_class or Messages)(arguments, options, bar)
    except (DestinationRefused, UnsupportedError) as error:
        if "NOT_FOUND" in error.message:
            raise DestinationRefused(f"{what} is not there") from error
        if "'x-stream-offset'" in error.message:
            raise UsageError(f"{what} is a queue: {OF_QUEUES}") from error
        if "is a stream" in error.message:
            raise UsageError(f"{what} is a stream: {_OF_STREAMS}") from error
        raise


class Messages:
    """Prints messages. None of their control characters reaches the terminal.

    Attributes:
        count: how many messages have been shown.
        arguments: those of the command.
        options: those of the read.
    """

    def __init__(self, arguments: argparse.Namespace, options: SourceOptions, bar: Bar) -> None:
        self.count = 0
        self.options = options
        self.arguments = arguments
        self._bar = bar

    def take(self, batch: FrameBatch, dialect: Dialect) -> None:
        """Show the frames in ``batch``."""
        # Printed together, because in a terminal the bar below them is drawn again each time.
        terminal, drawn = sys.stdout.isatty(), list[Text]()
        for frame, amqp_type, malformed in _frames(batch, dialect, self.options):
            self.count += 1
            if self.arguments.json:
                row = _row(frame, malformed)
                if terminal:
                    drawn.append(json_text(row))
                else:
                    sys.stdout.write(json_line(row) + "\n")
            elif not self.arguments.bodies:
                drawn += _for_people(self.count, frame, dialect, amqp_type, malformed)
            elif terminal:
                drawn.append(safe_text(_text(frame)))
            else:
                sys.stdout.buffer.write(frame.body + b"\n")
        if drawn:
            (self._bar.screen if terminal else Screen(sys.stdout)).whole(*drawn)
        sys.stdout.flush()
        self.say()

    def end(self) -> int:
        """Print what comes after the messages; returns the exit code."""
        return FINE

    def say(self) -> None:
        """Show below the messages how many there were."""
        self._bar.say(f"{counted(self.count, 'message')} of {self.arguments.destination}")


def _frames(batch: FrameBatch, dialect: Dialect, options: SourceOptions) -> Iterator[OpenFrame]:
    """The messages of a batch. A malformed frame has no headers, and all its bytes as body."""
    marks = dialect.bodies if options.amqp_bodies == "decoded" else dialect.bodies.of_raw()
    for begin, end in pairwise([0, *batch.ends]):
        data = bytes(batch.data[begin:end])
        if batch.malformed is None:
            yield open_frame(read_message(data, batch.version), marks)
        else:
            yield OpenFrame(Frame("MESSAGE", (), data), None, batch.malformed)


def _row(frame: Frame, malformed: str | None) -> dict[str, object]:
    row: dict[str, object] = {"destination": frame.get("destination"), "headers": _first(frame)}
    try:
        row["body"] = frame.body.decode()
    except UnicodeDecodeError:
        row["body_base64"] = base64.b64encode(frame.body).decode()
    return row if malformed is None else row | {"malformed": malformed}


def _for_people(
    number: int, frame: Frame, dialect: Dialect, amqp_type: str | None, malformed: str | None
) -> Iterator[Text]:
    headers = _first(frame)
    facts = [f"  {len(frame.body):,} bytes", _time(headers.pop("timestamp", ""), dialect)]
    facts += [] if amqp_type is None else [f"AMQP 1.0, {amqp_type}"]
    facts += ["redelivered"] if headers.pop("redelivered", "") == "true" else []
    head = safe_text(f"#{number} {shown(headers.pop('destination', ''))}", "bold")
    yield head.append_text(safe_text(", ".join(filter(None, facts)), "not bold dim"))
    for name in sorted(headers.keys() - {"subscription", "ack", "content-length"}):
        yield safe_text(f"  {shown(name)}: {shown(headers[name], 200)}", "dim")
    if malformed is not None:
        yield safe_text(f"  malformed: {shown(malformed, _MOST_SHOWN)}", "red")
    yield safe_text(shown(_text(frame), _MOST_SHOWN))


def _first(frame: Frame) -> dict[str, str]:
    """The headers; the first of repeated ones counts (STOMP 1.2, "Repeated Header Entries")."""
    return dict(reversed(frame.headers))


def _text(frame: Frame) -> str:
    return frame.body.decode(errors="backslashreplace")


def _time(stamp: str, dialect: Dialect) -> str:
    """A time of the broker for people; "" if it is none between 1970 and 2286."""
    in_ms = dialect.timestamp_unit == "ms"
    number = whole_number(stamp, most_digits=13 if in_ms else 10)
    if number is None:
        return ""
    moment = datetime.fromtimestamp(number / (1000 if in_ms else 1), timezone.utc)
    return moment.isoformat(timespec="seconds")
