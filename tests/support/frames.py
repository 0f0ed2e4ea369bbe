"""MESSAGE frames that real brokers made of messages of other protocols, and the rows that they give.

tests/data/frames has a file for each broker. It has the frames as they came, and their rows. Octets are
characters there (ISO 8859-1). The producers are in :mod:`support.producers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spark_stomp.arrow import decode_frames
from spark_stomp.brokers import dialect_named
from spark_stomp.columns import SOURCE_COLUMNS
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.options import parse_source_options
from spark_stomp.protocol import NEED_DATA, Frame, FrameScanner, MalformedMessage, MessageBlock
from spark_stomp.source.reads import RowSettings
from support.columns import projection_of

FOLDER = Path(__file__).parents[1] / "data" / "frames"
# Without those that say who read the frame and when, and the one that has all lines of its head.
_WITHOUT = ("received_at", "header_history", "receiver", "sequence", "stream_offset", "rescued")
_COLUMNS = projection_of(*(column.name for column in SOURCE_COLUMNS if column.name not in _WITHOUT))
Json = dict[str, Any]


def next_event(scanner: FrameScanner) -> MessageBlock | Frame | None:
    """What comes next; None if nothing is complete."""
    while (event := scanner.next_event()) is not NEED_DATA:
        if isinstance(event, MalformedMessage):
            return MessageBlock.of_malformed(event)
        if isinstance(event, MessageBlock | Frame):
            return event
    return None


def row_of(frame: bytes, dialect: str) -> Json:
    """The row of a frame: its columns that are not null."""
    scanner = FrameScanner("1.2", tolerant=True)
    scanner.receive_data(frame)
    block = next_event(scanner)
    assert isinstance(block, MessageBlock), block
    batch = FrameBatch(block.data, block.ends, 0, 0, "1.2", dialect, "", block.malformed)
    options = parse_source_options({"url": "stomp://localhost", "destination": "/queue/a"})
    rules = RowSettings.of(options, _COLUMNS).rules(dialect_named(dialect))
    (row,) = decode_frames(batch, _COLUMNS, rules).to_pylist()
    row |= {"headers": dict(row["headers"]), "body": octets(row["body"])}
    row["timestamp"] = row["timestamp"] and row["timestamp"].isoformat()
    return {name: value for name, value in row.items() if value is not None}


def octets(data: bytes) -> str:
    """Octets as characters."""
    return data.decode("iso-8859-1")


def lines_of(frame: bytes) -> list[str]:
    """The frame as a file has it."""
    return octets(frame).split("\n")


class Recorded:
    """The file of a broker: by the name of each message its frame and its row."""

    def __init__(self, broker: str) -> None:
        self._path = FOLDER / f"{broker}.json"
        self._dialect = broker.partition("-")[0]
        text = self._path.read_text(encoding="ascii") if self._path.exists() else "{}"
        self.messages: Json = json.loads(text)

    def frame(self, name: str) -> bytes:
        return "\n".join(self.messages[name]["frame"]).encode("iso-8859-1")

    def row(self, name: str) -> Json:
        row: Json = self.messages[name]["row"]
        return row

    def rows_now(self) -> dict[str, Json]:
        """What the frames give with the package as it is."""
        return {name: row_of(self.frame(name), self._dialect) for name in self.messages}

    def write(self, frames: Mapping[str, bytes], without: Iterable[str] = ()) -> None:
        """Write the file again, with further frames and new rows, and without some messages."""
        kept = {name: self.frame(name) for name in self.messages if name not in {*without}} | {**frames}
        parts = [f"{json.dumps(name)}: {self._shown(frame)}" for name, frame in sorted(kept.items())]
        FOLDER.mkdir(exist_ok=True)
        self._path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="ascii")
        self.messages = json.loads(self._path.read_text(encoding="ascii"))

    def _shown(self, frame: bytes) -> str:
        lines = ",\n".join(f"  {json.dumps(line)}" for line in lines_of(frame))
        row = row_of(frame, self._dialect)
        columns = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in row.items())
        return f'{{\n "frame": [\n{lines}],\n "row": {{\n{columns}}}\n}}'
