"""Finds bodies that are not the producer's octets: encoded ones of AMQP 1.0, and what a broker leaves out.

Text and binary values of AMQP are the usual case. Their octets lie in the body as they are, behind five or
eight others, so many are found together, and nothing is copied. :mod:`spark_stomp.arrow.amqp` reads all
others, one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.amqp import NotAmqp, read_content
from spark_stomp.arrow.columns import Bytes, Ints, array_of, flags_of, scalar, strings
from spark_stomp.brokers.bodies import ENCODING, BodyMarks
from spark_stomp.errors import BodyDecodeError
from spark_stomp.protocol import Frame
from spark_stomp.quoting import shown

NOT_TEXT: Final = "headers_not_text"
UNDECODED: Final = "bodies_undecoded"
LOST: Final = "bodies_lost"
HOLLOW: Final = "bodies_hollow"
UNFIT: Final = "bodies_unfit"
KINDS: Final = (NOT_TEXT, UNDECODED, LOST, HOLLOW, UNFIT)
_SERIALIZED: Final = (
    "the body is a map of StompJMS, as Java serializes it (transformation: MAP). Have the producer send text"
)
# Characters of a reason that is shown.
_MOST_SHOWN: Final = 200


class Flaw(NamedTuple):
    """Why a row is not what was sent: a kind, the message's destination, the broker's dialect, and a reason.

    The kinds are:

    - ``NOT_TEXT``: the value of a header is not text;
    - ``UNDECODED``: the body is marked as encoded and is not decoded, so the row has it as it came;
    - ``LOST``: a header says that the content is not in the frame;
    - ``HOLLOW``: the body is one that the broker also sends if it leaves the content out;
    - ``UNFIT``: the body is JSON for the query, and not all of it fits; ``reason`` is that of the first.
    """

    kind: str
    destination: str
    dialect: str
    reason: str = ""


@dataclass(frozen=True)
class Bodies:
    """The bodies of some messages. Body i begins at ``starts[i]``, unless it is ``replaced[i]``.

    ``reasons`` says of some why they are not what was sent, and ``flaws`` has the messages of each kind.
    """

    starts: Ints
    replaced: dict[int, bytes] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    flaws: dict[str, list[int]] = field(default_factory=dict)


def open_bodies(
    array: Bytes, found: Bodies, stops: Ints, column: Callable[[str], pa.Array], marks: BodyMarks
) -> None:
    """Decode the bodies ``array[found.starts[i]:stops[i]]`` that are encoded and not replaced already.

    What becomes of them is noted in ``found``. An octet must follow the last body. ``column`` has the first
    value of a header for each message.
    """
    starts = found.starts
    empty = _hollow(starts, stops, column, marks)
    maps = [*_maps_of_jms(array, starts, stops, column, marks)]
    encoded = _sections(array, starts, stops, column, marks)
    behind = _behind_constructor(array, starts[encoded], stops[encoded])
    for row in encoded[behind == 0].tolist():
        _decode(found, row, array[starts[row] : stops[row]].tobytes())
    starts[encoded] += behind
    known = {*found.replaced, *found.reasons, *encoded[behind > 0].tolist()}
    if marks.whole is not None:
        known.update(np.flatnonzero(flags_of(pc.equal(column(marks.whole), "true"))).tolist())
    for row, what in [*_left_out(column, marks), *maps]:
        if row not in known:
            known.add(row)
            found.flaws.setdefault(LOST, []).append(row)
            error = BodyDecodeError(f"the broker has left the content out, {what}. {marks.remedy}")
            found.reasons[row] = str(error)
    for row in _serialized(array, starts, stops, column):
        if row not in known:
            known.add(row)
            found.flaws.setdefault(UNDECODED, []).append(row)
            found.reasons[row] = str(BodyDecodeError(_SERIALIZED))
    if hollow := [row for row in empty.tolist() if row not in known]:
        found.flaws[HOLLOW] = hollow


def open_message(found: Bodies, row: int, frame: Frame, mark: str) -> Frame:
    """The message that is the body of ``frame`` if ``mark`` says so, with the headers of the frame first.

    What becomes of its body is noted in ``found``.
    """
    if frame.get(mark) != "true":
        return frame
    try:
        inner = read_content(frame.body)
    except NotAmqp as error:
        _leave(found, row, error)
        return frame
    found.replaced[row] = inner.body
    return Frame(frame.command, frame.headers + inner.headers, inner.body)


class OpenFrame(NamedTuple):
    """One message: ``amqp_type`` is its body's type in AMQP 1.0, ``reason`` why it is not what was sent."""

    frame: Frame
    amqp_type: str | None
    reason: str | None


def open_frame(frame: Frame, marks: BodyMarks) -> OpenFrame:
    """The message in ``frame``, as :func:`open_bodies` and :func:`open_message` find it."""
    found = Bodies(np.zeros(1, np.int64))
    message = frame if marks.message is None else open_message(found, 0, frame, marks.message)
    array, stops = np.frombuffer(frame.body + b"\0", np.uint8), np.array([len(frame.body)], np.int64)
    open_bodies(array, found, stops, lambda name: strings([frame.get(name)]), marks)
    body = found.replaced.get(0, frame.body[int(found.starts[0]) :])
    amqp_type = None if body == frame.body else read_content(frame.body).body_type
    return OpenFrame(Frame(message.command, message.headers, body), amqp_type, found.reasons.get(0))


def flaws_by_destination(
    kinds: Mapping[str, Sequence[int]], destinations: pa.Array, dialect: str
) -> Counter[Flaw]:
    """How many messages of each kind came from each destination."""
    return Counter(
        {
            Flaw(kind, one["values"], dialect): one["counts"]
            for kind, rows in kinds.items()
            for one in pc.coalesce(destinations.take(array_of(np.array(rows))), scalar(""))
            .value_counts()
            .to_pylist()
        }
    )


def unfit(reasons: Mapping[int, str], destinations: pa.Array, dialect: str) -> Counter[Flaw]:
    """How many bodies of each destination do not fit, with the first reason."""
    rows = sorted(reasons)
    names = [name or "" for name in destinations.take(array_of(np.array(rows, np.int64))).to_pylist()]
    first = {name: reasons[row] for name, row in zip(reversed(names), reversed(rows), strict=True)}
    counts = Counter(names)
    return Counter(
        {
            Flaw(UNFIT, name, dialect, shown(reason, _MOST_SHOWN)): counts[name]
            for name, reason in first.items()
        }
    )


def _sections(
    array: Bytes, starts: Ints, stops: Ints, column: Callable[[str], pa.Array], marks: BodyMarks
) -> Ints:
    """The messages whose body is marked as a section, and begins with the descriptor of one."""
    if marks.section is None:
        return np.empty(0, np.int64)
    name, value = marks.section
    rows = np.flatnonzero(flags_of(pc.equal(column(name), scalar(value))) & (stops - starts >= 4))
    at = starts[rows]
    section = array[at + 2]
    found: Ints = rows[(array[at] == 0) & (array[at + 1] == 0x53) & (section >= 0x75) & (section <= 0x77)]
    return found


def _behind_constructor(array: Bytes, at: Ints, stops: Ints) -> Ints:
    """How many octets come before the text or binary value that a section is; 0 if it is another one."""
    sizes = stops - at
    is_value, code = array[at + 2] == 0x77, array[at + 3]
    short = is_value & ((code == 0xA0) | (code == 0xA1)) & (sizes >= 5)
    short[short] = array[at[short] + 4] == sizes[short] - 5
    long = is_value & ((code == 0xB0) | (code == 0xB1)) & (sizes >= 8)
    octets = array[at[long][:, None] + np.arange(4, 8)].astype(np.int64)
    long[long] = octets @ np.array([1 << 24, 1 << 16, 1 << 8, 1]) == sizes[long] - 8
    behind: Ints = 5 * short.astype(np.int64) + 8 * long
    return behind


def _decode(found: Bodies, row: int, body: bytes) -> None:
    try:
        found.replaced[row] = read_content(body).body
    except NotAmqp as error:
        _leave(found, row, error)


def _leave(found: Bodies, row: int, error: NotAmqp) -> None:
    """Note that the body of ``row`` stays as it came."""
    found.flaws.setdefault(UNDECODED, []).append(row)
    found.reasons[row] = str(
        BodyDecodeError(f"the body is marked as AMQP 1.0 and cannot be decoded: {error}")
    )


def _left_out(column: Callable[[str], pa.Array], marks: BodyMarks) -> Iterator[tuple[int, str]]:
    """The messages whose headers say that their content is left out, and what it was."""
    for name, meanings in marks.lost_content.items():
        values = column(name)
        if values.null_count < len(values):
            for row in np.flatnonzero(flags_of(pc.is_in(values, strings(meanings)))).tolist():
                yield row, f"{meanings[values[row].as_py()]} ({name}: {values[row]})"
    if marks.scalars is not None:
        came, said = column(marks.scalars), column(ENCODING)
        if came.null_count < len(came):
            for row in np.flatnonzero(flags_of(pc.and_(came.is_valid(), said.is_null()))).tolist():
                yield row, f"a value of AMQP that is neither text nor octets (no {ENCODING})"


def _maps_of_jms(
    array: Bytes, starts: Ints, stops: Ints, column: Callable[[str], pa.Array], marks: BodyMarks
) -> Iterator[tuple[int, str]]:
    if marks.map_of_jms is None:
        return
    header, pattern = marks.map_of_jms
    # Of all that begin with a NUL, such a body ends with one or with 80.
    last = array[stops - 1]
    rows = np.flatnonzero((stops > starts) & (array[starts] == 0) & ((last == 0) | (last == 0x80)))
    if rows.size:
        rows = rows[flags_of(column(header).is_valid())[rows]]
    for row in rows.tolist():
        if pattern.fullmatch(array[starts[row] : stops[row]].tobytes()):
            yield row, "a map of JMS (by its octets)"


def _serialized(array: Bytes, starts: Ints, stops: Ints, column: Callable[[str], pa.Array]) -> list[int]:
    """The messages that are a map of StompJMS (seen with 1.19 in November 2026), whatever the broker is."""
    # An octet follows the last body.
    rows = np.flatnonzero((array[starts] == 0xAC) & (stops - starts > 1))
    rows = rows[array[starts[rows] + 1] == 0xED]
    if rows.size:
        rows = rows[flags_of(pc.fill_null(pc.equal(column("transformation"), scalar("MAP")), False))[rows]]
    found: list[int] = rows.tolist()
    return found


def _hollow(starts: Ints, stops: Ints, column: Callable[[str], pa.Array], marks: BodyMarks) -> Ints:
    """The messages whose body is empty and may stand for content that is left out."""
    rows = np.flatnonzero(starts == stops) if marks.hollow else starts[:0]
    if rows.size:
        rows = rows[flags_of(column(ENCODING).is_null())[rows]]
    if rows.size and marks.hollow_without_length:
        rows = rows[flags_of(column("content-length").is_null())[rows]]
    return rows
